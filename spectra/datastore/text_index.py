"""Texts as a suffix array: what followed the longest known suffix of a context. Made in memory, no files, no torch."""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from spectra.drafters.continuations import Lookup

ORDER = 8
SEPARATOR = 2**32 - 1
"""Stands between texts; no tokenizer has such an id."""
MAX_PLACES = 256
"""Occurrences that are counted, the newest of those of the longest match."""


class TextIndex:
    """`SuccessorCounts` of texts, the oldest first."""

    order = ORDER

    def __init__(self, texts: Iterable[NDArray[np.uint32]]) -> None:
        edge = np.array([SEPARATOR], np.uint32)
        parts = [np.full(ORDER, SEPARATOR, np.uint32)]
        for text in texts:
            parts += [text, edge]
        tokens = np.concatenate(parts)
        places = np.flatnonzero((tokens[:-1] != SEPARATOR) & (tokens[1:] != SEPARATOR))
        order = np.lexsort([tokens[places - back] for back in reversed(range(ORDER))])  # by the last token first
        self.size = len(tokens) - ORDER
        self._tokens = tokens.data
        self._places = places[order].data

    def successors(self, context: Sequence[int]) -> Lookup:
        """See `SuccessorCounts.successors`."""
        tokens, places = self._tokens, self._places
        low, high, match = 0, len(places), 0
        while match < min(ORDER, len(context)):
            token = context[-1 - match]

            def before(place: int, back: int = match) -> int:
                return tokens[place - back]

            start = bisect_left(places, token, low, high, key=before)
            end = bisect_right(places, token, start, high, key=before)
            if start == end:
                break
            low, high, match = start, end, match + 1
        if match == 0:
            return Lookup.nothing()
        newest = sorted(places[low:high])[-MAX_PLACES:] if high - low > MAX_PLACES else places[low:high]
        counts = Counter(tokens[place + 1] for place in newest)
        return Lookup(match, len(newest), counts.most_common())
