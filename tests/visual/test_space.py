"""The folder for a Space: complete, and a race runs in it where the GPU is lent by the call."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest
from gradio_client import Client
from tiny import make
from words import tokenizer

from visual.space import MODELS, main, write_space

STAND_IN = Path(__file__).parents[1] / "support" / "space"


@pytest.fixture(scope="module")
def space(tmp_path_factory):
    return write_space(tmp_path_factory.mktemp("made") / "space")


def test_it_holds_what_a_space_reads_and_nothing_else(space):
    text = (space / "README.md").read_text()
    front = text.split("---")[1]
    assert "sdk: gradio" in front and "app_file: app.py" in front and "suggested_hardware: zero-a10g" in front
    assert all(model in front for model in MODELS)
    required = (space / "requirements.txt").read_text().split()
    names = [line.split("==")[0] for line in required]
    assert "spaces" in names and "transformers" in names and "marisa-trie" in names
    assert not {"torch", "gradio"} & set(names)
    listed = {"README.md", "LICENSE", "app.py", "requirements.txt", "assets", "datastores", "spectra", "visual"}
    assert {path.name for path in space.iterdir()} == listed
    assert (space / "datastores" / "code").is_dir() and (space / "assets" / "races").is_dir()
    assert not list(space.rglob("__pycache__"))


def test_it_is_written_anew_and_never_over_other_things(tmp_path, capsys):
    folder = write_space(tmp_path / "space")
    (folder / ".git").mkdir()
    (folder / "old.txt").write_text("x")
    assert main([str(folder)]) == 0
    assert (folder / ".git").is_dir() and not (folder / "old.txt").exists()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("x")
    for arguments in ([str(tmp_path / "mine")], [], ["--help"]):
        assert main(arguments) == 2
    assert capsys.readouterr().err.count("\n") == 3 and (tmp_path / "mine" / "letter.txt").exists()


@pytest.mark.all_cases
def test_a_race_runs_where_the_gpu_is_lent_by_the_call(space, tmp_path):
    make("llama", max_position_embeddings=400).save_pretrained(tmp_path / "tiny")
    tokenizer().save_pretrained(tmp_path / "tiny")
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    environment = {name: value for name, value in os.environ.items() if name in ("PATH", "HOME", "XDG_CACHE_HOME")}
    environment |= {
        "PYTHONPATH": str(STAND_IN), "SPACES_ZERO_GPU": "true", "GRADIO_SERVER_PORT": str(port),
        "SPECTRA_MODEL": str(tmp_path / "tiny"), "SPECTRA_DTYPE": "fp32", "SPECTRA_NUMERICS": "fast",
        "OMP_NUM_THREADS": "1",
    }  # fmt: skip
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "app.py"], cwd=space, env=environment, stdout=log, stderr=log, start_new_session=True
        )
    try:
        url = f"http://127.0.0.1:{port}"
        wait_for(url, process, tmp_path / "log")
        job = Client(url, verbose=False).submit("w5 w6 w7 w5 w6 w7", "spectra", 24, 0.0, 7, api_name="/compare")
        job.result(timeout=200)
        last = {event["lane"]: event for event in job.outputs()}
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(20)
    assert last["plain"]["done"] and last["method"]["done"], (tmp_path / "log").read_text()
    assert last["plain"]["text"] == last["method"]["text"] and last["plain"]["tokens"] == 24


def wait_for(url, process, log):
    over = time.monotonic() + 200
    while time.monotonic() < over:
        assert process.poll() is None, log.read_text()
        try:
            if httpx.get(url, timeout=5).status_code == 200:
                return
        except httpx.HTTPError:
            time.sleep(0.3)
    raise AssertionError(log.read_text())
