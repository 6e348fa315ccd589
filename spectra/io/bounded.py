"""Files from outside: a pipe, which would be waited for, a device and what is over a bound are the wrong file."""

import errno
import os
import stat
from collections.abc import Iterator
from io import BufferedReader
from pathlib import Path
from typing import Protocol

MAX_BYTES = 100_000_000
"""Of a file that is read as a whole, and of a line of one that is read by lines."""


class ByLines(Protocol):
    """A file open for reading bytes, packed or not."""

    def readline(self, size: int, /) -> bytes: ...


def open_regular(path: Path) -> BufferedReader:
    """Open for reading bytes. Raises OSError, for what is no regular file too, without waiting for a pipe's writer."""
    return open(path, "rb", opener=_regular)


def read_whole(path: Path) -> bytes:
    """Raises OSError as `open_regular` does, and for one over MAX_BYTES."""
    with open_regular(path) as file:
        data = file.read(MAX_BYTES + 1)
    return _bounded(data, "it")


def lines_of(file: ByLines) -> Iterator[bytes]:
    """Its lines with their ends. Raises OSError, for a line over MAX_BYTES too."""
    while line := file.readline(MAX_BYTES + 1):
        yield _bounded(line, "a line")


def _regular(path: str, flags: int) -> int:
    descriptor = os.open(path, flags | os.O_NONBLOCK)
    kind = os.fstat(descriptor).st_mode
    if stat.S_ISREG(kind):
        return descriptor
    os.close(descriptor)
    if stat.S_ISDIR(kind):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    raise OSError(errno.EINVAL, "it is no regular file", str(path))


def _bounded(data: bytes, what: str) -> bytes:
    if len(data) > MAX_BYTES:
        raise OSError(errno.EFBIG, f"{what} is over {MAX_BYTES // 1_000_000} MB")
    return data
