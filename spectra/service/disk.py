"""Files that the server keeps for a visitor: where its disk refuses them, a line says so and names no place on it."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from spectra.errors import SpectraError


@contextmanager
def disk_told(field: str) -> Iterator[None]:
    """Raises SpectraError for the field in the place of an OSError."""
    try:
        yield
    except OSError as error:
        why = os.strerror(error.errno) if error.errno else "it is full or cannot be written"
        raise SpectraError(field, f"the server's disk refused its files ({why}); try again later") from error
