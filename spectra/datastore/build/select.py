"""Which candidates are scored and which are kept. One pass over them, with the kept ones in memory only.

Random samples do not depend on the order of the corpus: each text draws a lot by its hash and a seed.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spectra.datastore.build.dedup import mix
from spectra.datastore.build.settings import BuildSettings
from spectra.datastore.build.workdir import Workdir

BLOCK = 65536
"""Candidates read at a time."""
EDGES = np.logspace(0, 4, 33)
"""Bounds of the perplexity histogram's 32 bins; what lies outside counts in the first or last."""
ROW = np.dtype([
    ("row", "<i8"), ("lot", "<f8"), ("start", "<i8"), ("length", "<i4"), ("perplexity", "<f4"), ("hash", "S16"),
    ("source", "V32"),
])  # fmt: skip


@dataclass(frozen=True, slots=True)
class Selection:
    """kept: rows by perplexity, then hash. histogram: how many newly scored texts fall in each bin."""

    kept: NDArray[Any]
    histogram: NDArray[np.int64]


def lots(hashes: NDArray[np.bytes_], seed: int) -> NDArray[np.float64]:
    """A number from 0 to 1 for each text."""
    values = np.array([int(text, 16) for text in hashes.tolist()], np.uint64)
    return mix(values ^ mix(np.array([seed], np.uint64))) / 2.0**64


def to_score(workdir: Workdir, rows: int, tokens: int | None, seed: int) -> NDArray[np.bool_]:
    """Which candidates are scored: those that bring no score along, at most about `tokens` of them (None: all)."""
    wanted = np.arange(rows) >= workdir.known
    if tokens is None:
        return wanted
    drawn = np.empty(rows)
    lengths = np.empty(rows, np.int64)
    for begin in range(0, rows, BLOCK):
        block = workdir.read_candidates(begin, min(begin + BLOCK, rows))
        drawn[begin : begin + len(block)] = lots(block["hash"], seed)
        lengths[begin : begin + len(block)] = block["length"]
    ranked = np.argsort(drawn, kind="stable")
    ranked = ranked[wanted[ranked]]
    before = np.cumsum(lengths[ranked]) - lengths[ranked]
    wanted[ranked[before >= tokens]] = False
    return wanted


def select(workdir: Workdir, rows: int, settings: BuildSettings) -> Selection:
    """The texts of lowest perplexity (ties: by hash), or of lowest lot without refining."""
    best = np.empty(0, ROW)
    histogram = np.zeros(len(EDGES) - 1, np.int64)
    for block in _blocks(workdir, rows, settings):
        histogram += bins(block["perplexity"][block["row"] >= workdir.known])
        best = _cut(np.concatenate([best, block]), settings)
    if settings.keep_tokens is not None and len(best):
        best["length"][-1] -= max(0, int(best["length"].sum(dtype=np.int64)) - settings.keep_tokens)
    return Selection(best[np.lexsort((best["hash"], best["perplexity"]))], histogram)


def bins(perplexities: NDArray[np.floating]) -> NDArray[np.int64]:
    """How many fall in each bin (NaN: in none)."""
    known = perplexities[~np.isnan(perplexities)]
    return np.histogram(np.clip(known, EDGES[0], EDGES[-1]), EDGES)[0].astype(np.int64)


def _cut(rows: NDArray[Any], settings: BuildSettings) -> NDArray[Any]:
    """The best of these; a text is in while the ones before it leave room for a token."""
    ranked = rows[np.lexsort((rows["hash"], rows["lot"]))][: settings.keep]
    if settings.keep_tokens is None:
        return ranked
    before = np.cumsum(ranked["length"], dtype=np.int64) - ranked["length"]
    fitting: NDArray[Any] = ranked[before < settings.keep_tokens]
    return fitting


def _blocks(workdir: Workdir, rows: int, settings: BuildSettings) -> Iterator[NDArray[Any]]:
    """Candidates with their lots: the perplexity (without one a text is out), or a number drawn by seed and hash."""
    scores = workdir.read_scores(rows)
    for begin in range(0, rows, BLOCK):
        found = workdir.read_candidates(begin, min(begin + BLOCK, rows))
        block = np.empty(len(found), ROW)
        block["row"] = np.arange(begin, begin + len(found))
        for name in ("start", "length", "hash", "source"):
            block[name] = found[name]
        if settings.refine:
            block["perplexity"] = scores[begin : begin + len(found)]
            block["lot"] = block["perplexity"]
        else:
            block["perplexity"] = np.nan
            block["lot"] = lots(found["hash"], settings.seed)
        yield block[~np.isnan(block["lot"])]
