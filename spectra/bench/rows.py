"""Benchmark rows on disk, one JSON object a line, each written as soon as it is known so that a run can be resumed.

A row that a kill cut short is dropped and run again; rows of other settings are not mixed with these.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from spectra.errors import SpectraError
from spectra.trace import write_text

SETTINGS = "settings.json"
ROWS = "rows.jsonl"


class Rows:
    """The rows of one file: `all` holds what was there and what was added. needed: names that each has.

    Raises SpectraError for a damaged file.
    """

    def __init__(self, folder: Path, name: str = ROWS, needed: Sequence[str] = ("task", "id")) -> None:
        make_folder(folder)
        self.file = folder / name
        self.all = read_rows(self.file, needed=needed)
        whole = "".join(json.dumps(row) + "\n" for row in self.all)
        if self.file.exists() and self.file.stat().st_size != len(whole.encode()):
            write_text(self.file, whole, "out")

    def add(self, row: dict[str, Any]) -> None:
        self.all.append(row)
        with self.file.open("a", encoding="utf-8") as lines:
            lines.write(json.dumps(row) + "\n")


def read_rows(file: Path, field: str = "out", needed: Sequence[str] = ()) -> list[dict[str, Any]]:
    """The rows of a file (none where it is not there). A last line without its end is left out.

    Raises SpectraError naming `field` for a line that is no JSON object or lacks one of the `needed` names.
    """
    if not file.exists():
        return []
    try:
        lines = file.read_text(encoding="utf-8", errors="replace").split("\n")[:-1]
    except OSError as error:
        raise SpectraError(field, f"{file} cannot be read ({error.strerror}); give another folder") from error
    rows = []
    for number, line in enumerate(lines, 1):
        row, problem = _parsed(line, needed)
        if problem:
            raise SpectraError(field, f"{file} line {number} is damaged ({problem}); remove that line")
        rows.append(row)
    return rows


def answer_key(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """What tells one answer of a run from the others: task, prompt, temperature and method."""
    return row["task"], row["id"], row["temperature"], row["method"]


def _parsed(line: str, needed: Sequence[str]) -> tuple[dict[str, Any], str]:
    """(the row, what is wrong with it or "")."""
    try:
        row = json.loads(line)
    except json.JSONDecodeError as error:
        return {}, error.msg
    if not isinstance(row, dict):
        return {}, "no JSON object"
    lacks = [name for name in needed if name not in row]
    return row, f"no {', '.join(lacks)}" if lacks else ""


def claim(folder: Path, settings: dict[str, Any]) -> None:
    """Note the settings that all rows of a folder share. Raises SpectraError where it holds rows of other ones."""
    make_folder(folder)
    file, ours = folder / SETTINGS, json.loads(json.dumps(settings))
    if not file.exists():
        if read_rows(folder / ROWS):
            raise SpectraError("out", f"{folder} holds rows without {SETTINGS}; give another folder")
        write_text(file, json.dumps(ours, indent=1) + "\n", "out")
        return
    try:
        theirs = dict(json.loads(file.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise SpectraError("out", f"{file} is damaged ({error}); give another folder") from error
    for name in theirs | ours:
        if theirs.get(name) != ours.get(name):
            raise SpectraError(
                "out",
                f"{folder} holds rows with {name} {theirs.get(name)}, this run has {ours.get(name)}; "
                "give another folder or the same settings",
            )


def make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SpectraError("out", f"cannot make {folder} ({error.strerror}); give a writable folder") from error
