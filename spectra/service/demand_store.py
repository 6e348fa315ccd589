"""The unrefined datastore that REST and an ablation guess from: built when first asked for, of Python's library."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from spectra.datastore.build.library import LICENCE, write_library
from spectra.datastore.build.settings import BuildSettings
from spectra.datastore.store import Store
from spectra.drafters.continuations import Kept, Lookup
from spectra.errors import SpectraError
from spectra.service.disk import disk_told
from spectra.service.visitor_stores import ProgressCallback, build_in, without_place

if TYPE_CHECKING:
    from spectra.target.huggingface import HuggingFaceTarget

TEXTS = 1200
WINDOW = 512
NAME = "python-library-unrefined"


class NoStore:
    """Stands for an unrefined datastore that is not built yet, to see which methods lack nothing else."""

    name = NAME
    order = 1
    refined = False

    def successors(self, context: Sequence[int]) -> Lookup:
        return Lookup.nothing()

    def texts_with(self, tokens: Sequence[int]) -> Kept | None:
        return None


class DemandStore:
    """Holds the store once it is built; its files go with it. write: makes the corpus, see `write_library`."""

    def __init__(self, texts: int = TEXTS, write: Callable[[Path, int], Path] = write_library) -> None:
        self.texts = texts
        self.write = write
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def build(self, target: HuggingFaceTarget, on_progress: ProgressCallback) -> Store:
        """A random sample, nothing scored. What `on_progress` raises ends the work, and nothing is kept then.

        Raises SpectraError where it cannot be built.
        """
        self.clear()
        on_progress("collecting its texts", 0, 0)
        with disk_told("method"):
            folder = tempfile.TemporaryDirectory(prefix="spectra-store-")
        settings = BuildSettings(keep=self.texts, refine=False, window=min(WINDOW, target.context // 2), skip_bad=True)
        try:
            with disk_told("method"):
                file = self.write(Path(folder.name) / "library.jsonl", self.texts)
                store = build_in(Path(folder.name), NAME, file, settings, target, on_progress, LICENCE)
        except SpectraError as error:
            folder.cleanup()
            raise SpectraError("method", without_place(error, Path(folder.name))) from error
        except BaseException:
            folder.cleanup()
            raise
        self._folder = folder
        return store

    def clear(self) -> None:
        """Let it go."""
        if self._folder is not None:
            self._folder.cleanup()
        self._folder = None
