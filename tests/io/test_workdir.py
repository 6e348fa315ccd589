"""Work folders: one process, one recipe; files whole or absent, records whole."""

import fcntl
from pathlib import Path

import pytest

from spectra.errors import SpectraError
from spectra.io import workdir
from spectra.io.locks import take_lock
from spectra.io.workdir import append, clear, differences, held, read_recipe, remove, replace, replaced, workdir_of


def hold(folder, recipe, on_other=lambda: None):
    return held(folder, recipe, busy="in use; wait", on_other=on_other)


def test_work_of_the_same_recipe_is_gone_on_with(tmp_path):
    folder = workdir_of(tmp_path / "store")
    assert folder == tmp_path / ".store.work"
    with hold(folder, {"keep": 1}):
        (folder / "part").write_text("half")
    with hold(folder, {"keep": 1}, on_other=pytest.fail):
        assert (folder / "part").read_text() == "half"


def test_work_of_another_recipe_is_kept_or_removed_as_it_is_asked(tmp_path):
    def refuse():
        raise SpectraError("out", "other work")

    with hold(tmp_path / "work", {"keep": 1}):
        (tmp_path / "work" / "part").write_text("half")
        (tmp_path / "work" / "folder").mkdir()
    with pytest.raises(SpectraError, match="other work"), hold(tmp_path / "work", {"keep": 2}, refuse):
        pass
    assert (tmp_path / "work" / "part").exists()
    with hold(tmp_path / "work", {"keep": 2}):
        assert sorted(path.name for path in (tmp_path / "work").iterdir()) == ["lock", "recipe.json"]
    assert read_recipe(tmp_path / "work" / "recipe.json") == {"keep": 2}


def test_a_damaged_recipe_counts_as_another(tmp_path):
    with hold(tmp_path, {"keep": 1}):
        pass
    (tmp_path / "recipe.json").write_text("{")
    asked = []
    with hold(tmp_path, {"keep": 1}, lambda: asked.append(True)):
        pass
    assert asked == [True]


@pytest.mark.parametrize("removal", [clear, remove])
@pytest.mark.parametrize("removed", [0, 1, 2])
def test_a_part_of_removed_work_is_not_gone_on_with(tmp_path, monkeypatch, removal, removed):
    folder = tmp_path / "work"
    for name in ("part", "rest"):
        with hold(folder, {"keep": 1}):
            (folder / name).write_text("half")
    real, left = Path.unlink, [removed]

    def mortal(path, **named):
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        real(path, **named)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Path, "unlink", mortal)
        removal(folder)
    with hold(folder, {"keep": 1}, on_other=pytest.fail):
        assert len({path.name for path in folder.iterdir()} & {"part", "rest"}) == (0 if removed else 2)


def test_another_process_is_waited_for_by_the_user(tmp_path):
    with (tmp_path / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(SpectraError, match="out: in use; wait"), hold(tmp_path, {}):
            pass


def test_a_lock_that_is_taken_on_a_folder_that_went_is_none(tmp_path, monkeypatch):
    """Opened while it was another process's, locked when that had removed it and perhaps a third had made it anew."""
    folder = tmp_path / "work"
    for made_anew in (False, True):

        def late(lock, busy, made_anew=made_anew):
            remove(folder)
            if made_anew:
                folder.mkdir()
                (folder / "lock").touch()
            take_lock(lock, busy)

        with monkeypatch.context() as patch, pytest.raises(SpectraError, match="out: in use; wait"):
            patch.setattr(workdir, "take_lock", late)
            with hold(folder, {}):
                pass


def test_settings_are_compared_as_json():
    assert differences({"a": [1, 2], "b": 1.0, "gone": 1}, {"a": (1, 2), "b": 1, "new": None}) == ["b", "gone", "new"]
    assert differences({"x": {"b": 1, "a": 2}}, {"x": {"a": 2, "b": 1}}) == []


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path):
    replace(tmp_path / "file", b"old")
    with pytest.raises(ValueError, match="half way"), replaced(tmp_path / "file") as fresh:
        fresh.write_bytes(b"ne")
        raise ValueError("half way")
    assert (tmp_path / "file").read_bytes() == b"old"
    replace(tmp_path / "file", b"new")
    assert (tmp_path / "file").read_bytes() == b"new"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_torn_record_goes_before_the_next_ones(tmp_path):
    append(tmp_path / "rows", b"12345678", record=4)
    with (tmp_path / "rows").open("ab") as file:
        file.write(b"9")
    append(tmp_path / "rows", b"abcd", record=4)
    assert (tmp_path / "rows").read_bytes() == b"12345678abcd"
