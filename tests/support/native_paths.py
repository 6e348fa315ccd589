"""The CPU library by every path that this machine has, and with AMX tiles that are emulated.

Built in the user's own cache, so that compiling is waited for once.
"""

from functools import cache
from pathlib import Path

import pytest
from compiled import compiler

from spectra.io.cache_home import cache_home
from spectra.io.hashes import file_sha256
from spectra.target.native.library import COMMON, FLAGS, Library, LibraryError, load, paths_here

EMULATION = Path(__file__).with_name("amx_emulation.h")
EMULATED = "amx emulated"
FOLDER = cache_home() / "native"
"""Asked for before any test gives itself a private cache."""


def paths() -> list[str]:
    try:
        there = paths_here()
    except LibraryError:
        return []
    return [*there, EMULATED] if "avx512_bf16" in there else there


def _emulating() -> tuple[str, ...]:
    return (f"-DSPECTRA_EMULATED_AMX=0x{file_sha256(EMULATION)[:7]}", "-DSPECTRA_AMX=1", "-O3", f"-I{EMULATION.parent}")


def flags_of(path: str) -> tuple[str, ...]:
    return (*COMMON, *(FLAGS[path] if path != EMULATED else (*FLAGS["avx512_bf16"], *_emulating())))


@cache
def _built(path: str) -> Library:
    return load([path], FOLDER) if path != EMULATED else load(["avx512_bf16"], FOLDER, _emulating())


def library(path: str | None = None, threads: int = 2) -> Library:
    """path: None for the best one. Skips the test where the machine has none or no compiler."""
    if not paths() or compiler() is None:
        pytest.skip("no compiler, or a CPU without AVX2")
    return _built(path or paths()[0]).with_threads(threads)


def row_counts(path: str | None) -> list[int]:
    """1 to 130; the emulation is slow and has tiles of 16 rows."""
    return [1, 2, 15, 16, 17, 31, 32, 33, 48, 49, 64, 65, 130] if path == EMULATED else list(range(1, 131))


every_path = pytest.mark.parametrize("path", paths() or [None])
