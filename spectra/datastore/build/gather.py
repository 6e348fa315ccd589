"""First phase of a build: the corpus becomes candidates, texts of at most a window that pass the floors and are new.

Counted every few thousand texts, so that a killed build reads on from there. No torch.
"""

import hashlib
import os
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spectra.datastore.build.corpus import Corpus
from spectra.datastore.build.dedup import Seen, Similar
from spectra.datastore.build.readers import Text
from spectra.datastore.build.settings import BuildSettings
from spectra.datastore.build.workdir import CANDIDATE, Workdir, append
from spectra.datastore.sources import NONE, digest
from spectra.metrics import distinct4

CHUNK = 256
"""Texts tokenized at once."""
CHECKPOINT = 16
"""Chunks after which progress is counted."""

Tokenize = Callable[[list[str]], list[list[int]]]


@dataclass
class Gathering:
    """records: texts taken from the corpus. rows, tokens: of the candidates. counts: texts seen and dropped."""

    workdir: Workdir
    settings: BuildSettings
    tokenize: Tokenize
    records: int = 0
    rows: int = 0
    tokens: int = 0

    def __post_init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._equal = Seen()
        self._similar = Similar(self.settings.seed)
        self._rows: list[tuple[int, int, bytes, int, bytes]] = []
        self._tokens: list[NDArray[Any]] = []
        self._sums = {path: hashlib.sha256() for path in (self.workdir.tokens, self.workdir.candidates)}

    def run(self, corpus: Corpus, progress: Callable[[], object]) -> None:
        """Read on to the end. `progress` is called after each chunk."""
        texts = iter(corpus)
        for _ in islice(texts, self.records):
            pass
        for number, chunk in enumerate(_chunks(texts), 1):
            self.take(chunk)
            if number % CHECKPOINT == 0:
                self.checkpoint()
            progress()
        self.counts.update(bad=corpus.bad, filtered=corpus.filtered, excluded=corpus.excluded)
        self.checkpoint(done=True)

    def check(self) -> None:
        """Raise SpectraError unless what was counted last lies there as it was written."""
        state = self.workdir.read_progress()
        sizes = {self.workdir.tokens: self.workdir.token.itemsize, self.workdir.candidates: CANDIDATE.itemsize}
        for (path, size), count in zip(sizes.items(), ("tokens", "rows"), strict=True):
            self._sums[path] = _sum(path, size * state.get(count, 0))
            if state and state["sums"][path.name] != self._sums[path].hexdigest():
                raise self.workdir.damaged(path)

    def resume(self) -> None:
        """Go back to what was counted last and learn it again. Raises SpectraError as `check` does."""
        self.check()
        state = self.workdir.read_progress()
        self.records = state.get("records", 0)
        self.rows = state.get("rows", 0)
        self.tokens = state.get("tokens", 0)
        self.counts = Counter(state.get("counts", {}))
        _cut(self.workdir.tokens, self.tokens * self.workdir.token.itemsize)
        _cut(self.workdir.candidates, self.rows * CANDIDATE.itemsize)
        for start in range(0, self.rows, 4096):
            for row in self.workdir.read_candidates(start, min(start + 4096, self.rows)):
                self._equal.add(int(row["key"]))
                self._similar.add(self._similar.keys(self.workdir.read_tokens(row["start"], row["length"])))

    def take(self, texts: list[Text]) -> None:
        for text, ids in zip(texts, self.tokenize([one.text for one in texts]), strict=True):
            self.records += 1
            pieces = [ids[i : i + self.settings.window] for i in range(0, len(ids), self.settings.window)]
            self.counts["texts"] += len(pieces)
            self.counts["tokens"] += len(ids)
            key = int.from_bytes(digest(text.text)[:8], "little")
            if key in self._equal:
                self.counts["duplicate"] += len(pieces)
                continue
            for place, piece in enumerate(pieces):
                self._take_piece(text, place, piece, key)

    def _take_piece(self, text: Text, place: int, ids: list[int], key: int) -> None:
        if len(ids) < self.settings.min_tokens:
            self.counts["short"] += 1
            return
        if distinct4(ids) < self.settings.min_distinct:
            self.counts["repetitive"] += 1
            return
        array = np.array(ids, self.workdir.token)
        bands = self._similar.keys(array)
        if self._similar.known(bands):
            self.counts["similar"] += 1
            return
        self._similar.add(bands)
        self._equal.add(key)
        name = text.text if place == 0 else f"{text.text}\0{place}"
        source = NONE if text.prompt is None else digest(text.prompt)
        self.add(array, hashlib.sha256(name.encode()).hexdigest()[:16].encode(), key, source)

    def add(self, tokens: NDArray[Any], name: bytes, key: int, source: bytes) -> None:
        """Append a candidate; written at the next checkpoint."""
        self._rows.append((self.tokens, len(tokens), name, key, source))
        self._tokens.append(tokens)
        self.rows += 1
        self.tokens += len(tokens)

    def checkpoint(self, *, done: bool = False) -> None:
        if self._rows:
            self._append(self.workdir.tokens, np.concatenate(self._tokens))
            self._append(self.workdir.candidates, np.array(self._rows, CANDIDATE))
            self._rows.clear()
            self._tokens.clear()
        state = {"records": self.records, "rows": self.rows, "tokens": self.tokens, "done": done}
        sums = {path.name: found.hexdigest() for path, found in self._sums.items()}
        self.workdir.write_progress({**state, "counts": dict(self.counts), "sums": sums})

    def _append(self, path: Path, records: NDArray[Any]) -> None:
        append(path, records)
        self._sums[path].update(records.tobytes())


def _sum(path: Path, size: int) -> Any:
    """The running SHA-256 of the first `size` bytes of a file, or of those that are there."""
    found = hashlib.sha256()
    if path.exists():
        with path.open("rb") as file:
            while part := file.read(min(size, 1 << 20)):
                found.update(part)
                size -= len(part)
    return found


def _cut(path: Path, size: int) -> None:
    """Have the file there with so many bytes."""
    path.touch()
    os.truncate(path, size)


def _chunks(texts: Iterator[Text]) -> Iterator[list[Text]]:
    while chunk := list(islice(texts, CHUNK)):
        yield chunk
