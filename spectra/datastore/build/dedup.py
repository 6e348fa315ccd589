"""Which texts were seen before: equal ones by hash, similar ones by MinHash. Deterministic, 8 bytes a key.

MinHash (Broder 1997) over 5-token shingles, 6 bands of 6 rows: texts that share 80 % of their shingles are found in
5 of 6 cases, those that share half in 1 of 11. No text is kept, so a match is not checked against what it matches.

Why not datasketch (2.0, measured on 20,000 texts of 240 tokens, best of 3): its `MinHashLSH` in place of all this takes
2,000 bytes a text more, where a build may take 100, and 12 % more time for reading. Its `MinHash` for the signatures,
with the keys kept here, takes 13 % more time and 50 MB for the scipy it imports, and saves five lines; it finds other
near duplicates (4 of the 10 in the corpus of the shipped store `code`), so that store would be another.
"""

import numpy as np
from numpy.typing import NDArray

SHINGLE = 5
BANDS, ROWS = 6, 6
BUFFER = 1 << 14

Keys = NDArray[np.uint64]


class Seen:
    """A set of 64-bit keys as sorted runs, merged in pairs of like size: 8 bytes a key, twice that while merging."""

    def __init__(self) -> None:
        self._runs: list[Keys] = []
        self._fresh: set[int] = set()

    def __contains__(self, key: int) -> bool:
        if key in self._fresh:
            return True
        wanted = np.uint64(key)
        for run in self._runs:
            place = int(run.searchsorted(wanted))
            if place < len(run) and run[place] == wanted:
                return True
        return False

    def add(self, key: int) -> None:
        self._fresh.add(key)
        if len(self._fresh) >= BUFFER:
            self._runs.append(np.sort(np.fromiter(self._fresh, np.uint64, len(self._fresh))))
            self._fresh.clear()
            while len(self._runs) > 1 and len(self._runs[-2]) <= 2 * len(self._runs[-1]):
                merged = np.concatenate([self._runs.pop(), self._runs.pop()])
                merged.sort()
                self._runs.append(merged)


class Similar:
    """Finds texts that share most of their shingles with an earlier one."""

    def __init__(self, seed: int = 0) -> None:
        numbers = np.random.PCG64(seed).random_raw(2 * BANDS * ROWS)
        self._flips: Keys = numbers[: BANDS * ROWS, None].astype(np.uint64)
        self._factors: Keys = numbers[BANDS * ROWS :, None].astype(np.uint64) | np.uint64(1)
        self._bands = [Seen() for _ in range(BANDS)]

    def keys(self, tokens: NDArray[np.integer]) -> list[int]:
        """One key a band; two texts are similar when any is equal."""
        shingles = _shingles(tokens.astype(np.uint64))
        values = (shingles[None, :] ^ self._flips) * self._factors
        values ^= values >> np.uint64(32)
        least = values.min(axis=1).reshape(BANDS, ROWS)
        key = np.zeros(BANDS, np.uint64)
        for row in range(ROWS):
            key = mix(key ^ least[:, row])
        return [int(k) for k in key]

    def known(self, keys: list[int]) -> bool:
        return any(key in band for key, band in zip(keys, self._bands, strict=True))

    def add(self, keys: list[int]) -> None:
        for key, band in zip(keys, self._bands, strict=True):
            band.add(key)


def _shingles(tokens: Keys) -> Keys:
    """A hash of every run of SHINGLE tokens (of the whole text where it is shorter)."""
    width = min(SHINGLE, len(tokens))
    count = len(tokens) - width + 1
    total = np.full(count, width, np.uint64)
    for offset in range(width):
        total = mix(total ^ tokens[offset : offset + count])
    return total


def mix(values: Keys) -> Keys:
    """splitmix64's finaliser: every bit of the input moves every bit of the output."""
    values = values + np.uint64(0x9E3779B97F4A7C15)
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))
