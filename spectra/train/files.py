"""The files that a training run is given. They are looked at before torch is loaded, which takes seconds."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from spectra.datastore.build.readers import is_jsonl
from spectra.errors import SpectraError
from spectra.io.files import check_writable_folder, holds_file
from spectra.io.hashes import file_sha256
from spectra.io.workdir import where


def check_jsonl(field: str, files: Sequence[Path]) -> None:
    """Raise SpectraError naming `field` for one that is not there, is a folder or is no jsonl."""
    for file in files:
        if file.is_dir():
            raise SpectraError(field, f"{file} is a folder; give jsonl files")
        if not file.is_file():
            raise SpectraError(field, f"{file} is not there; give jsonl files")
        if not is_jsonl(file):
            raise SpectraError(field, f"{file.name} is not jsonl; give rows with the fields user and assistant")


def facts_of(field: str, files: Sequence[Path]) -> list[dict[str, Any]]:
    """Of jsonl files, as the card has them. Raises SpectraError as `check_jsonl` does."""
    check_jsonl(field, files)
    return [{"name": file.name, "bytes": file.stat().st_size, "sha256": file_sha256(file)} for file in files]


def check_boost(first: Path) -> None:
    """Raise SpectraError for a folder that holds no draft model."""
    if not all(holds_file(first, name, "boost") for name in ("config.json", "model.safetensors")):
        raise SpectraError("boost", f"{first} is no model folder; name the first draft model's")


def check_teacher(teacher: Path, out: Path) -> None:
    """Raise SpectraError for a folder that cannot be made or written, and for one where the draft model goes: it would
    be in the way once that is trained. One that holds answers already may be all that is needed, so it is only read.
    """
    if where(out) in (where(teacher), *where(teacher).parents):
        raise SpectraError("teacher", f"{teacher} is where the draft model goes; name another folder")
    try:
        answered = any(teacher.glob("part-*.safetensors"))
    except OSError:
        answered = False
    if not answered:
        check_writable_folder(teacher, "teacher")
