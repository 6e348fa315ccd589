"""Datastores that visitors build from a file of their own: small, in a temporary folder, gone with the visitor."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from spectra.datastore.build.corpus import Corpus
from spectra.datastore.build.library import LICENCE, write_library
from spectra.datastore.build.settings import BuildSettings
from spectra.datastore.language import Language
from spectra.datastore.store import Store
from spectra.errors import SpectraError
from spectra.io.recent import Recent
from spectra.service.disk import disk_told
from spectra.service.visitor_file import check_texts, copy_text, plain_name

if TYPE_CHECKING:
    from spectra.target.huggingface import HuggingFaceTarget

MAX_VISITORS = 8
WINDOW = 512
LIBRARY_TEXTS = 120
"""Of Python's library, scored for one visitor."""
WRITTEN = "written-by-the-model"
"""The name of a store whose text the model wrote."""

ProgressCallback = Callable[[str, int, int], None]
"""Called with what is being done, how much of it is done and how much there is of it. What it raises ends the build."""


class VisitorStore(NamedTuple):
    """folder: where the store lies; it goes when the store does."""

    folder: tempfile.TemporaryDirectory[str]
    store: Store


class VisitorStores:
    """One store a visitor, of the `max_visitors` visitors who asked last."""

    def __init__(self, max_visitors: int = MAX_VISITORS) -> None:
        self._stores: Recent[str, VisitorStore] = Recent(max_visitors, on_drop=lambda one: one.folder.cleanup())

    def of(self, visitor: str) -> Store | None:
        """The store this visitor built, if it is still there."""
        found = self._stores.get(visitor)
        return None if found is None else found.store

    def build(
        self, visitor: str, file: Path | None, keep: int, target: HuggingFaceTarget, on_progress: ProgressCallback
    ) -> Store:
        """Build a store in the place of the visitor's last one.

        file: UTF-8, .txt (texts between blank lines) or .jsonl; None is Python's library, half of whose texts are kept
        at most. keep: texts of lowest perplexity. target: its model scores them. Raises SpectraError for the field
        "file" or "keep"; then the last one stays.
        """
        kept = keep if file is not None else min(keep, LIBRARY_TEXTS // 2)

        def write_corpus(folder: Path, settings: BuildSettings) -> Path:
            corpus = write_library(folder / "library.jsonl", LIBRARY_TEXTS) if file is None else copy_text(file, folder)
            check_texts(Corpus([str(corpus)], skip_bad=True), Language(target.tokenizer, target.name), settings)
            return corpus

        name = "python-library" if file is None else f"my-{plain_name(file.stem)}"
        licence = LICENCE if file is None else "the visitor's own"
        return self._build(visitor, name, write_corpus, kept, target, on_progress, licence, "file")

    def build_written(
        self, visitor: str, file: Path, keep: int, target: HuggingFaceTarget, on_progress: ProgressCallback
    ) -> Store:
        """The same of text that the model wrote, JSON lines. Raises SpectraError for the field "texts" or "keep"."""

        def write_corpus(folder: Path, settings: BuildSettings) -> Path:
            return Path(shutil.copyfile(file, folder / "selftext.jsonl"))

        licence = f"written by {target.name}"
        return self._build(visitor, WRITTEN, write_corpus, keep, target, on_progress, licence, "texts")

    def _build(
        self,
        visitor: str,
        name: str,
        write_corpus: Callable[[Path, BuildSettings], Path],
        keep: int,
        target: HuggingFaceTarget,
        on_progress: ProgressCallback,
        licence: str,
        field: str,
    ) -> Store:
        """write_corpus: puts the corpus into a folder. field: what an error is about."""
        window = min(WINDOW, target.context // 2)
        settings = BuildSettings(keep=keep, window=window, batch_tokens=1024, skip_bad=True)
        with disk_told(field):
            folder = tempfile.TemporaryDirectory(prefix="spectra-store-")
        place = Path(folder.name)
        try:
            with disk_told(field):
                corpus = write_corpus(place, settings)
                store = build_in(place, name, corpus, settings, target, on_progress, licence)
        except SpectraError as error:
            folder.cleanup()
            raise SpectraError("keep" if error.field == "keep" else field, without_place(error, place)) from error
        except BaseException:
            folder.cleanup()
            raise
        self._stores.put(visitor, VisitorStore(folder, store))
        return store

    def drop(self, visitor: str) -> None:
        """Let it go, its files too; an answer that uses it keeps what it has mapped."""
        self._stores.drop(visitor)

    def clear(self) -> None:
        self._stores.clear()


@dataclass
class CallbackProgress:
    """`Progress` of a build that goes to a function. n: how much is done."""

    on_progress: ProgressCallback
    what: str
    total: int | None
    unit: str
    hidden: bool = False
    n: int = 0

    def __enter__(self) -> CallbackProgress:
        self.update(0)
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def update(self, count: int) -> None:
        self.n += count
        self.on_progress(self.what, self.n, self.total or 0)


def without_place(error: SpectraError, folder: Path) -> str:
    """What it tells a visitor: files of the folder by their names alone, and not that work is kept there."""
    text = str(error).removeprefix(f"{error.field}: ").replace(f"{folder}/", "")
    return text.removesuffix(": the work so far is kept")


def build_in(
    folder: Path,
    name: str,
    file: Path,
    settings: BuildSettings,
    target: HuggingFaceTarget,
    on_progress: ProgressCallback,
    licence: str,
) -> Store:
    """A store `name` in `folder`, of a corpus file that lies there. Raises SpectraError, which may name those files."""
    from spectra.datastore.build.build import Order, build
    from spectra.target.load import PlainNetwork

    out = folder / name
    order = Order(
        Corpus([str(file)], skip_bad=True),
        out,
        settings,
        device=str(target.model.device),
        licence=licence,
        loaded=PlainNetwork(target.model, target.tokenizer, target.name),
        progress=partial(CallbackProgress, on_progress),
    )
    build(order)
    store = Store.open(out)
    on_progress("opening", 1, 1)
    return store
