"""One process at a time: a lock on an open file, which ends with the file or the process."""

import fcntl
from typing import IO

from spectra.errors import SpectraError


def take_lock(file: IO[str] | IO[bytes] | int, busy: str) -> None:
    """Lock an open file or descriptor. Raises SpectraError for "out", with `busy`, while another process holds it."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise SpectraError("out", busy) from None
