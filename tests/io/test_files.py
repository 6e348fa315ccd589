"""Where results are written: links, open files, text that cannot be encoded, names that no folder can have."""

import errno
import os
import signal
import time
from pathlib import Path

import pytest

from spectra.errors import SpectraError
from spectra.io.files import check_writable, check_writable_folder, clear_left_behind, cure, write_text


def test_a_file_is_written_where_its_link_points(tmp_path):
    (tmp_path / "there").mkdir()
    link = tmp_path / "a.json"
    link.symlink_to("there/b.json")
    for text in ("one", "two"):
        check_writable(link)
        write_text(link, text)
        assert (tmp_path / "there" / "b.json").read_text() == text and link.is_symlink()
    assert len(list(tmp_path.rglob("*"))) == 3


def test_an_open_file_is_written_on_and_its_name_stays(tmp_path):
    """/dev/stdout may be such a name; a rename would take it from everyone."""
    with (tmp_path / "out").open("w") as file:
        file.write("before ")
        file.flush()
        name = Path(f"/dev/fd/{file.fileno()}")
        check_writable(name)
        write_text(name, "and after")
        assert name.is_symlink()
    assert (tmp_path / "out").read_text() == "before and after"


def test_half_a_surrogate_pair_is_written_as_an_escape(tmp_path):
    write_text(tmp_path / "a.json", '"\udcff"')
    assert (tmp_path / "a.json").read_text() == r'"\udcff"'


def test_an_interrupted_write_leaves_nothing_behind(tmp_path, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_text(tmp_path / "a.json", "x")
    assert not list(tmp_path.iterdir())


def test_what_a_killed_write_left_goes_with_the_next_and_no_other_file(tmp_path):
    def killed(name):
        if (child := os.fork()) == 0:
            Path.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
            write_text(tmp_path / name, "part")
            os._exit(99)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL

    for name in ("a.json", "a.json", "b.json", "a.json.b"):
        killed(name)
    mine = [tmp_path / name for name in (".a.json.mine", ".a.json.0123456789abcdeg", "a.json.0123456789abcdef")]
    for path in mine:
        path.write_text("mine")
    assert len(list(tmp_path.iterdir())) == 6  # the second of a.json took the first away
    write_text(tmp_path / "a.json", "whole")
    left = {path.name for path in tmp_path.iterdir()} - {path.name for path in mine}
    assert {name.rpartition(".")[0] for name in left} == {"a", ".b.json", ".a.json.b"}


def test_what_was_killed_before_its_first_byte_goes_after_an_hour(tmp_path):
    for name, hours in ((".a.json.0123456789abcdef", 2), (".a.json.fedcba9876543210", 0)):
        (tmp_path / name).touch()
        was = (tmp_path / name).stat().st_mtime - 3600 * hours
        os.utime(tmp_path / name, (was, was))
    write_text(tmp_path / "a.json", "whole")
    assert sorted(path.name for path in tmp_path.iterdir()) == [".a.json.fedcba9876543210", "a.json"]


def test_a_name_as_long_as_a_name_may_be_is_written(tmp_path):
    """255 bytes: the name that it had before was longer."""
    file = tmp_path / ("\N{HIRAGANA LETTER A}" * 85)
    check_writable(file)
    write_text(file, "whole")
    assert [path.read_text() for path in tmp_path.iterdir()] == ["whole"]


def test_what_another_process_is_writing_stays(tmp_path):
    reading, writing = os.pipe()
    again, go = os.pipe()
    if (child := os.fork()) == 0:
        real = Path.replace

        def slow(path, to):
            os.write(writing, b"x")
            os.read(again, 1)
            return real(path, to)

        Path.replace = slow
        write_text(tmp_path / "a.json", "theirs")
        os._exit(0)
    os.read(reading, 1)
    write_text(tmp_path / "a.json", "mine")
    assert len(list(tmp_path.iterdir())) == 2
    os.write(go, b"x")
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert [path.read_text() for path in tmp_path.iterdir()] == ["theirs"]


@pytest.mark.parametrize("name", ["x" * 300, "x" * 5000, "loop", "nowhere", "file", "file/deep"])
def test_a_folder_that_cannot_be_made_is_told_before_the_work(tmp_path, name):
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "nowhere").symlink_to("not/there")
    (tmp_path / "file").write_text("x")
    with pytest.raises(SpectraError, match=r"^remember: .*; give "):
        check_writable_folder(tmp_path / name, "remember")
    check_writable_folder(tmp_path / "new" / "deep", "remember")
    assert not (tmp_path / "new").exists()


def test_a_message_has_no_character_that_a_terminal_acts_on():
    said = str(
        SpectraError("store", "\x1b]0;title\x07 \x9b31m is \u202e there; give \N{LATIN SMALL LETTER E WITH ACUTE}")
    )
    assert said == "store: ?]0;title? ?31m is ? there; give \N{LATIN SMALL LETTER E WITH ACUTE}"


def test_what_killed_processes_left_goes_after_an_hour_of_the_file_system(tmp_path, monkeypatch):
    for name, hours in (("old", 2), ("new", 0)):
        (tmp_path / f".work.{name}").mkdir()
        (tmp_path / f".work.{name}" / "half").write_bytes(b"x")
        (tmp_path / f".file.{name}").write_bytes(b"x")
        for left in (tmp_path / f".work.{name}", tmp_path / f".file.{name}"):
            was = left.stat().st_mtime - 3600 * hours
            os.utime(left, (was, was))
    (tmp_path / ".file.gone").symlink_to("nothing")
    monkeypatch.setattr(time, "time", lambda: 1e10)  # a clock that jumped
    for pattern in (".work.*", ".file.*"):
        clear_left_behind(tmp_path, pattern)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".file.gone", ".file.new", ".work.new"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_on_a_full_disk_no_other_name_is_asked_for():
    with pytest.raises(SpectraError) as said:
        write_text(Path("/dev/full"), "x", "json")
    assert str(said.value) == "json: cannot write /dev/full (No space left on device); free some space"


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_told_before_the_work(tmp_path, monkeypatch, number):
    def full(**_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("spectra.io.files.tempfile.TemporaryFile", full)
    for check, path in ((check_writable, tmp_path / "a.json"), (check_writable_folder, tmp_path)):
        with pytest.raises(SpectraError, match=r"^out: cannot write .* \(.*\); free some space$"):
            check(path, "out")


def test_what_is_not_full_needs_another_name():
    assert cure(PermissionError(errno.EACCES, "closed"), "give another") == "give another"
