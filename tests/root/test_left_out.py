"""What is left out where something is not installed: it is said with how to get it, and the nightly workflow has it."""

import os
import re
import subprocess
import sys

import pytest
from chromium import LEFT_OUT
from examples import ROOT

NEEDS = re.compile(r'(?:importorskip|skipif\(importlib\.util\.find_spec)\("(\w+)')


@pytest.mark.all_cases
def test_it_is_said_of_a_single_file_too(tmp_path):
    nowhere = {"PATH": str(tmp_path), "PLAYWRIGHT_BROWSERS_PATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "tests/browser/test_learn.py", "--collect-only", "-p", "no:cacheprovider"],
        cwd=ROOT, env={**os.environ, **nowhere}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.stdout.splitlines().count(LEFT_OUT) == 1, done.stdout


def test_the_nightly_workflow_installs_what_tests_are_left_out_without():
    nightly = (ROOT / ".github/workflows/nightly.yml").read_text(encoding="utf-8")
    (installed,) = re.findall(r"pip install (.*)", nightly)
    needed = {
        (str(path.relative_to(ROOT)), package)
        for path in (ROOT / "tests").rglob("test_*.py")
        for package in NEEDS.findall(path.read_text(encoding="utf-8"))
    }
    assert len(needed) >= 3
    for file, package in needed:
        assert file in nightly.split() and package.replace("_", "-") in installed, f"{file} needs {package}"
