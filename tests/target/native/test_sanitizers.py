"""The CPU library under the address and undefined-behaviour sanitizers: tests of every part in another process."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from native_paths import FOLDER, library

ROOT = Path(__file__).parents[3]
FLAGS = "-fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-sanitize=alignment -g1"


@pytest.mark.real
def test_nothing_reads_or_writes_where_it_must_not():
    library()
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("the sanitizers are loaded from g++'s own libraries")
    runtime = [
        subprocess.run([compiler, f"-print-file-name={name}"], capture_output=True, text=True).stdout.strip()
        for name in ("libasan.so", "libubsan.so", "libstdc++.so")
    ]
    environment = os.environ | {
        "LD_PRELOAD": " ".join(runtime),
        "ASAN_OPTIONS": "detect_leaks=0",
        "XDG_CACHE_HOME": str(FOLDER.parent.parent),
        "SPECTRA_TEST_FLAGS": FLAGS,
    }
    parts = ["products", "step_attention", "llama_step"]
    files = [str(Path(__file__).with_name(f"test_{part}.py")) for part in parts]
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-m", "not real", "-k"]
    chosen = (
        "(codes_give or near_float64 or plain_decoding or side_by_side) and not emulated and not qwen and not biased"
    )
    done = subprocess.run(
        [*command, chosen, *files], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=280
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert "passed" in done.stdout
