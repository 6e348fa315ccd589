"""Texts to index files: which tokens followed which contexts, and how often (SPECTRA 4.2). No torch, no tokenizer.

A context is the run of tokens before a position, at most `order` long. Its key in the trie is the run read backwards,
so one prefix search finds every stored suffix of a text's end, the longest last. A longer context is stored only where
the shorter one has more than one successor: past that point it could not say anything new.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import marisa_trie
import numpy as np
from numpy.typing import NDArray

from spectra.datastore.layout import BLOCKS, COUNTS, SIZES, STRIDE, SUCCESSORS, TOTALS, TRIE
from spectra.io.arrays import save_array

MAX_COUNT = 65535
"""Counts are kept in 16 bits; larger ones are scaled down together with their total."""

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class IndexFacts:
    """order: longest context. contexts, successors: how many are stored. ngrams: (context, successor) pairs counted."""

    order: int
    contexts: int
    successors: int
    ngrams: int

    def to_dict(self) -> dict[str, int]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class _Level:
    """Contexts of one length. ends: a position after each. Columns of their successors, sorted by context and count."""

    length: int
    ends: Ints
    totals: Ints
    sizes: Ints
    tokens: Ints
    counts: Ints
    ngrams: int


def token_type(vocabulary: int) -> type[np.uint16] | type[np.uint32]:
    """The smallest type that holds every token id."""
    return np.uint16 if vocabulary <= 1 << 16 else np.uint32


def build_index(
    texts: Sequence[Sequence[int] | NDArray[np.integer]],
    folder: Path,
    *,
    vocabulary: int,
    order: int = 8,
    successors: int = 8,
    header: Sequence[int] = (),
    banned: Collection[int] = (),
) -> IndexFacts:
    """Write the index of `texts` (token ids) into `folder`, which must exist. The same texts give the same bytes.

    successors: how many a context keeps, the most frequent ones (ties: the lowest id). header: ids put before every
    text, known but never predicted. banned: ids that are never predicted. Raises ValueError without any text, and for
    more than 255 successors; OSError where a file cannot be written whole.
    """
    if not 1 <= successors <= np.iinfo(np.uint8).max:
        raise ValueError(f"{successors} successors do not fit; keep 1 to 255")
    joined = _join(texts, header)
    kept = np.isin(joined.tokens, np.fromiter(banned, np.int64, len(banned)), invert=True)
    kept[np.arange(len(joined.tokens)) < joined.first] = False
    levels = list(_levels(joined, kept, vocabulary, order, successors))
    keys = [key for level in levels for key in _keys(joined.tokens, level)]
    trie = marisa_trie.BinaryTrie(keys)
    (folder / TRIE).write_bytes(trie.tobytes())  # its own `save` does not say why it could not
    place = np.fromiter((trie.key_id(key) for key in keys), np.int64, len(keys))
    del keys
    sizes_by_level = np.concatenate([level.sizes for level in levels])
    sizes = np.zeros(len(place), np.int64)
    totals = np.zeros(len(place), np.int64)
    sizes[place] = sizes_by_level
    totals[place] = np.concatenate([level.totals for level in levels])
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    rows = _rows(offsets[:-1][place], sizes_by_level)
    ordered = np.empty(int(offsets[-1]), np.int64)
    counts = np.empty(int(offsets[-1]), np.int64)
    ordered[rows] = np.concatenate([level.tokens for level in levels])
    counts[rows] = np.concatenate([level.counts for level in levels])
    scale = np.maximum(1, -(-totals // MAX_COUNT))
    save_array(folder / BLOCKS, offsets[:-1:STRIDE].astype(np.uint32 if offsets[-1] < 1 << 32 else np.uint64))
    save_array(folder / SIZES, sizes.astype(np.uint8))
    save_array(folder / SUCCESSORS, ordered.astype(token_type(vocabulary)))
    save_array(folder / COUNTS, np.maximum(1, counts // np.repeat(scale, sizes)).astype(np.uint16))
    save_array(folder / TOTALS, (totals // scale).astype(np.uint16))
    return IndexFacts(order, len(place), len(ordered), sum(level.ngrams for level in levels))


@dataclass(frozen=True, slots=True)
class _Joined:
    """All texts as one. For each token: starts, where its text begins; first, the first position of its text that may
    be predicted."""

    tokens: Ints
    starts: Ints
    first: Ints


def _join(texts: Sequence[Sequence[int] | NDArray[np.integer]], header: Sequence[int]) -> _Joined:
    if not any(len(text) for text in texts):
        raise ValueError("there is no text to index")
    head = np.asarray(header, np.int64)
    parts = [part for text in texts for part in (head, np.asarray(text, np.int64))]
    lengths = np.array([len(head) + len(text) for text in texts])
    begin = np.cumsum(lengths) - lengths
    starts = np.repeat(begin, lengths)
    return _Joined(np.concatenate(parts), starts, np.maximum(starts + len(head), starts + 1))


def _levels(joined: _Joined, kept: NDArray[np.bool_], vocabulary: int, order: int, successors: int) -> Iterator[_Level]:
    """Contexts of length 1, 2, ...; each level only under the ambiguous contexts of the one before.

    kept: positions that may be predicted. successors: how many of a context's are stored.
    """
    tokens = joined.tokens
    at = np.flatnonzero(kept)
    group = np.zeros(len(at), np.int64)
    for length in range(1, order + 1):
        inside = at - length >= joined.starts[at]
        at = at[inside]
        group = group[inside]
        if not len(at):
            return
        _, first, group = np.unique(group * vocabulary + tokens[at - length], return_index=True, return_inverse=True)
        pairs, count = np.unique(group * vocabulary + tokens[at], return_counts=True)
        owner, token = np.divmod(pairs, vocabulary)
        ranked = np.lexsort((token, -count, owner))
        owner = owner[ranked]
        token = token[ranked]
        count = count[ranked]
        distinct = np.bincount(owner, minlength=len(first))
        rank = np.arange(len(owner)) - np.repeat(np.cumsum(distinct) - distinct, distinct)
        totals = np.bincount(owner, weights=count, minlength=len(first)).astype(np.int64)
        top = rank < successors
        sizes = np.minimum(distinct, successors)
        yield _Level(length, at[first], totals, sizes, token[top], count[top], len(pairs))
        ambiguous = (distinct > 1)[group]
        at = at[ambiguous]
        group = group[ambiguous]


def _keys(tokens: Ints, level: _Level) -> Iterator[bytes]:
    """The trie's key of each context: its tokens from the last to the first, 32 bits each, big-endian."""
    back = np.arange(1, level.length + 1)
    width = 4 * level.length
    data = tokens[level.ends[:, None] - back].astype(">u4").tobytes()
    return (data[i : i + width] for i in range(0, len(data), width))


def _rows(starts: Ints, sizes: Ints) -> Ints:
    """start, start + 1, ... for each run, one run after another."""
    skip = np.cumsum(sizes) - sizes
    return np.repeat(starts - skip, sizes) + np.arange(int(sizes.sum()))
