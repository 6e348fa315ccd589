"""Folders that swap their names."""

import pytest

from spectra.io.exchange import exchange


def test_two_folders_swap_their_names(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / name).touch()
    assert exchange(tmp_path / "one", (tmp_path / "other").relative_to(tmp_path))
    assert [path.name for path in (tmp_path / "one").iterdir()] == ["other"]
    assert [path.name for path in (tmp_path / "other").iterdir()] == ["one"]


def test_a_folder_that_is_not_there_is_named(tmp_path):
    (tmp_path / "one").mkdir()
    with pytest.raises(FileNotFoundError, match="other"):
        exchange(tmp_path / "one", tmp_path / "other")
