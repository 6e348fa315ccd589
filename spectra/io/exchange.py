"""Two folders swap their names in one step, so that at every moment each name is one of a whole folder."""

import ctypes
import errno
import os
import sys
from pathlib import Path

HERE = -100  # AT_FDCWD: a relative name starts at the current folder
SWAP = 2  # RENAME_EXCHANGE of Linux, RENAME_SWAP of macOS
CANNOT = (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP)


def exchange(one: Path, other: Path) -> bool:
    """Swap the names of two folders of one file system. False where the system or the file system cannot.

    Raises OSError where it could and does not.
    """
    library = ctypes.CDLL(None, use_errno=True)
    names = os.fsencode(one), os.fsencode(other)
    swap = getattr(library, "renamex_np" if sys.platform == "darwin" else "renameat2", None)
    if swap is None:
        return False
    failed = swap(*names, SWAP) if sys.platform == "darwin" else swap(HERE, names[0], HERE, names[1], SWAP)
    if not failed:
        return True
    if (number := ctypes.get_errno()) in CANNOT:
        return False
    raise OSError(number, os.strerror(number), str(other))
