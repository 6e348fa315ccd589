"""Whether this machine can compile the native step, and what is compiled of its headers alone."""

import shutil
import subprocess
from pathlib import Path

import pytest

from spectra.target.native.flags import COMMON, COMPILERS, FLAGS, SOURCE
from spectra.target.native.library import native_library, native_reason


def needs_native():
    """Skip the test where the library is not available."""
    if native_library() is None:
        pytest.skip(f"no native step here: {native_reason()}")


def compiler() -> str | None:
    """A C++ compiler that is installed here, by its path."""
    return next(filter(None, map(shutil.which, COMPILERS)), None)


def compiled(source: str, isa: str, folder: Path) -> Path:
    """A shared library of this C++ text, which may include the step's headers, by the flags of a path."""
    program = compiler()
    if program is None:
        pytest.skip("no C++ compiler")
    text, made = folder / "source.cpp", folder / "made.so"
    text.write_text(source)
    command = [program, *COMMON, *FLAGS[isa], f"-I{SOURCE}", str(text), "-o", str(made)]
    done = subprocess.run(command, capture_output=True, text=True)
    if "unrecognized" in done.stderr or "unknown argument" in done.stderr:
        pytest.skip(f"the compiler is for another CPU or does not know {isa}")
    assert not done.returncode, done.stderr
    return made
