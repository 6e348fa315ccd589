"""The shape of a draft model's tree, known before drafting, and how such a tree is grown. No model.

A place is the ranks on the way to it: () is the root, (0, 2) the third child of the first. What is drawn must not
decide how much is drawn, so a shape knows places and no tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from heapq import heappop, heappush
from itertools import product

import numpy as np

from spectra.guess import Source
from spectra.tree import ROOT, TokenTree
from spectra.verify.rules.draws import Distribution
from spectra.verify.rules.protocol import Rule

Place = tuple[int, ...]
Shape = Mapping[Place, int]
"""Place -> how many children it gets; places that are not there are leaves."""

Probabilities = Callable[[Sequence[int]], Sequence[Distribution]]
"""Nodes of one level -> the draft's distribution after each."""

Choose = Callable[[Sequence[int], Sequence[int]], Sequence[Sequence[int]]]
"""(nodes of one level, how many children each gets) -> the tokens under each."""


def levels(widths: Sequence[int], max_draws: int) -> Shape:
    """The same width everywhere on a level: (2, 2) is the binary tree of depth 2, SpecInfer's <1,1,3,1,...> another.

    Levels that would take more than `max_draws` draws are left out, the deepest first.
    """
    shape: dict[Place, int] = {}
    for depth, width in enumerate(widths):
        places = list(product(*map(range, widths[:depth])))
        if size(shape) + len(places) * width > max_draws:
            break
        shape |= dict.fromkeys(places, width)
    return shape


def unbalanced(acceptance: Sequence[float], max_draws: int) -> Shape:
    """The tree of at most `max_draws` draws that accepts most when child i is accepted with chance acceptance[i].

    Whole families are hung where they are worth most, by the chance that the walk gets there (SpecHub's unbalanced
    trees, with two children; `bench acceptance` measures the vector). Raises ValueError for bad chances.
    """
    if not acceptance or min(acceptance) < 0 or sum(acceptance) > 1:
        raise ValueError(f"{acceptance} are no chances of which at most one comes true")
    shape: dict[Place, int] = {}
    heap: list[tuple[float, int, Place]] = [(-1.0, 0, ())]
    while heap and size(shape) + len(acceptance) <= max_draws:
        chance, depth, place = heappop(heap)
        shape[place] = len(acceptance)
        for rank, one in enumerate(acceptance):
            if one > 0:
                heappush(heap, (chance * one, depth + 1, (*place, rank)))
    return shape


def size(shape: Shape) -> int:
    """Most nodes of a tree of this shape, the root not counted."""
    return sum(shape.values())


def depth(shape: Shape) -> int:
    """The most nodes on a path, the root not counted."""
    return max((len(place) + 1 for place in shape), default=0)


def expand(tree: TokenTree, shape: Shape, source: Source, choose: Choose) -> None:
    """Add what `choose` says under the root, a level at a time. A token chosen twice is one node, expanded once."""
    level: dict[int, Place] = {ROOT: ()}
    while inner := [node for node, place in level.items() if place in shape]:
        chosen = choose(inner, [shape[level[node]] for node in inner])
        below: dict[int, Place] = {}
        for parent, tokens in zip(inner, chosen, strict=True):
            for rank, token in enumerate(tokens):
                node = tree.add(parent, int(token), source, rank=rank)
                below.setdefault(node, (*level[parent], rank))
        level = below


def grow_rule(
    tree: TokenTree,
    rule: Rule,
    probabilities: Probabilities,
    shape: Shape,
    source: Source,
    generator: np.random.Generator,
) -> None:
    """Hang draws of one draft model under the root, as many at each place as `shape` says, and note them in `draws`.

    Several models grow one tree in turn, each from its own draws: where they agree their nodes are one, and both their
    draws are tested there (SpecInfer's merged trees). Given that a node is there, what is drawn under it is independent
    of everything else, so the walk may test all of it.
    """
    noted: list[tuple[int, int, Distribution]] = []

    def choose(nodes: Sequence[int], widths: Sequence[int]) -> list[list[int]]:
        rows: list[list[int]] = []
        for node, width, q in zip(nodes, widths, probabilities(nodes), strict=True):
            rows.append([int(token) for token in rule.draft(q, width, generator)[0]])
            noted.extend((node, token, q) for token in rows[-1])
        return rows

    expand(tree, shape, source, choose)
    for parent, token, q in noted:
        child = tree.child(parent, token)
        assert child is not None
        tree.draws.setdefault(parent, []).append((child, q))
