"""How many children each place of a drafted tree gets, known before anything is drafted. Plain ints, no model.

A place is the ranks on the way to it: () is the root, (0, 2) the third child of the first. What is drawn must not
decide how much is drawn, so a shape knows places and no tokens.
"""

from collections.abc import Callable, Mapping, Sequence
from heapq import heappop, heappush
from itertools import product

from spectra.guess import Source
from spectra.tree import ROOT, TokenTree

Place = tuple[int, ...]
Shape = Mapping[Place, int]
"""Place -> how many children it gets; places that are not there are leaves."""

Choose = Callable[[Sequence[int], Sequence[int]], Sequence[Sequence[int]]]
"""(nodes of one level, how many children each gets) -> the tokens under each."""


def levels(widths: Sequence[int], most: int) -> Shape:
    """The same width everywhere on a level: (2, 2) is the binary tree of depth 2, SpecInfer's <1,1,3,1,...> another.

    most: draws; the deepest levels that do not fit are left out.
    """
    shape: dict[Place, int] = {}
    for depth, width in enumerate(widths):
        places = list(product(*map(range, widths[:depth])))
        if size(shape) + len(places) * width > most:
            break
        shape |= dict.fromkeys(places, width)
    return shape


def unbalanced(acceptance: Sequence[float], most: int) -> Shape:
    """The tree of at most `most` draws that accepts most when the i-th child is accepted with chance acceptance[i].

    Whole families are hung where they are worth most, by the chance that the walk gets there (SpecHub's unbalanced
    trees, with two children; `bench acceptance` measures the vector). Raises ValueError for chances that are none.
    """
    if not acceptance or min(acceptance) < 0 or sum(acceptance) > 1:
        raise ValueError(f"{acceptance} are no chances of which at most one comes true")
    shape: dict[Place, int] = {}
    heap: list[tuple[float, int, Place]] = [(-1.0, 0, ())]
    while heap and size(shape) + len(acceptance) <= most:
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
    return max((len(place) + 1 for place in shape), default=0)


def expand(tree: TokenTree, shape: Shape, source: Source, choose: Choose) -> None:
    """Hang what `choose` says under the root, a level at a time. A token chosen twice is one node, expanded once."""
    level: dict[int, Place] = {ROOT: ()}
    while inner := [node for node, place in level.items() if place in shape]:
        chosen = choose(inner, [shape[level[node]] for node in inner])
        below: dict[int, Place] = {}
        for parent, tokens in zip(inner, chosen, strict=True):
            for rank, token in enumerate(tokens):
                node = tree.add(parent, int(token), source, rank=rank)
                below.setdefault(node, (*level[parent], rank))
        level = below
