"""Files written whole or not at all, and whether one can be written, asked before the work."""

import errno
import os
import secrets
import tempfile
from pathlib import Path

from spectra.errors import SpectraError


def check_writable(path: Path, field_name: str = "path") -> None:
    """Raise `SpectraError` where `write_text` would: called before long work, so that its result can be written."""
    try:
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, "it is a folder")
        if path.exists() and not path.is_file():
            if not os.access(path, os.W_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
            return
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name[:100]}."):
            pass
    except OSError as error:
        raise SpectraError(field_name, f"cannot write {path} ({error.strerror}); give a writable file path") from error


def check_writable_folder(folder: Path, field_name: str) -> None:
    """Raise `SpectraError` unless the folder is writable, or can be made. It is not made."""
    there = next((path for path in (folder, *folder.absolute().parents) if path.exists()), folder)
    if not there.is_dir():
        raise SpectraError(field_name, f"{there} is not a folder; give one")
    try:
        with tempfile.TemporaryFile(dir=there):
            pass
    except OSError as error:
        raise SpectraError(
            field_name, f"cannot write into {there} ({error.strerror}); give a writable folder"
        ) from error


def write_text(path: Path, text: str, field_name: str = "path") -> None:
    """Write a file whole or not at all: to a neighbour first, then rename. A device or a pipe is written in place."""
    try:
        if path.exists() and not path.is_file():
            path.write_text(text, encoding="utf-8")
            return
        temporary = path.parent / f".{path.name[:100]}.{secrets.token_hex(8)}"
        file = temporary.open("x", encoding="utf-8")  # unlike mkstemp's, its mode is what the umask allows
    except OSError as error:
        raise SpectraError(field_name, f"cannot write {path} ({error.strerror}); give a writable file path") from error
    try:
        with file:
            file.write(text)
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise SpectraError(field_name, f"cannot write {path} ({error.strerror}); give a writable file path") from error
