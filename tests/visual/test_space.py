"""The folder for a Space: complete, and a race runs in it where the GPU is lent by the call."""

import errno
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path

import httpx
import pytest
from gradio_client import Client
from huggingface_hub import RepoCard
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
    listed = {
        ".gitattributes",
        "README.md",
        "LICENSE",
        "app.py",
        "requirements.txt",
        "assets",
        "datastores",
        "spectra",
        "visual",
    }
    assert {path.name for path in space.iterdir()} == listed
    assert (space / "datastores" / "code").is_dir() and (space / "assets" / "races").is_dir()
    assert not list(space.rglob("__pycache__"))


def test_its_front_matter_is_what_the_hub_reads(space):
    text = (space / "README.md").read_text()
    front = RepoCard(text).data.to_dict()
    assert front["sdk"] == "gradio" and front["sdk_version"] == version("gradio")
    assert (space / front["app_file"]).is_file() and front["models"] == list(MODELS)
    assert len(front["short_description"]) <= 60, "longer ones are refused"


def test_its_binary_files_are_kept_in_lfs_and_nothing_in_it_names_this_machine(space):
    """The Hub refuses other binary files when they are pushed, and files of over 10 MB."""
    lines = (space / ".gitattributes").read_text().splitlines()
    kept = {line.split()[0].removeprefix("*") for line in lines}
    assert all(line.endswith(" filter=lfs diff=lfs merge=lfs -text") for line in lines)
    for path in space.rglob("*"):
        if path.is_file() and path.suffix not in kept:
            data = path.read_bytes()
            assert b"\0" not in data and len(data) < 10_000_000, path
            assert str(Path.home()).encode() + b"/" not in data and str(space).encode() not in data, path
        assert not path.is_symlink()
    assert {".npy", ".marisa", ".safetensors"} <= kept and not {".py", ".js", ".json", ""} & kept


def test_its_requirements_are_those_of_the_project_at_one_version_each(space):
    lines = (space / "requirements.txt").read_text().split()
    pinned = (Path(__file__).parents[2] / "requirements.txt").read_text().split()
    assert set(lines) - {"spaces"} == {line for line in pinned if line.split("==")[0] not in ("torch", "gradio")}
    assert all("==" in line for line in lines if line != "spaces"), "only what lends the GPU comes in its own version"


def test_it_is_written_anew_and_never_over_other_things(tmp_path, capsys):
    folder = write_space(tmp_path / "space")
    (folder / ".git").mkdir()
    (folder / "visual" / "old.txt").write_text("x")
    assert main([str(folder)]) == 0
    assert (folder / ".git").is_dir() and not (folder / "visual" / "old.txt").exists()
    (tmp_path / "mine").mkdir()
    for mine, app in ((tmp_path / "mine", False), (folder, True)):
        (mine / "letter.txt").write_text("x")
        assert (mine / "app.py").exists() == app
        for arguments in ([str(mine)], ["/"], [], ["--help"]):
            assert main(arguments) == 2
        said = capsys.readouterr().err
        assert said.count("\n") == 4 and "holds 'letter.txt', which is no part of a Space" in said
        assert (mine / "letter.txt").exists() and (mine / "app.py").exists() == app


SMALL = {"CODE": (), "DATA": (), "large_files": lambda folder: "", "requirements": lambda file: ""}


@pytest.mark.parametrize("step", range(4), ids=["to old", "into place", "git", "rest"])
def test_what_git_knows_of_it_outlives_a_kill_at_every_step(tmp_path, monkeypatch, step):
    for name, value in SMALL.items():
        monkeypatch.setattr(f"visual.space.{name}", value)
    folder = write_space(tmp_path / "space")
    (folder / ".git").mkdir()
    (folder / ".git" / "HEAD").write_text("mine")
    left = iter(range(step))

    class KillError(BaseException):
        pass

    def or_killed(act):
        def stepped(*arguments):
            if next(left, None) is None:
                raise KillError
            return act(*arguments)

        return stepped

    with monkeypatch.context() as patched, pytest.raises(KillError):
        patched.setattr(Path, "rename", or_killed(Path.rename))
        patched.setattr("visual.space.shutil.rmtree", lambda path, **_: path.exists() and or_killed(str)())
        write_space(folder)
    write_space(folder)
    assert (folder / ".git" / "HEAD").read_text() == "mine" and (folder / "app.py").is_file()
    assert list(tmp_path.iterdir()) == [folder]


def test_it_is_written_where_a_link_points_and_into_the_folder_one_is_in(tmp_path, monkeypatch, capsys):
    for name, value in SMALL.items():
        monkeypatch.setattr(f"visual.space.{name}", value)
    folder = write_space(tmp_path / "space")
    (folder / ".git").mkdir()
    (tmp_path / "link").symlink_to("space")
    assert main([str(tmp_path / "link")]) == 0 and (folder / ".git").is_dir()
    monkeypatch.chdir(folder)
    assert main(["."]) == 0 and (folder / ".git").is_dir()
    monkeypatch.setattr("visual.space.DATA", ("datastores",))

    def full(*_, **__):
        raise shutil.Error([("a", "b", f"[Errno {errno.ENOSPC}] No space left on device")] * 500)

    monkeypatch.setattr("visual.space.shutil.copytree", full)
    assert main([str(folder)]) == 2 and (folder / ".git").is_dir()
    said = capsys.readouterr().err
    assert said.startswith("visual.space: folder: cannot write") and "No space left" in said and len(said) < 400
    assert not (tmp_path / ".space.new").exists(), "on a full disk the room is needed"


def test_a_space_that_is_stopped_is_one_line_and_leaves_nothing(tmp_path, monkeypatch, capsys):
    def stopped(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("visual.space.shutil.copytree", stopped)
    assert main([str(tmp_path / "space")]) == 130
    assert capsys.readouterr().err == "\nvisual.space: stopped\n" and not list(tmp_path.iterdir())


def test_the_checkout_it_is_made_of_is_never_replaced(tmp_path, monkeypatch, capsys):
    """It has an app.py as an earlier Space does, and a blank name is the folder one is in."""
    root = tmp_path / "work" / "checkout"
    (root / "visual").mkdir(parents=True)
    for folder in (root, root / "visual", root.parent):
        (folder / "app.py").write_text("")
    monkeypatch.setattr("visual.space.package_root", lambda: root)
    monkeypatch.setattr("visual.space.shutil.rmtree", lambda *_, **__: pytest.fail("something is deleted"))
    monkeypatch.chdir(root)
    for name in ("", " ", ".", "..", "visual", "visual/new", str(root)):
        assert main([name]) == 2
        assert len(capsys.readouterr().err.splitlines()) == 1
    assert sorted(one.name for one in root.iterdir()) == ["app.py", "visual"]


def test_an_installed_package_says_what_a_space_is_made_of(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("visual.space.package_root", lambda: tmp_path)
    assert main([str(tmp_path / "space")]) == 2
    assert "a Space is made of a checkout" in capsys.readouterr().err and not list(tmp_path.iterdir())


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
