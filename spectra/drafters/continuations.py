"""Datastores to a tree of likely continuations, likeliest first. No torch, no files.

`NGramStore` is what drafting asks of a store; `datastore/store.py` is one.
"""

from collections.abc import Sequence
from functools import partial
from heapq import heappop, heappush
from typing import NamedTuple, Protocol

from spectra.inside import Hit

MOST_HITS = 8
SMALLEST = 0.03
"""Chance under which a continuation is not worth listing."""


class Lookup(NamedTuple):
    """What followed the longest known suffix of a context.

    match: tokens of that suffix, 0 when none is known. seen: how often it was seen. pairs: (token, how often it
    followed), the most frequent first.
    """

    match: int
    seen: int
    pairs: list[tuple[int, int]]

    @classmethod
    def nothing(cls) -> "Lookup":
        return cls(0, 0, [])


class Kept(NamedTuple):
    """Texts of a store that hold a run of tokens: how many, and the lowest perplexity among them (None: not known)."""

    texts: int
    perplexity: float | None


class SuccessorCounts(Protocol):
    """Texts whose n-grams are counted. order: longest context it knows."""

    order: int

    def successors(self, context: Sequence[int]) -> Lookup: ...


class NGramStore(SuccessorCounts, Protocol):
    """A store to draft from. refined: its texts were chosen by perplexity."""

    @property
    def name(self) -> str: ...

    @property
    def refined(self) -> bool: ...

    def texts_with(self, tokens: Sequence[int]) -> Kept | None:
        """The texts that hold these tokens one after the other; None where the store cannot say."""
        ...


class Node(NamedTuple):
    """One token of a continuation tree.

    parent: index of the node before it, -1 right after the context. chance: of its whole path, from the counts. rank: 0
    for the most frequent after its parent. match: context tokens that the lookup matched. times: how often it followed.
    seen: how often the context was seen.
    """

    parent: int
    token: int
    chance: float
    rank: int
    match: int
    times: int
    seen: int


class _Waiting(NamedTuple):
    """A node that may enter the tree, in the order of the heap. before: the context that it follows."""

    unlikely: float
    turn: int
    node: Node
    before: tuple[int, ...]


def continuations(
    stores: Sequence[NGramStore], context: Sequence[int], max_nodes: int, least: float = 0.0
) -> list[Node]:
    """At most `max_nodes` nodes, likeliest first, so that every parent comes before its children.

    At each node the store that knows the longest suffix answers; stores that know equally long ones add their counts.
    least: chance that a node must have.
    """
    nodes: list[Node] = []
    smallest = max(SMALLEST, least)
    waiting: list[_Waiting] = []
    order = max((store.order for store in stores), default=0)
    ask = stores[0].successors if len(stores) == 1 else partial(successors, stores)

    def offer(parent: int, chance: float, before: tuple[int, ...]) -> None:
        match, seen, pairs = ask(before)
        for rank, (token, count) in enumerate(pairs):
            path = chance * count / (seen + 1)
            if path < smallest:
                return
            node = Node(parent, token, path, rank, match, count, seen)
            heappush(waiting, _Waiting(-path, len(nodes) * 256 + rank, node, before))

    offer(-1, 1.0, tuple(context[-order:]))
    while waiting and len(nodes) < max_nodes:
        likeliest = heappop(waiting)
        node = likeliest.node
        nodes.append(node)
        if len(nodes) < max_nodes:
            offer(len(nodes) - 1, node.chance, (*likeliest.before, node.token)[-order:])
    return nodes


def hits(stores: Sequence[NGramStore], context: Sequence[int], most: int = MOST_HITS) -> list[Hit]:
    """What followed the longest known suffix, most frequent first, each with the store that knows it."""
    answers = [(store, store.successors(context)) for store in stores]
    match = max((answer.match for _, answer in answers), default=0)
    found: list[Hit] = []
    for store, answer in answers:
        for token, times in answer.pairs[:most] if match and answer.match == match else ():
            kept = store.texts_with([*context[-match:], token])
            texts, perplexity = kept if kept is not None else (None, None)
            found.append(Hit(token, match, times, answer.seen, store.name, texts, perplexity))
    return sorted(found, key=lambda hit: -hit.times)[:most]


def successors(stores: Sequence[SuccessorCounts], context: Sequence[int]) -> Lookup:
    """As `SuccessorCounts.successors`, of several texts."""
    answers = [store.successors(context) for store in stores]
    match = max((answer.match for answer in answers), default=0)
    best = [answer for answer in answers if answer.match == match]
    if match == 0:
        return Lookup.nothing()
    if len(best) == 1:
        return best[0]
    total: dict[int, int] = {}
    for answer in best:
        for token, count in answer.pairs:
            total[token] = total.get(token, 0) + count
    pairs = sorted(total.items(), key=lambda pair: (-pair[1], pair[0]))
    return Lookup(match, sum(answer.seen for answer in best), pairs)
