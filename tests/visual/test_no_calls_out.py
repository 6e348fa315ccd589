"""A served page asks no other machine for anything, and tells none that it runs."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROGRAM = """
import json, sys, threading

called = []


def watch(event, arguments):
    if event in ("socket.getaddrinfo", "socket.connect", "socket.sendto"):
        place = arguments[0] if event == "socket.getaddrinfo" else arguments[1]
        host = place[0] if isinstance(place, tuple) else place
        if host not in ("127.0.0.1", "localhost", "0.0.0.0", "::1", None):
            called.append(str(host))


sys.addaudithook(watch)
import httpx
from browsing import serve
from fakes_engine import FakeEngine

page, url = serve(FakeEngine())
paths = ("", "config", "gradio_api/info", "gradio_api/startup-events", "monitoring/summary", "gradio_api/runs")
statuses = {path: httpx.get(url + path).status_code for path in paths}
config = httpx.get(url + "config").json()
number = next(one["id"] for one in config["dependencies"] if one["api_name"] == "compare")
body = {"data": ["hello", "spectra", 8, 0, 7], "fn_index": number, "session_hash": "a"}
httpx.post(url + "gradio_api/queue/join", json=body).raise_for_status()
with httpx.stream("GET", url + "gradio_api/queue/data", params={"session_hash": "a"}, timeout=60) as lines:
    completed = [line for line in lines.iter_lines() if "process_completed" in line]
names = [thread.name for thread in threading.enumerate()]
page.close()
print(json.dumps([called, statuses, len(completed), names]))
"""


@pytest.fixture(scope="module")
def seen() -> tuple[list[str], dict[str, int], int, list[str]]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("GRADIO_", "HF_"))}
    environment["PYTHONPATH"] = os.pathsep.join([str(ROOT), str(ROOT / "tests" / "support")])
    command = [sys.executable, "-c", PROGRAM]
    out = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=200, check=True).stdout
    called, statuses, answers, names = json.loads(out.splitlines()[-1])
    return called, statuses, answers, names


def test_no_other_machine_is_called(seen: tuple[list[str], dict[str, int], int, list[str]]) -> None:
    called, statuses, answers, names = seen
    assert statuses[""] == statuses["config"] == 200 and answers == 1
    assert called == []
    assert not [name for name in names if "telemetry" in name]


def test_what_visitors_asked_is_neither_counted_nor_kept(
    seen: tuple[list[str], dict[str, int], int, list[str]],
) -> None:
    assert seen[1]["monitoring/summary"] == 403
    assert seen[1]["gradio_api/runs"] == 404
