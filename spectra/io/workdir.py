"""What a stopped run goes on from: a folder beside what is being made, held by one process, for one recipe.

A file in it is whole or absent (`replaced`, `replace`), or it grows by whole records (`append`); all are synced before
anything counts on them. Does not know what the work is.
"""

import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from spectra.errors import SpectraError
from spectra.io.hashes import canonical, file_sha256
from spectra.io.json_text import parse_json
from spectra.io.locks import take_lock

LOCK, RECIPE, PLACED = "lock", "recipe.json", "placed"


def workdir_of(out: Path) -> Path:
    """The folder of the work on `out`."""
    return beside(out, "work")


def where(folder: Path) -> Path:
    """The folder that a name leads to, past links. One that leads to itself stays as it is."""
    return Path(os.path.realpath(folder))


def beside(folder: Path, ending: str) -> Path:
    """`.NAME.ENDING`, next to the folder. Raises SpectraError for the root folder, which has no name."""
    whole = where(folder)
    if not whole.name:
        raise SpectraError("out", f"{folder} is the root folder; name a folder in it")
    return whole.with_name(f".{whole.name}.{ending}")


@contextmanager
def held(folder: Path, recipe: Mapping[str, Any], *, busy: str, on_other: Callable[[], None]) -> Iterator[None]:
    """Hold the folder, which is made if need be, for the run that `recipe` describes.

    busy: what is wrong, and the fix, while another process holds it. on_other: called where the folder holds work of
    another recipe; it raises to keep that work, or returns to have it removed. Work without a recipe is what was left
    of a removal, and goes. Raises OSError where nothing can be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / LOCK).open("w") as lock:
        take_lock(lock, busy)
        if not _is_there(lock, folder / LOCK):
            raise SpectraError("out", busy)
        there = read_recipe(folder / RECIPE)
        if there is None or differences(there, recipe):
            if there is not None:
                on_other()
            clear(folder)
        replace(folder / RECIPE, canonical(recipe))
        yield


def _is_there(file: IO[str], path: Path) -> bool:
    """Whether the open file is the one of that name, and not one that a process removed with its folder by now."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False


def note_placed(folder: Path, card: Path) -> None:
    """Note in the folder the checksum of the card of what was made there, before that takes its place."""
    replace(folder / PLACED, file_sha256(card).encode())


def is_placed(folder: Path, card: Path) -> bool:
    """Whether what has this card was made in the folder: the work there is done."""
    placed = folder / PLACED
    return placed.is_file() and card.is_file() and placed.read_bytes() == file_sha256(card).encode()


def tidy(folder: Path, card: Path, *, busy: str) -> None:
    """Remove the folder of a run that was killed when what it made, which has this card, had its place."""
    recipe = read_recipe(folder / RECIPE)
    removing = recipe is None and folder.is_dir() and card.is_file()
    if removing or is_placed(folder, card):
        with held(folder, recipe or {}, busy=busy, on_other=lambda: None):
            remove(folder)


def read_recipe(file: Path) -> dict[str, Any] | None:
    """The settings that a file says work was done with: none without the file, empty ones where it is damaged."""
    if not file.is_file():
        return None
    try:
        found = parse_json(file.read_bytes())
        canonical(found)  # as it is compared
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def differences(there: Mapping[str, Any], wanted: Mapping[str, Any]) -> list[str]:
    """Names of the settings that are not the same in both, compared as JSON."""
    names = [*there, *(name for name in wanted if name not in there)]
    return [
        name
        for name in names
        if name not in there or name not in wanted or canonical(there[name]) != canonical(wanted[name])
    ]


def clear(folder: Path) -> None:
    """Remove everything in the folder but its lock, the recipe first: nobody goes on from a part of the work."""
    (folder / RECIPE).unlink(missing_ok=True)
    sync(folder)
    for path in folder.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        elif path.name != LOCK:
            path.unlink()


def remove(folder: Path) -> None:
    """Remove the folder with the work in it."""
    clear(folder)
    shutil.rmtree(folder)


@contextmanager
def replaced(path: Path) -> Iterator[Path]:
    """A place to write a new version of the file to; at the end it is synced and takes the file's name.

    What could not be written whole is removed: on a full disk the room is needed.
    """
    fresh = path.with_name(f"{path.name}.new")
    try:
        yield fresh
        sync(fresh)
        fresh.replace(path)
    finally:
        fresh.unlink(missing_ok=True)


def replace(path: Path, data: bytes) -> None:
    """Write a file whole or not at all."""
    with replaced(path) as fresh:
        fresh.write_bytes(data)


def append(path: Path, data: bytes, *, record: int = 1) -> None:
    """Add records of that many bytes to a file and sync it; a torn record at its end goes first."""
    with path.open("ab") as file:
        torn = file.tell() % record
        if torn:
            file.truncate(file.tell() - torn)
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def sync(path: Path) -> None:
    """Have a file, or the names in a folder, on the disk before going on."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_folder(folder: Path) -> None:
    """Sync every file of a folder and the folder itself."""
    for path in [*sorted(folder.iterdir()), folder]:
        sync(path)
