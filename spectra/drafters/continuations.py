"""Datastores to a tree of likely continuations, likeliest first. No torch, no files.

`NGramStore` is what drafting asks of a store; `datastore/store.py` is one.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush
from typing import NamedTuple, Protocol

from spectra.inside import Hit

MAX_HITS = 8
SMALLEST = 0.03
"""Chance under which a continuation is not worth listing."""
WITH_CHILD = 2
"""Times the least chance that a node must have for what follows it to be looked up: seldom is more than half of it one
token's."""


class Lookup(NamedTuple):
    """What followed the longest known suffix of a context.

    match: tokens of that suffix, 0 when none is known. seen: how often it was seen. pairs: (token, how often it
    followed), the most frequent first.
    """

    match: int
    seen: int
    pairs: list[tuple[int, int]]

    @classmethod
    def nothing(cls) -> Lookup:
        return cls(0, 0, [])


class Kept(NamedTuple):
    """How often the texts of a store hold a run of tokens, how many do, and the lowest perplexity among them (None: not
    known).
    """

    times: int
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


class JointLookup(NamedTuple):
    """Of several stores. matched: the most of the context that each can match."""

    lookup: Lookup
    matched: Sequence[int]


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
    """A node that may enter the tree, in the order of the heap.

    before: the context that it follows. matched: see `JointLookup`.
    """

    unlikely: float
    turn: int
    node: Node
    before: tuple[int, ...]
    matched: Sequence[int]


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

    def offer(parent: int, chance: float, before: tuple[int, ...], matched: Sequence[int]) -> None:
        (match, seen, pairs), matched = ask(stores, before, matched)
        for rank, (token, count) in enumerate(pairs):
            path = chance * count / (seen + 1)
            if path < smallest:
                return
            node = Node(parent, token, path, rank, match, count, seen)
            heappush(waiting, _Waiting(-path, len(nodes) * 256 + rank, node, before, matched))

    offer(-1, 1.0, tuple(context[-order:]), (order,) * len(stores))
    while waiting and len(nodes) < max_nodes:
        likeliest = heappop(waiting)
        node = likeliest.node
        nodes.append(node)
        if len(nodes) < max_nodes and node.chance >= WITH_CHILD * least:
            offer(len(nodes) - 1, node.chance, (*likeliest.before, node.token)[-order:], likeliest.matched)
    return nodes


def hits(stores: Sequence[NGramStore], context: Sequence[int]) -> list[Hit]:
    """What followed the longest known suffix, most frequent first, each with the store that knows it."""
    answers = [(store, store.successors(context)) for store in stores]
    match = max((answer.match for _, answer in answers), default=0)
    found: list[Hit] = []
    for store, answer in answers:
        for token, times in answer.pairs[:MAX_HITS] if match and answer.match == match else ():
            kept = store.texts_with([*context[-match:], token])
            # held less often than counted: a run began in what an index puts before each text, the opening of an answer
            whole = kept is not None and kept.times >= times
            texts, perplexity = (kept.texts, kept.perplexity) if kept is not None and whole else (None, None)
            found.append(Hit(token, match, times, answer.seen, store.name, texts, perplexity))
    return sorted(found, key=lambda hit: -hit.times)[:MAX_HITS]


def successors(stores: Sequence[SuccessorCounts], context: Sequence[int]) -> Lookup:
    """As `SuccessorCounts.successors`, of several texts."""
    return ask(stores, context, [len(context)] * len(stores)).lookup


def ask(stores: Sequence[SuccessorCounts], context: Sequence[int], before: Sequence[int]) -> JointLookup:
    """What followed the longest suffix of `context` that any store knows.

    before: what each store matches at most of the context less its last token. It is taken to match one more of all of
    it (more is rare: where a store leaves out contexts that say no more than shorter ones), and who cannot reach the
    longest match found is not asked.
    """
    matched = [match + 1 for match in before]
    best: list[Lookup] = []
    longest = 1
    for place in sorted(range(len(stores)), key=matched.__getitem__, reverse=True):
        if matched[place] < longest:
            break
        answer = stores[place].successors(context)
        matched[place] = answer.match
        if answer.match > longest:
            longest, best = answer.match, [answer]
        elif answer.match == longest:
            best.append(answer)
    return JointLookup(_together(best), matched)


def _together(answers: Sequence[Lookup]) -> Lookup:
    """Of matches of one length the counts together."""
    if len(answers) < 2:
        return answers[0] if answers else Lookup.nothing()
    total: dict[int, int] = {}
    for answer in answers:
        for token, count in answer.pairs:
            total[token] = total.get(token, 0) + count
    pairs = sorted(total.items(), key=lambda pair: (-pair[1], pair[0]))
    return Lookup(answers[0].match, sum(answer.seen for answer in answers), pairs)
