"""JSON from outside, whatever it is."""

import gc
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from spectra.io.bounded import read_whole


def parse_json(text: str | bytes, parse_constant: Callable[[str], Any] | None = None) -> Any:
    """What `json.loads` gives. Raises ValueError for everything that is not JSON, too deeply nested text included."""
    collects = gc.isenabled()
    gc.disable()  # of what was read nothing is garbage; to look for some took most of the time, and all threads waited
    try:
        return json.loads(text, parse_constant=parse_constant)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    finally:
        if collects:
            gc.enable()


def most_values(text: bytes) -> int:
    """How many values JSON can hold at most, told without a value made. Raises ValueError for what is no text.

    A megabyte of empty lists needs seconds and fifty times its size to be read.
    """
    decoded = text.decode(json.detect_encoding(text), "surrogatepass")
    quotes = decoded.replace("\\\\", "").replace('\\"', "")
    outside = "".join(quotes.split('"')[::2])
    return 1 + sum(outside.count(sign) for sign in "[{,:")


class TooManyError(ValueError):
    """JSON of more values than its reader takes."""


def read_json(path: Path, most: int | None = None) -> Any:
    """What `parse_json` gives of a UTF-8 file. Raises OSError as `read_whole` does, and ValueError.

    most: values that it may have; TooManyError for more, before they are made.
    """
    text = read_whole(path)
    if most is not None and most_values(text) > most:
        raise TooManyError(f"over {most:,} values")
    return parse_json(text.decode("utf-8"))
