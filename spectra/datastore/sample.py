"""Random samples of candidates that do not depend on their order: each text draws a lot by its hash and a seed."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from spectra.datastore.dedup import mix
from spectra.datastore.work import Work

BLOCK = 65536


def lots(hashes: NDArray[np.bytes_], seed: int) -> NDArray[np.float64]:
    """A number from 0 to 1 for each text."""
    values = np.array([int(text, 16) for text in hashes.tolist()], np.uint64)
    return mix(values ^ mix(np.array([seed], np.uint64))) / 2.0**64


def to_score(work: Work, rows: int, tokens: int | None, seed: int) -> NDArray[np.bool_]:
    """Which candidates are scored: those that bring no score along, at most about `tokens` of them (None: all)."""
    wanted = np.arange(rows) >= work.known
    if tokens is None:
        return wanted
    drawn, lengths = np.empty(rows), np.empty(rows, np.int64)
    for begin in range(0, rows, BLOCK):
        block: NDArray[Any] = work.read_candidates(begin, min(begin + BLOCK, rows))
        drawn[begin : begin + len(block)] = lots(block["hash"], seed)
        lengths[begin : begin + len(block)] = block["length"]
    ranked = np.argsort(drawn, kind="stable")
    ranked = ranked[wanted[ranked]]
    before = np.cumsum(lengths[ranked]) - lengths[ranked]
    wanted[ranked[before >= tokens]] = False
    return wanted
