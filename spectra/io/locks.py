"""One process at a time: a lock on an open file, which ends with the file or the process."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from spectra.errors import SpectraError


def take_lock(file: IO[str] | IO[bytes] | int, busy: str) -> None:
    """Lock an open file or descriptor. Raises SpectraError for "out", with `busy`, while another process holds it."""
    if not try_lock(file):
        raise SpectraError("out", busy)


def try_lock(file: IO[str] | IO[bytes] | int) -> bool:
    """Lock an open file or descriptor. False while another process holds it, or where there are no locks."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


@contextmanager
def in_turn(folder: Path) -> Iterator[bool]:
    """Wait until no other process is inside for this folder. False: its file system knows no such locks, and nothing
    was waited for. Raises OSError where the folder cannot be read.
    """
    descriptor = os.open(folder, os.O_RDONLY)
    locked = False
    try:
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            locked = True
        yield locked
    finally:
        os.close(descriptor)
