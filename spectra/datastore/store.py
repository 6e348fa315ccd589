"""An open datastore: memory-mapped, asked for what followed a text's last tokens. No torch, no tokenizer.

Does not build stores, and checks no more of them than opening needs; `card.py` knows what a folder must hold.
"""

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import marisa_trie
import numpy as np

from spectra.datastore.card import read_card
from spectra.datastore.continuations import Node, continuations
from spectra.datastore.index import ARRAYS, STRIDE, TRIE
from spectra.errors import SpectraError


class Store:
    """card: what the folder says of itself. order: the longest context it knows, in tokens."""

    def __init__(self, folder: Path, card: Mapping[str, Any]) -> None:
        self.folder = folder
        self.card = card
        try:
            self.order = int(card["index"]["order"])
            self._trie = marisa_trie.BinaryTrie().mmap(str(folder / TRIE))
            self._blocks, self._sizes, self._totals, self._tokens, self._counts = (
                memoryview(np.load(folder / name, mmap_mode="r", allow_pickle=False))  # several times as quick to index
                for name in ARRAYS
            )
            whole = len(self._trie) == len(self._sizes) == len(self._totals)
            whole = whole and len(self._blocks) == -(-len(self._sizes) // STRIDE)
            whole = whole and len(self._tokens) == len(self._counts) == sum(self._run(len(self._sizes) - 1))
        except (OSError, ValueError, RuntimeError, LookupError, TypeError) as error:
            raise SpectraError("datastore", f"{folder} cannot be read ({error}); build it again") from error
        if not whole:
            raise SpectraError("datastore", f"{folder}: its index files do not fit together; build it again")

    @classmethod
    def open(cls, folder: Path) -> "Store":
        """Raises SpectraError naming what is missing or malformed."""
        return cls(folder, read_card(folder))

    @property
    def name(self) -> str:
        return str(self.card.get("name") or self.folder.name)

    @property
    def refined(self) -> bool:
        return bool(self.card.get("refined"))

    def __len__(self) -> int:
        """Contexts it knows."""
        return len(self._totals)

    def successors(self, context: Sequence[int]) -> tuple[int, int, list[tuple[int, int]]]:
        """What followed the longest known suffix of `context`.

        (tokens matched, times seen, [(token, count)] most frequent first); (0, 0, []) when it knows none.
        """
        tail = context[-self.order :]
        found = self._trie.prefixes(struct.pack(f">{len(tail)}I", *reversed(tail)))
        if not found:
            return 0, 0, []
        key = found[-1]
        place = self._trie.key_id(key)
        begin, size = self._run(place)
        end = begin + size
        pairs = zip(self._tokens[begin:end].tolist(), self._counts[begin:end].tolist(), strict=True)
        return len(key) // 4, self._totals[place], list(pairs)

    def _run(self, place: int) -> tuple[int, int]:
        """Where the successors of a context start, and how many it has."""
        block = place // STRIDE
        return self._blocks[block] + sum(self._sizes[block * STRIDE : place]), self._sizes[place]

    def continuations(self, context: Sequence[int], most: int) -> list[Node]:
        """This store's tree of likely continuations, see `continuations`."""
        return continuations([self], context, most)
