"""The nodes that are worth a query token, of one tree or of several that are scored in one pass. No torch.

A pass over q rows costs T(q), measured. It yields a token for each sequence and the chances that its nodes are
accepted, each times what a token is worth to its sequence. All nodes are ranked together, and the best number of them
maximises the ratio.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from spectra.tree import TokenTree


class Ranking(NamedTuple):
    """What a budget says of a grown tree. chance: of each node, that its whole path is accepted; 0 where it may not be.

    kept: nodes that stay whatever they cost, closed under parents. free: the others that fit, best first; a parent
    comes before its children. worth: of a token of this tree, to one of the others.
    """

    tree: TokenTree
    chance: Sequence[float]
    kept: frozenset[int]
    free: Sequence[int]
    worth: float = 1.0


def share(
    rankings: Sequence[Ranking],
    seconds_of: Callable[[int], Sequence[float]],
    *,
    others: float = 0.0,
    rows: int = 0,
    max_rows: int | None = None,
    trust: float = 1.0,
    beyond: float = 0.0,
) -> list[TokenTree]:
    """The part of each tree that is worth scoring, where all go into one pass.

    seconds_of: T of 0 to at least so many rows. others, rows: of the sequences with trees of a fixed size that are in
    the pass too, what a token of each is worth, summed, and their rows. max_rows: of a pass; what is kept may be more.
    trust: accepted nodes to those that the chances promised. beyond: seconds of the pass that do not depend on its
    rows, on top of T.
    """
    width = rows + sum(1 + len(one.kept) for one in rankings)
    end = width + sum(len(one.free) for one in rankings)
    if max_rows is not None:
        end = max(width, min(end, max_rows))
    seconds = seconds_of(end)
    gain = others
    for one in rankings:
        gain += one.worth * (1 + trust * sum(one.chance[node] for node in one.kept))
    ranked = [(-one.worth * one.chance[node], at, node) for at, one in enumerate(rankings) for node in one.free]
    order = (ranked if len(rankings) == 1 else sorted(ranked))[: end - width]
    best, size = gain / (beyond + seconds[width]), 0
    for count, (worth, _, _) in enumerate(order, 1):
        gain -= trust * worth
        rate = gain / (beyond + seconds[width + count])
        if rate > best:
            best, size = rate, count
    taken: list[list[int]] = [list(one.kept) for one in rankings]
    for _, at, node in order[:size]:
        taken[at].append(node)
    return [_part(one.tree, nodes) for one, nodes in zip(rankings, taken, strict=True)]


def least_chances(worths: Sequence[float], plain: float, row: float) -> list[float]:
    """For each tree of a pass, a chance below which no node pays, however far chances are trusted, before anything is
    grown: its row costs at least `row` seconds, and a pass without guesses, of `plain`, writes so much in that time.
    Where there are rows that are kept, it may be less. worths: of a token of each tree.
    """
    rate = sum(worths) / plain
    return [row * rate / worth for worth in worths]


def worths_at_the_end(remaining: Sequence[int]) -> list[float]:
    """What a token is worth to each of the last sequences of a batch. remaining: how many each may still write.

    All are done when the last one is: a token of any other saves no pass, only a row of one. Which will be the last is
    not known, for an answer may end before its limit: by the square of what remains, to the mean.
    """
    mean = sum(remaining) / len(remaining)
    return [(each / mean) ** 2 for each in remaining]


def _part(tree: TokenTree, nodes: Sequence[int]) -> TokenTree:
    return tree if len(nodes) == len(tree) - 1 else tree.subset(nodes)
