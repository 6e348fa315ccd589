"""Arrays written to files so that a full disk is reported."""

from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray


class _Writer:
    """A file that numpy takes for none, so that it writes through Python."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def write(self, data: bytes) -> int:
        return self._file.write(data)


def write_array(file: IO[bytes], array: NDArray[Any]) -> None:
    """`np.save`, the same bytes. That one writes through C, and an error of the last 4 KiB is lost: the file is short.

    Raises OSError, here or where the file is closed.
    """
    np.save(_Writer(file), array, allow_pickle=False)


def save_array(path: Path, array: NDArray[Any]) -> None:
    """`write_array` to a file of its own. Raises OSError where it cannot be written whole."""
    with path.open("wb") as file:
        write_array(file, array)
