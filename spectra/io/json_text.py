"""JSON from outside, whatever it is."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from spectra.io.bounded import read_whole


def parse_json(text: str | bytes, parse_constant: Callable[[str], Any] | None = None) -> Any:
    """What `json.loads` gives. Raises ValueError for everything that is not JSON, too deeply nested text included."""
    try:
        return json.loads(text, parse_constant=parse_constant)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def most_values(text: bytes) -> int:
    """How many values JSON can hold at most, told without a value made. Raises ValueError for what is no text.

    A megabyte of empty lists needs seconds and fifty times its size to be read.
    """
    decoded = text.decode(json.detect_encoding(text), "surrogatepass")
    quotes = decoded.replace("\\\\", "").replace('\\"', "")
    outside = "".join(quotes.split('"')[::2])
    return 1 + sum(outside.count(sign) for sign in "[{,:")


def read_json(path: Path) -> Any:
    """What `parse_json` gives of a UTF-8 file. Raises OSError as `read_whole` does, and ValueError."""
    return parse_json(read_whole(path).decode("utf-8"))
