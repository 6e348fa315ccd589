"""The CPU library under the address and undefined-behaviour sanitizers, every path on random shapes."""

import os
import subprocess
from pathlib import Path

import pytest
from compiled import compiler
from native_paths import every_path, flags_of, paths

from spectra.target.native.library import MAIN

PROGRAM = Path(__file__).parents[2] / "support" / "native_sanitized.cpp"
SANITIZE = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer", "-g1", "-O1"]


def test_the_program_is_one_of_todays_library():
    """It runs with all cases only, and what it is built of changes oftener."""
    if compiler() is None or not paths():
        pytest.skip("no compiler, or a CPU without AVX2")
    command = [compiler(), *flags_of("avx2"), "-fsyntax-only", f"-I{MAIN.parent}", str(PROGRAM)]
    built = subprocess.run(command, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr[-2000:]


@pytest.mark.all_cases
@pytest.mark.real
@every_path
def test_nothing_reads_or_writes_where_it_must_not(path, tmp_path):
    if path is None or compiler() is None:
        pytest.skip("no compiler, or a CPU without AVX2")
    flags = [flag for flag in flags_of(path) if flag not in ("-shared", "-O2", "-O3")]
    program = tmp_path / "sanitized"
    command = [compiler(), *flags, *SANITIZE, f"-I{MAIN.parent}", str(PROGRAM), "-o", str(program)]
    built = subprocess.run(command, capture_output=True, text=True)
    if "asan" in built.stderr and "cannot find" in built.stderr:
        pytest.skip("the compiler has no sanitizers")
    assert built.returncode == 0, built.stderr[-2000:]
    environment = os.environ | {"ASAN_OPTIONS": "detect_leaks=0"}  # the engine lives until the process ends
    done = subprocess.run([str(program)], env=environment, capture_output=True, text=True, timeout=250)
    assert done.stdout == "clean\n", done.stderr[-3000:]
