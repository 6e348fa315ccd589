"""Files from outside, read up to a bound: a larger one, or a device or pipe without an end, is the wrong file."""

import errno
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

MAX_BYTES = 100_000_000
"""Of a file that is read as a whole, and of a line of one that is read by lines."""


class ByLines(Protocol):
    """A file open for reading bytes, packed or not."""

    def readline(self, size: int, /) -> bytes: ...


def read_whole(path: Path) -> bytes:
    """Raises OSError, for one over MAX_BYTES too."""
    with path.open("rb") as file:
        data = file.read(MAX_BYTES + 1)
    return _bounded(data, "it")


def lines_of(file: ByLines) -> Iterator[bytes]:
    """Its lines with their ends. Raises OSError, for a line over MAX_BYTES too."""
    while line := file.readline(MAX_BYTES + 1):
        yield _bounded(line, "a line")


def _bounded(data: bytes, what: str) -> bytes:
    if len(data) > MAX_BYTES:
        raise OSError(errno.EFBIG, f"{what} is over {MAX_BYTES // 1_000_000} MB")
    return data
