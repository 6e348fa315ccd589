"""Stores to a tree of likely continuations, likeliest first. No torch, no files."""

from collections.abc import Sequence
from functools import partial
from heapq import heappop, heappush
from typing import NamedTuple, Protocol

SMALLEST = 0.03
"""Chance under which a continuation is not worth listing."""


class Counted(Protocol):
    """What drafting needs of a store. order: longest context it knows. refined: its texts were chosen by perplexity."""

    order: int

    @property
    def refined(self) -> bool: ...

    def successors(self, context: Sequence[int]) -> tuple[int, int, list[tuple[int, int]]]: ...


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


def continuations(stores: Sequence[Counted], context: Sequence[int], most: int) -> list[Node]:
    """At most `most` nodes, likeliest first, so that every parent comes before its children.

    At each node the store that knows the longest suffix answers; stores that know equally long ones add their counts.
    """
    nodes: list[Node] = []
    waiting: list[tuple[float, int, Node, tuple[int, ...]]] = []
    order = max((store.order for store in stores), default=0)
    ask = stores[0].successors if len(stores) == 1 else partial(successors, stores)

    def offer(parent: int, chance: float, before: tuple[int, ...]) -> None:
        match, seen, pairs = ask(before)
        for rank, (token, count) in enumerate(pairs):
            path = chance * count / (seen + 1)
            if path < SMALLEST:
                return
            node = Node(parent, token, path, rank, match, count, seen)
            heappush(waiting, (-path, len(nodes) * 256 + rank, node, before))

    offer(-1, 1.0, tuple(context[-order:]))
    while waiting and len(nodes) < most:
        _, _, node, before = heappop(waiting)
        nodes.append(node)
        if len(nodes) < most:
            offer(len(nodes) - 1, node.chance, (*before, node.token)[-order:])
    return nodes


def successors(stores: Sequence[Counted], context: Sequence[int]) -> tuple[int, int, list[tuple[int, int]]]:
    """As `Store.successors`, of several stores: (tokens matched, times seen, [(token, count)] most frequent first)."""
    answers = [store.successors(context) for store in stores]
    match = max((answer[0] for answer in answers), default=0)
    best = [answer for answer in answers if answer[0] == match]
    if match == 0 or len(best) == 1:
        return best[0] if best else (0, 0, [])
    total: dict[int, int] = {}
    for _, _, pairs in best:
        for token, count in pairs:
            total[token] = total.get(token, 0) + count
    return match, sum(answer[1] for answer in best), sorted(total.items(), key=lambda pair: (-pair[1], pair[0]))
