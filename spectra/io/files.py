"""Files written whole or not at all, and whether one can be written, asked before the work."""

import errno
import os
import re
import secrets
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

from spectra.errors import SpectraError
from spectra.io.bounded import open_regular
from spectra.io.locks import try_lock

LEFT_BEHIND = 3600.0
"""Seconds after which work in progress that has not changed is that of a killed process."""
FULL = (errno.ENOSPC, errno.EDQUOT)
"""Of a disk that is full, and of a user's share of it."""


def cure(error: OSError, otherwise: str) -> str:
    """What to do about a file that cannot be written: another name is no help on a full disk."""
    return "free some space" if error.errno in FULL else otherwise


def check_writable(path: Path, field_name: str = "path") -> None:
    """Raise `SpectraError` where `write_text` would: called before long work, so that its result can be written."""
    try:
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, "it is a folder")
        if _is_in_place(path):
            if not os.access(path, os.W_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
            return
        file = Path(os.path.realpath(path))
        with tempfile.TemporaryFile(dir=file.parent):  # of no name, which a kill could leave there
            pass
    except OSError as error:
        fix = cure(error, "give a writable file path")
        raise SpectraError(field_name, f"cannot write {path} ({error.strerror}); {fix}") from error


def check_writable_folder(folder: Path, field_name: str) -> None:
    """Raise `SpectraError` unless the folder is writable, or can be made. It is not made."""
    there = folder
    try:
        there = next((path for path in (folder, *folder.absolute().parents) if _is_taken(path)), folder)
        if not there.is_dir():
            raise SpectraError(field_name, f"{there} is not a folder; give one")
        with tempfile.TemporaryFile(dir=there):
            pass
    except OSError as error:
        fix = cure(error, "give a writable folder")
        raise SpectraError(field_name, f"cannot write into {there} ({error.strerror}); {fix}") from error


def holds_file(folder: Path, name: str, field_name: str) -> bool:
    """Whether the folder has a file of this name. Raises `SpectraError` for one that cannot be looked into."""
    try:
        return (folder / name).is_file()
    except OSError as error:
        raise SpectraError(
            field_name, f"{folder} cannot be looked into ({error.strerror}); make it readable or give another"
        ) from error


def write_text(path: Path, text: str, field_name: str = "path") -> None:
    """Write a file whole or not at all: to a file beside it, then rename; where a link points, not over the link.

    A device, a pipe or an open file (/dev/stdout) is written in place. Lone surrogates are written as escapes. What a
    process left beside it that was killed in a write is removed.
    """
    data = text.encode(errors="backslashreplace")
    try:
        if _is_in_place(path):
            with path.open("ab") as place:
                place.write(data)
            return
        final = Path(os.path.realpath(path))
        temporary = final.parent / f"{_hidden(final)}{secrets.token_hex(8)}"
        try:
            with temporary.open("xb") as file:  # unlike mkstemp's, its mode is what the umask allows
                try_lock(file)
                _clear(final, os.fstat(file.fileno()).st_mtime - LEFT_BEHIND)
                file.write(data)
                file.flush()
                temporary.replace(final)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        fix = cure(error, "give a writable file path")
        raise SpectraError(field_name, f"cannot write {path} ({error.strerror}); {fix}") from error


def clear_left_behind(folder: Path, pattern: str) -> None:
    """Delete files and folders of these names that nothing has changed for an hour, by the clock of the file system.

    What cannot be deleted stays. Raises OSError where nothing can be written.
    """
    with tempfile.TemporaryFile(dir=folder) as now:
        before = os.fstat(now.fileno()).st_mtime - LEFT_BEHIND
    for left in folder.glob(pattern):
        with suppress(OSError):  # a file may have its final name by now
            if left.stat().st_mtime >= before:
                continue
            if left.is_dir():
                shutil.rmtree(left, ignore_errors=True)
            else:
                left.unlink()


def _hidden(final: Path) -> str:
    """How the name begins of what is to be this file. With 16 characters more it is no longer than a name may be."""
    return f".{final.name[:50]}."


def _clear(final: Path, before: float) -> None:
    """Remove what killed processes left of a write of the file. A living one locks what it writes, before the first
    byte: what is empty goes only if nothing has changed it since `before`.
    """
    left = re.compile(rf"{re.escape(_hidden(final))}[0-9a-f]{{16}}")
    with suppress(OSError):  # of a folder that cannot be read
        for path in [path for path in final.parent.iterdir() if left.fullmatch(path.name)]:
            with suppress(OSError), open_regular(path) as file:
                facts = os.fstat(file.fileno())
                if (facts.st_size or facts.st_mtime < before) and try_lock(file):
                    path.unlink()


def _is_in_place(path: Path) -> bool:
    """Whether it is no file of its own, which a rename could replace."""
    opened = path.is_symlink() and path.absolute().parts[1:2] in (("dev",), ("proc",))
    return path.exists() and (opened or not path.is_file())


def _is_taken(path: Path) -> bool:
    """Whether the name is taken, by a link to nothing too. Raises OSError for one that cannot be."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True
