"""The folder beside a draft model that is being trained: what a stopped run goes on from. One run at a time."""

import fcntl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from spectra.datastore.card import canonical
from spectra.datastore.work import replace
from spectra.errors import SpectraError


@contextmanager
def workplace(out: Path, recipe: Mapping[str, Any]) -> Iterator[Path]:
    """Hold `.NAME.work` for the run that `recipe` describes. Raises SpectraError when another run's work is in it."""
    folder = out.with_name(f".{out.name}.work")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / "lock").open("w")
    except OSError as error:
        raise SpectraError("out", f"cannot write {folder} ({error.strerror}); name another folder") from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise SpectraError("out", f"{out} is being trained by another process; wait for it") from None
        made = folder / "recipe.json"
        if made.is_file() and made.read_bytes() != canonical(recipe):
            raise SpectraError(
                "out",
                f"{folder} holds unfinished work with other settings; repeat those, remove it or name another out",
            )
        replace(made, canonical(recipe))
        yield folder
