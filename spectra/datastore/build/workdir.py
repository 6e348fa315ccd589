"""The folder that a build works in, beside the store to be: tokens, candidates, scores, and how far reading came.

A killed build goes on from it, if its files are as they were written. One build at a time uses it.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spectra.datastore.build.dedup import mix
from spectra.datastore.layout import CARD
from spectra.errors import SpectraError
from spectra.io import workdir
from spectra.io.files import holds_file
from spectra.io.hashes import canonical, json_sha256
from spectra.io.json_text import parse_json

CANDIDATE = np.dtype([("start", "<i8"), ("length", "<i4"), ("hash", "S16"), ("key", "<u8"), ("source", "V32")])
"""A text that passed the floors: where its tokens are, its hash, the hash of its normalised text, of its prompt."""
SCORE = np.dtype([("row", "<i8"), ("perplexity", "<f4"), ("check", "<u4")])
"""Made by `scored`. check: tells whether the record is as it was written."""


@dataclass(frozen=True, slots=True)
class Workdir:
    """out: the store to be. token: type of a token id in the files here."""

    out: Path
    token: np.dtype[Any]

    @property
    def folder(self) -> Path:
        return workdir.workdir_of(self.out)

    @property
    def store(self) -> Path:
        """Where the finished folder is put together."""
        return self.folder / "store"

    @property
    def tokens(self) -> Path:
        return self.folder / "tokens.bin"

    @property
    def candidates(self) -> Path:
        return self.folder / "candidates.bin"

    @property
    def reading(self) -> Path:
        """How far reading came."""
        return self.folder / "read.json"

    @property
    def known_scores(self) -> Path:
        """Those that came with an older store."""
        return self.folder / "known.scores"

    @property
    def known(self) -> int:
        """How many candidates, the first ones, came with an older store."""
        return self.known_scores.stat().st_size // SCORE.itemsize if self.known_scores.exists() else 0

    def scores(self, process: int) -> Path:
        return self.folder / f"{process}.scores"

    @property
    def done(self) -> bool:
        return workdir.is_placed(self.folder, self.out / CARD)

    @property
    def busy(self) -> str:
        return f"{self.out} is being built by another process; wait for it"

    def drop(self) -> None:
        workdir.remove(self.folder)

    def tidy(self) -> None:
        """Remove what a build left that was killed when its store had the place."""
        workdir.tidy(self.folder, self.out / CARD, busy=self.busy)

    @contextmanager
    def held(self, recipe: Mapping[str, Any], *, force: bool) -> Iterator[None]:
        """Hold the folder for the build that `recipe` describes.

        Scores of another build go only with `force`, or when its store is in place.
        """

        def drop_other_work() -> None:
            if not force and not self.done and any(path != self.known_scores for path in self.folder.glob("*.scores")):
                raise SpectraError(
                    "out",
                    f"{self.folder} holds unfinished work with other settings; repeat those, pass --force to drop "
                    "it, or choose another folder",
                )

        with workdir.held(self.folder, recipe, busy=self.busy, on_other=drop_other_work):
            yield

    def read_progress(self) -> dict[str, Any]:
        """What was counted last; empty at the start. Raises SpectraError where the file was altered."""
        if not self.reading.is_file():
            return {}
        try:
            state = parse_json(self.reading.read_bytes())
            whole = isinstance(state, dict) and state.pop("sha256", None) == json_sha256(state)
        except ValueError:
            whole = False
        if not whole:
            raise self.damaged(self.reading)
        return dict(state)

    def write_progress(self, state: Mapping[str, Any]) -> None:
        workdir.replace(self.reading, canonical({**state, "sha256": json_sha256(state)}))

    def damaged(self, file: Path) -> SpectraError:
        return SpectraError("out", f"{file} is damaged; remove {self.folder}, and the same command begins anew")

    def read_candidates(self, start: int, stop: int) -> NDArray[Any]:
        """Rows start to stop (fewer at the end)."""
        return np.fromfile(self.candidates, CANDIDATE, stop - start, offset=start * CANDIDATE.itemsize)

    def read_scores(self, rows: int) -> NDArray[np.float32]:
        """The perplexity of each row, NaN where it is not known yet. Raises SpectraError for altered records."""
        found = np.full(rows, np.nan, np.float32)
        for path in sorted(self.folder.glob("*.scores")):
            scores = np.fromfile(path, SCORE, path.stat().st_size // SCORE.itemsize)
            same = scored(scores["row"], scores["perplexity"])["check"] == scores["check"]
            if not (same & (scores["row"] >= 0) & (scores["row"] < rows)).all():
                raise self.damaged(path)
            found[scores["row"]] = scores["perplexity"]
        return found

    def read_tokens(self, start: int, count: int) -> NDArray[Any]:
        """A run of tokens, read from the file: pages of a map would count as memory of this process."""
        return np.fromfile(self.tokens, self.token, count, offset=start * self.token.itemsize)


def scored(rows: NDArray[np.integer], perplexities: NDArray[np.floating]) -> NDArray[Any]:
    """The records of these scores."""
    records = np.empty(len(rows), SCORE)
    records["row"] = rows
    records["perplexity"] = perplexities
    bits = records["perplexity"].view("<u4").astype(np.uint64)
    records["check"] = mix(records["row"].astype(np.uint64) ^ mix(bits)).astype(np.uint32)
    return records


def append(path: Path, records: NDArray[Any]) -> None:
    """Add whole records to a file, see `spectra.io.workdir.append`."""
    workdir.append(path, records.tobytes(), record=records.itemsize)


def check_place(out: Path, base: Path | None, *, force: bool) -> None:
    """Raise SpectraError for what is in the way of the store. base: the one that it may replace; force: any other."""
    if out.exists() and not force and out != base:
        raise SpectraError("out", f"{out} exists; choose another folder or pass --force to replace it")
    if out.exists() and not holds_file(out, CARD, "out"):
        raise SpectraError("out", f"{out} is there and no datastore, so it is not replaced; name a new folder")


def check_place_at_once(out: Path, base: Path | None, *, force: bool) -> None:
    """`check_place` before anything is loaded, unless a build has left something beside it, which it sees to first."""
    if not any(workdir.beside(out, ending).exists() for ending in ("work", "old")):
        check_place(out, base, force=force)
