"""Datastores that visitors build from a file of their own: small, in a temporary folder, gone with the visitor."""

from __future__ import annotations

import re
import shutil
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from spectra.datastore.corpus import Corpus
from spectra.datastore.language import Language
from spectra.datastore.settings import BuildSettings
from spectra.datastore.store import Store
from spectra.errors import SpectraError

MOST_BYTES = 2_000_000
MOST_TOKENS = 50_000
MOST_VISITORS = 8
WINDOW = 512
KINDS = (".txt", ".jsonl")

Told = Callable[[str, int, int], None]
"""Hears (what is being done, how much of it is done, how much there is of it); what it raises ends the build."""


class Uploads:
    """One store a visitor, of at most `most` visitors: the one used longest ago goes first."""

    def __init__(self, most: int = MOST_VISITORS) -> None:
        self.most = most
        self._folders: OrderedDict[str, tempfile.TemporaryDirectory[str]] = OrderedDict()
        self._stores: dict[str, Store] = {}
        self._lock = threading.Lock()

    def of(self, visitor: str) -> Store | None:
        """The store this visitor built, if it is still there."""
        with self._lock:
            if visitor in self._folders:
                self._folders.move_to_end(visitor)
            return self._stores.get(visitor)

    def build(
        self, visitor: str, file: Path, keep: int, loaded: tuple[Any, Any, str], told: Told, *, window: int = WINDOW
    ) -> Store:
        """Build a store in the place of the visitor's last one.

        file: UTF-8, .txt (texts between blank lines) or .jsonl. keep: texts of lowest perplexity. loaded: (model,
        tokenizer, name). window: tokens a text is cut to. Raises SpectraError for the field "file" or "keep"; then the
        last one stays.
        """
        from spectra.datastore.build import Order, build

        settings = BuildSettings(keep=keep, window=window, batch_tokens=1024, skip_bad=True)
        folder = tempfile.TemporaryDirectory(prefix="spectra-store-")
        try:
            corpus = Corpus([str(_copy(file, Path(folder.name)))], skip_bad=True)
            _check_texts(corpus, Language(*loaded[1:]), settings)
            out = Path(folder.name) / f"my-{_plain(file.stem)}"
            order = Order(
                corpus, out, settings, device=str(loaded[0].device), licence="the visitor's own", loaded=loaded,
                progress=partial(Bar, told),
            )  # fmt: skip
            build(order)
            store = Store.open(out)
            told("opening", 1, 1)
        except SpectraError as error:
            folder.cleanup()
            text = str(error).removeprefix(f"{error.field}: ").replace(f"{folder.name}/", "")
            raise SpectraError("keep" if error.field == "keep" else "file", text) from error
        except BaseException:
            folder.cleanup()
            raise
        self.drop(visitor)
        with self._lock:
            self._folders[visitor], self._stores[visitor] = folder, store
            gone = list(self._folders)[: -self.most]
        for other in gone:
            self.drop(other)
        return store

    def drop(self, visitor: str) -> None:
        """Let it go, its files too; an answer that uses it keeps what it has mapped."""
        with self._lock:
            folder = self._folders.pop(visitor, None)
            self._stores.pop(visitor, None)
        if folder is not None:
            folder.cleanup()

    def clear(self) -> None:
        for visitor in list(self._folders):
            self.drop(visitor)


@dataclass
class Bar:
    """A progress bar that tells a function. n: how far it is."""

    told: Told
    what: str
    total: int | None
    unit: str
    hidden: bool = False
    n: int = 0

    def __enter__(self) -> Bar:
        self.update(0)
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def update(self, count: int) -> None:
        self.n += count
        self.told(self.what, self.n, self.total or 0)


class WithStores:
    """A target that has more datastores to retrieve from."""

    def __init__(self, target: Any, more: Sequence[Store]) -> None:
        self._target = target
        self.stores = [*more, *target.stores]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._target, name)


def _copy(file: Path, folder: Path) -> Path:
    """The file under a name of our own. Raises SpectraError for one that is no text, or too large."""
    kind = file.suffix.lower()
    if kind not in KINDS:
        raise SpectraError("file", f"{kind or 'a file without an ending'} is not read here; give .txt or .jsonl")
    size = file.stat().st_size
    if size > MOST_BYTES:
        raise SpectraError("file", f"{size / 1e6:.1f} MB; give at most {MOST_BYTES / 1e6:g} MB, or a part of it")
    try:
        text = file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise SpectraError("file", "it is not text in UTF-8; save it as UTF-8 and try again") from error
    if not text.strip():
        raise SpectraError("file", "it is empty; give a file with some paragraphs of text")
    if "\0" in text:
        raise SpectraError("file", "it holds bytes that no text has; give plain text or JSON lines")
    copy = folder / f"{_plain(file.stem)}{kind}"
    shutil.copyfile(file, copy)
    return copy


def _check_texts(corpus: Corpus, language: Language, settings: BuildSettings) -> None:
    lengths = [len(ids) for ids in language.encode([text.text for text in corpus])]
    if sum(lengths) > MOST_TOKENS:
        raise SpectraError("file", f"{sum(lengths):,} tokens; give at most {MOST_TOKENS:,}: cut the file")
    if not lengths:
        raise SpectraError("file", 'no line of it is an object with a "text"; give one JSON object a line')
    if max(lengths) < settings.min_tokens:
        longest = f"its longest text has {max(lengths)} tokens"
        raise SpectraError("file", f"{longest}; give texts of {settings.min_tokens} tokens or more")


def _plain(name: str) -> str:
    """A folder's name out of a file's."""
    return re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-")[:40] or "text"
