"""An open datastore: memory-mapped, asked for what followed a text's last tokens. No torch, no tokenizer.

Does not build stores; `card.py` knows what a folder must hold.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from tokenize import TokenError
from typing import Any

import marisa_trie
import numpy as np
from numpy.typing import NDArray

from spectra.datastore.card import check_bytes, settled
from spectra.datastore.layout import BLOCKS, CORPUS, COUNTS, SIZES, STRIDE, SUCCESSORS, TEXTS, TOTALS, TRIE
from spectra.drafters.continuations import Kept, Lookup, Node, continuations
from spectra.drafters.near_certain import Top, key_of
from spectra.errors import SpectraError


class Store:
    """card: what the folder says of itself. order: the longest context it knows, in tokens."""

    def __init__(self, folder: Path, card: Mapping[str, Any]) -> None:
        self.folder = folder
        self.card = card
        try:
            self.order = int(card["index"]["order"])
            self._trie = marisa_trie.BinaryTrie().mmap(str(folder / TRIE))
            self._blocks = _mapped(folder / BLOCKS)
            self._sizes = _mapped(folder / SIZES)
            self._totals = _mapped(folder / TOTALS)
            self._tokens = _mapped(folder / SUCCESSORS)
            self._counts = _mapped(folder / COUNTS)
            whole = self._fits_together()
        except (OSError, ValueError, RuntimeError, LookupError, TypeError, TokenError) as error:
            raise SpectraError("datastore", f"{folder} cannot be read ({error}); build it again") from error
        if not whole:
            raise SpectraError("datastore", f"{folder}: its index files do not fit together; build it again")

    @classmethod
    def open(cls, folder: Path) -> "Store":
        """Raises SpectraError naming what is missing or altered."""

        def opened(card: Mapping[str, Any]) -> Store:
            check_bytes(folder, card)
            return cls(folder, card)

        return settled(folder, opened)

    @property
    def name(self) -> str:
        return str(self.card.get("name") or self.folder.name)

    @property
    def refined(self) -> bool:
        return bool(self.card.get("refined"))

    def __len__(self) -> int:
        """Contexts it knows."""
        return len(self._totals)

    def successors(self, context: Sequence[int]) -> Lookup:
        """What followed the longest known suffix of `context`; no match when it knows none."""
        found = self._trie.prefixes(key_of(context[-self.order :]))
        if not found:
            return Lookup.nothing()
        key = found[-1]
        place = self._trie.key_id(key)
        begin, size = self._run(place)
        end = begin + size
        pairs = zip(self._tokens[begin:end].tolist(), self._counts[begin:end].tolist(), strict=True)
        return Lookup(len(key) // 4, self._totals[place], list(pairs))

    def likeliest(self, least: float, most: int) -> Iterator[Top]:
        """See `TopStore`."""
        totals = np.asarray(self._totals, np.int64)
        chance = np.asarray(self._counts)[self._firsts] / (totals + 1)
        places = np.flatnonzero(chance >= least)
        for place in places[np.argsort(-totals[places], kind="stable")][:most].tolist():
            yield self._top(self._trie.restore_key(place), place)

    def top(self, key: bytes) -> Top | None:
        """See `TopStore`."""
        return self._top(key, self._trie.key_id(key)) if key in self._trie else None

    def ending_with(self, key: bytes) -> Iterator[Top]:
        """See `TopStore`."""
        for longer in self._trie.iterkeys(key):
            yield self._top(longer, self._trie.key_id(longer))

    def texts_with(self, tokens: Sequence[int]) -> Kept | None:
        """The kept texts that hold these tokens one after the other: reads the whole corpus, a few ms a million tokens.

        None where the corpus does not lie beside the index.
        """
        try:
            corpus = np.load(self.folder / CORPUS, mmap_mode="r", allow_pickle=False)
            texts = np.load(self.folder / TEXTS, mmap_mode="r", allow_pickle=False)
        except (OSError, ValueError, TokenError):
            return None
        places = np.flatnonzero(corpus[: len(corpus) - len(tokens) + 1] == tokens[0])
        for offset, token in enumerate(tokens[1:], 1):
            places = places[corpus[places + offset] == token]
        holders = np.searchsorted(texts["start"], places, side="right") - 1
        inside = places + len(tokens) <= texts["start"][holders] + texts["length"][holders]
        times = int(np.count_nonzero(inside))
        holders = np.unique(holders[inside])
        known = texts["perplexity"][holders]
        known = known[np.isfinite(known)]
        return Kept(times, len(holders), round(float(known.min()), 4) if len(known) else None)

    def continuations(self, context: Sequence[int], max_nodes: int) -> list[Node]:
        """This store's tree of likely continuations, see `continuations`."""
        return continuations([self], context, max_nodes)

    @cached_property
    def _firsts(self) -> NDArray[np.int64]:
        """Where the most frequent successor of each context stands. The bytes of a large store are not checked."""
        sizes = np.asarray(self._sizes, np.int64)
        firsts: NDArray[np.int64] = np.minimum(np.cumsum(sizes) - sizes, len(self._tokens) - 1)
        return firsts

    def _top(self, key: bytes, place: int) -> Top:
        first = self._firsts[place]
        return Top(key, self._tokens[first], self._counts[first], self._totals[place])

    def _run(self, place: int) -> tuple[int, int]:
        """Where the successors of a context start, and how many it has."""
        block = place // STRIDE
        return self._blocks[block] + sum(self._sizes[block * STRIDE : place]), self._sizes[place]

    def _fits_together(self) -> bool:
        """Whether the index files can be of one index."""
        contexts = len(self._sizes)
        if not len(self._trie) == contexts == len(self._totals) or len(self._blocks) != -(-contexts // STRIDE):
            return False
        begin, size = self._run(contexts - 1)
        return len(self._tokens) == len(self._counts) == begin + size


def _mapped(file: Path) -> memoryview:
    """A file's array, read as it is asked; a memoryview is several times as quick to index as an array."""
    view = memoryview(np.load(file, mmap_mode="r", allow_pickle=False))
    view[:1].tolist()  # raises for numbers that it cannot read
    return view
