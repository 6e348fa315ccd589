"""JSON from outside, whatever it is."""

import json
from collections.abc import Callable
from typing import Any


def parse_json(text: str | bytes, parse_constant: Callable[[str], Any] | None = None) -> Any:
    """What `json.loads` gives. Raises ValueError for everything that is not JSON, too deeply nested text included."""
    try:
        return json.loads(text, parse_constant=parse_constant)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
