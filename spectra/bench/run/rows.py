"""Benchmark rows on disk, one JSON object a line, each written as soon as it is known so that a run can be resumed.

A row that a kill cut short is dropped and run again, one that was altered is refused; rows of other settings are not
mixed with these, and one process at a time adds to them.
"""

import json
import os
import stat
import weakref
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from spectra.errors import SpectraError
from spectra.io.bounded import lines_of, open_regular
from spectra.io.files import check_writable_folder, cure, write_text
from spectra.io.hashes import json_sha256
from spectra.io.json_text import parse_json, read_json
from spectra.io.locks import in_turn, take_lock

Row = dict[str, Any]
Key = TypeVar("Key", bound=Hashable)

SETTINGS = "settings.json"
ROWS = "rows.jsonl"
CHECK = "check"
"""What the checksum of a row is called in its line. Lines of older versions have none."""
JOINING = ("drafts",)
"""Settings that a folder may take on later: what only some methods use, and the rows that are there did without."""


class Rows:
    """The rows of one file: `all` holds what was there and what was added. needed: names that each has.

    Raises SpectraError for a damaged file, and while another process adds to it.
    """

    def __init__(self, folder: Path, name: str = ROWS, needed: Sequence[str] = ("task", "id")) -> None:
        make_folder(folder)
        self.file = folder / name
        weakref.finalize(self, os.close, _hold(self.file))
        self.all = read_rows(self.file, needed=needed)

    def add(self, row: Row) -> None:
        """Raises SpectraError where the disk refuses."""
        self.all.append(row)
        try:
            with self.file.open("a", encoding="utf-8") as lines:
                lines.write(json.dumps(row | {CHECK: _checksum(json.loads(json.dumps(row)))}) + "\n")
        except OSError as error:
            raise SpectraError(
                "out", f"cannot write {self.file} ({error.strerror}); free some space, and the same command goes on"
            ) from error


def _hold(file: Path) -> int:
    """A descriptor of the file, which is made if need be: while it is open no other process gets one. A row that was
    cut short is dropped.
    """
    try:
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise SpectraError("out", f"{file} is no regular file; give another folder")
            take_lock(descriptor, f"another process adds to {file}; wait for it, or give another folder")
            os.truncate(descriptor, file.read_bytes().rfind(b"\n") + 1)
        except BaseException:
            os.close(descriptor)
            raise
    except OSError as error:
        fix = cure(error, "give a writable folder")
        raise SpectraError("out", f"cannot write {file} ({error.strerror}); {fix}") from error
    return descriptor


def read_rows(file: Path, field: str = "out", needed: Sequence[str] = ()) -> list[Row]:
    """The rows of a file (none where it is not there). A last line without its end is left out.

    Raises SpectraError naming `field` for a line that is no JSON object, is not as it was written or lacks one of the
    `needed` names.
    """
    try:
        if not file.exists():
            return []
        with open_regular(file) as held:
            lines = [line.decode(errors="replace") for line in lines_of(held) if line.endswith(b"\n")]
    except OSError as error:
        raise SpectraError(field, f"{file} cannot be read ({error.strerror}); give another folder") from error
    rows = []
    for number, line in enumerate(lines, 1):
        try:
            row = parse_json(line)
            problem = _problem(row, needed)
        except ValueError as error:
            problem = str(error)
        if problem:
            raise SpectraError(field, f"{file} line {number} is damaged ({problem}); remove that line")
        rows.append(row)
    return rows


def grouped(rows: Iterable[Row], key: Callable[[Row], Key]) -> dict[Key, list[Row]]:
    """Rows by their key, in the order in which the first of each came."""
    groups: dict[Key, list[Row]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return groups


def _problem(row: object, needed: Sequence[str]) -> str:
    """What is wrong with a row, which loses its checksum, or ""."""
    if not isinstance(row, dict):
        return "no JSON object"
    check = row.pop(CHECK, None)
    if check is not None and check != _checksum(row):
        return "it is not as it was written"
    return lacking(row, needed)


def lacking(row: Row, needed: Sequence[str]) -> str:
    """The names that a row lacks, or ""."""
    lacks = [name for name in needed if name not in row]
    return f"no {', '.join(lacks)}" if lacks else ""


def claimed_rows(
    folder: Path, settings: Mapping[str, Any], name: str = ROWS, needed: Sequence[str] = ("task", "id")
) -> Rows:
    """The rows of a folder whose rows all have these settings. Raises SpectraError where it holds rows of others."""
    claim(folder, settings, name)
    return Rows(folder, name, needed)


def claim(folder: Path, settings: Mapping[str, Any], name: str = ROWS) -> None:
    """Note the settings that all rows of a folder share, one process at a time. Raises SpectraError where it holds
    rows of other ones.
    """
    make_folder(folder)
    try:
        with in_turn(folder):
            _claim(folder, settings, name)
    except OSError as error:
        raise SpectraError("out", f"{folder} cannot be read ({error.strerror}); give another folder") from error


def _claim(folder: Path, settings: Mapping[str, Any], name: str) -> None:
    file = folder / SETTINGS
    ours = json.loads(json.dumps(settings))
    if not file.exists():
        if read_rows(folder / name):
            raise SpectraError("out", f"{folder} holds rows without {SETTINGS}; give another folder")
        theirs = {}
    else:
        theirs = _read_settings(file)
        for setting in theirs | ours:
            if setting in JOINING and not (setting in theirs and setting in ours):
                continue
            if theirs.get(setting) != ours.get(setting):
                raise SpectraError(
                    "out",
                    f"{folder} holds rows with {setting} {theirs.get(setting)}, this run has {ours.get(setting)}; "
                    "give another folder or the same settings",
                )
    if theirs != theirs | ours:
        write_text(file, json.dumps(theirs | ours, indent=1) + "\n", "out")


def _read_settings(file: Path) -> dict[str, Any]:
    try:
        return dict(read_json(file))
    except (OSError, ValueError, TypeError) as error:
        raise SpectraError("out", f"{file} is damaged ({error}); give another folder") from error


def make_folder(folder: Path, field: str = "out") -> None:
    """Make it where it is not there. Raises SpectraError naming the field, also where nothing can be written there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        fix = cure(error, "give a writable folder")
        raise SpectraError(field, f"cannot make {folder} ({error.strerror}); {fix}") from error
    check_writable_folder(folder, field)


def _checksum(row: Row) -> str:
    """Of a row as it is read."""
    return json_sha256(row)[:16]
