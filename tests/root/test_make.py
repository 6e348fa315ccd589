"""What `make` hands on to the programs that it calls, and the folder that `make carry` writes."""

import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import gpu_carry
import pytest
from examples import ROOT


@pytest.mark.parametrize(
    ("target", "variable"), [("demo", "MODEL"), ("demo", "ENDPOINT"), ("space", "SPACE"), ("carry", "CARRY")]
)
def test_a_value_with_a_blank_stays_one(target: str, variable: str) -> None:
    assert "/tmp/my own/folder" in called(target, f"{variable}=/tmp/my own/folder")


@pytest.mark.parametrize(("target", "variable"), [("space", "SPACE"), ("carry", "CARRY")])
def test_a_folder_may_be_named_from_the_home_folder_on(target: str, variable: str) -> None:
    assert str(Path.home() / "my own" / "folder") in called(target, f"{variable}=~/my own/folder")
    assert f"out/{target}" in called(target)


def called(*arguments: str) -> list[str]:
    """The last command of a target, as a shell splits it."""
    command = ["make", "--dry-run", "--no-print-directory", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return shlex.split(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("target", [".venv/.done", ".venv-serve/.done", ".venv-docs/.done"])
def test_a_python_that_is_too_old_makes_no_environment(target: str, tmp_path: Path) -> None:
    """It stayed in .venv, so that the right PYTHON given next ended in pip's errors as well."""
    for file in (ROOT / "Makefile", *ROOT.glob("requirements*.txt")):
        shutil.copy(file, tmp_path)
    old = tmp_path / "python3.9"
    says = "import sys; sys.version_info = (3, 9, 2); exec(sys.argv[1])"
    old.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -S -c "{says}" "$2"\n')
    old.chmod(0o755)
    command = ["make", "--no-print-directory", target, "PYTHON=./python3.9"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    said = "make: PYTHON is Python 3.9; give 3.11 or later, such as PYTHON=python3.11"
    assert done.returncode and done.stderr.splitlines()[0] == said and not (tmp_path / target).parent.exists()


@pytest.fixture
def carry(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """`gpu_carry.py FOLDER` with files of a few bytes in the place of what pip downloads. The list: errors to raise."""
    failing: list[str] = []

    def download(arguments: list[str], to: Path) -> None:
        if failing:
            raise subprocess.CalledProcessError(1, failing)
        to.mkdir(parents=True)
        (to / "one.whl").write_bytes(b"12345")

    monkeypatch.setattr(gpu_carry, "download", download)
    return failing


def run(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> None:
    monkeypatch.setattr(sys, "argv", ["gpu_carry.py", *map(str, arguments)])
    gpu_carry.main()


def names(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_what_is_carried_is_written_anew(carry: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "a stick" / "carry"
    for _ in range(2):
        run(monkeypatch, folder)
        assert names(folder) == ["model.part0", "setup.sh", "wheels/one.whl"]
    assert list(folder.parent.iterdir()) == [folder]


@pytest.mark.parametrize("held", [["notes.txt"], ["notes.txt", "setup.sh"], ["wheels"]])
def test_a_folder_of_other_things_is_left_as_it_is(
    carry: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, held: list[str]
) -> None:
    """It was deleted with all that it held: a whole memory stick, or the checkout for `CARRY=.`."""
    for name in held:
        (tmp_path / name).write_text("mine")
    with pytest.raises(SystemExit, match=f"holds .*{held[0]}.*; name a new folder"):
        run(monkeypatch, tmp_path)
    assert names(tmp_path) == sorted(held)


def test_where_nothing_can_be_downloaded_what_was_there_stays(
    carry: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "carry"
    run(monkeypatch, folder)
    carry.append("pip")
    with pytest.raises(SystemExit, match=r"^gpu_carry: pip could not download .*; it says why above$"):
        run(monkeypatch, folder)
    assert names(folder) == ["model.part0", "setup.sh", "wheels/one.whl"] and list(tmp_path.iterdir()) == [folder]


def test_a_part_has_a_size(carry: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SystemExit, match="2"):
        run(monkeypatch, tmp_path / "carry", "--part-mb", 0)
    assert not list(tmp_path.iterdir())
