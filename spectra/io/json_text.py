"""JSON from outside, whatever it is."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

MAX_BYTES = 100_000_000
"""Of a file that `read_json` reads: a larger one, or a device without an end, is the wrong file."""


def parse_json(text: str | bytes, parse_constant: Callable[[str], Any] | None = None) -> Any:
    """What `json.loads` gives. Raises ValueError for everything that is not JSON, too deeply nested text included."""
    try:
        return json.loads(text, parse_constant=parse_constant)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def read_json(path: Path) -> Any:
    """What `parse_json` gives of a UTF-8 file. Raises OSError, or ValueError for one over MAX_BYTES too."""
    with path.open("rb") as file:
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise ValueError(f"it is over {MAX_BYTES // 1_000_000} MB")
    return parse_json(data.decode("utf-8"))
