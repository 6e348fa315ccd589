"""Without Chromium the browser tests are left out, and pytest says so in one line, with how to get it."""

import os
import subprocess
import sys

import pytest
from chromium import LEFT_OUT
from examples import ROOT


@pytest.mark.parametrize("asked", ["tests/browser", "tests/browser/test_learn.py"])
def test_it_is_said_however_they_are_asked_for(asked, tmp_path):
    nowhere = {"PATH": str(tmp_path), "PLAYWRIGHT_BROWSERS_PATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", asked, "--collect-only", "-p", "no:cacheprovider"],
        cwd=ROOT, env={**os.environ, **nowhere}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.stdout.splitlines().count(LEFT_OUT) == 1, done.stdout
