"""Which prompts a datastore's texts answer, as hashes: enough to tell that a benchmark prompt is not among them.

A prompt is hashed in lower case with its white space collapsed. The hashes of a store are kept sorted, 32 bytes each.
"""

import hashlib
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from spectra.datastore.layout import SOURCES
from spectra.errors import SpectraError
from spectra.io.arrays import save_array
from spectra.io.bounded import lines_of, open_regular

WIDTH = 32
NONE = bytes(WIDTH)
"""Stands for a text that answers no prompt."""


def normalised(text: str) -> str:
    """Lower case, one space between words: equal for texts that differ in layout alone."""
    return " ".join(text.lower().split())


def digest(text: str) -> bytes:
    """sha256 of the normalised text; lone surrogates count as question marks."""
    return hashlib.sha256(normalised(text).encode("utf-8", "replace")).digest()


def read_hashes(file: Path) -> frozenset[bytes]:
    """A list of hashes in hex, one a line, as `python -m spectra.bench prompts` prints it."""
    try:
        with open_regular(file) as lines:
            words = [word for line in lines_of(lines) for word in line.decode("utf-8").split()]
        found = frozenset(map(bytes.fromhex, words))
    except OSError as error:
        raise SpectraError("exclude", f"{file} cannot be read ({error.strerror}); give a list of hashes") from error
    except ValueError as error:
        raise SpectraError("exclude", f"{file} is not a list of hashes; give sha256 in hex, one a line") from error
    if any(len(one) != WIDTH for one in found):
        raise SpectraError("exclude", f"{file} holds hashes that are not sha256; give 64 hex digits a line")
    return found


def list_sha256(hashes: Iterable[bytes]) -> str:
    """One hash of a list of them, whatever its order."""
    return hashlib.sha256(b"".join(sorted(hashes))).hexdigest()


def write_sources(folder: Path, digests: Iterable[bytes]) -> int:
    """Write each hash once; returns how many there are."""
    unique = sorted(set(digests) - {NONE})
    table = np.frombuffer(b"".join(unique), np.uint8).reshape(len(unique), WIDTH)
    save_array(folder / SOURCES, table)
    return len(unique)


def read_sources(folder: Path) -> set[str]:
    """The hashes in a store's folder, in hex."""
    return {row.tobytes().hex() for row in np.load(folder / SOURCES, allow_pickle=False)}
