"""Without Chromium the browser tests are left out, and pytest says so in one line, with how to get it."""

import os
import subprocess
import sys

from chromium import LEFT_OUT
from examples import ROOT


def test_it_is_said_of_a_single_file_too(tmp_path):
    nowhere = {"PATH": str(tmp_path), "PLAYWRIGHT_BROWSERS_PATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "tests/browser/test_learn.py", "--collect-only", "-p", "no:cacheprovider"],
        cwd=ROOT, env={**os.environ, **nowhere}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.stdout.splitlines().count(LEFT_OUT) == 1, done.stdout
