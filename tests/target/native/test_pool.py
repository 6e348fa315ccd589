"""The threads of the CPU library: every item of every phase once, in order, whichever thread the system holds up."""

import subprocess
from pathlib import Path

import pytest
from compiled import compiler
from native_paths import flags_of, paths

from spectra.target.native.library import MAIN

PROGRAM = Path(__file__).parents[2] / "support" / "native_pool.cpp"
NO_SANITIZER = "cannot find", "unexpected memory mapping"


@pytest.mark.parametrize("sanitizer", ["", "-fsanitize=thread"], ids=["plain", "thread sanitizer"])
def test_threads_that_are_held_up_are_not_waited_for_and_no_item_is_lost(sanitizer, tmp_path):
    if not paths() or compiler() is None:
        pytest.skip("no compiler, or a CPU without AVX2")
    flags = [flag for flag in flags_of("avx2") if flag not in ("-shared", "-O2", "-O3")]
    program = tmp_path / "pool"
    command = [compiler(), *flags, "-O1", "-g1", sanitizer, f"-I{MAIN.parent}", str(PROGRAM), "-o", str(program)]
    built = subprocess.run([*filter(None, command)], capture_output=True, text=True)
    said = built.stderr
    if built.returncode == 0:
        done = subprocess.run([str(program)], capture_output=True, text=True, timeout=120)
        if done.stdout == "clean\n":
            return
        said = done.stdout + done.stderr
    if sanitizer and any(reason in said for reason in NO_SANITIZER):
        pytest.skip("there is no thread sanitizer here")
    pytest.fail(said[-3000:])
