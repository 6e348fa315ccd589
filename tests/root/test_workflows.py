"""The workflows that run elsewhere: what a release waits for."""

from pathlib import Path
from typing import Any

import yaml

WORKFLOWS = Path(__file__).parents[2] / ".github/workflows"


def read(name: str) -> dict[Any, Any]:
    workflow: dict[Any, Any] = yaml.safe_load((WORKFLOWS / name).read_text(encoding="utf-8"))
    return workflow


def test_a_release_waits_for_the_tests_on_every_platform():
    """It was uploaded as soon as its wheel had been tried."""
    jobs = read("release.yml")["jobs"]
    publishing = [job for job in jobs.values() if "pypi-publish" in str(job)]
    (waits,) = [set(job["needs"]) for job in publishing]
    called = {jobs[name]["uses"] for name in waits if "uses" in jobs[name]}
    assert called == {"./.github/workflows/tests.yml", "./.github/workflows/platforms.yml"} and "build" in waits


def test_what_a_release_calls_does_not_run_for_its_tag_as_well():
    """Two runs of one group would cancel each other."""
    for name in ("tests.yml", "platforms.yml"):
        when = read(name)[True]  # yaml reads "on" so
        assert "workflow_call" in when
        assert "push" not in when or ("branches" in when["push"] and "tags" not in when["push"])
