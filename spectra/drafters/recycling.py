"""Token Recycling (2408.08696): the tokens the target last found likely after a token are guessed when it comes again.

They are refreshed from every scored node of every step, accepted or not, so they cost no query token.
"""

from collections.abc import Collection, Sequence
from heapq import heappop, heappush

from spectra.guess import Source
from spectra.method import Outcome
from spectra.tree import ROOT, TokenTree


class Recycling:
    """The drafter: a static tree of ranks, filled with the known successors of each node's token.

    nodes, ranks, depth: of the tree, see `rank_tree`. banned: tokens that are never guessed (end of sequence).
    successors: token -> what was likely after it when it was last scored, best first.
    """

    def __init__(self, *, nodes: int = 80, ranks: int = 8, depth: int = 8, banned: Collection[int] = ()) -> None:
        self.shape = rank_tree(nodes, ranks, depth)
        self.top_k = ranks
        self.banned = banned
        self.successors: dict[int, Sequence[int]] = {}

    def begin(self, prompt: Sequence[int]) -> None:
        """The prompt's successors are not known: the prefill reads no logits."""

    def inherit(self, other: "Recycling") -> None:
        """Go on with the successors that another one knows."""
        self.successors = other.successors

    def grow(self, tree: TokenTree, tokens: Sequence[int]) -> None:
        """Fill the static tree as far as the successors are known."""
        nodes: list[int | None] = [ROOT]
        for place, rank in self.shape:
            parent = nodes[place]
            node = None
            if parent is not None:
                likely = self.successors.get(tree.tokens[parent], ())
                if rank < len(likely) and likely[rank] not in self.banned:
                    node = tree.add(parent, likely[rank], Source.RECYCLED, rank=rank)
            nodes.append(node)

    def observe(self, tokens: Sequence[int], outcome: Outcome) -> None:
        """A token scored at several nodes keeps what the accepted one said, else the last."""
        for node, likely in outcome.top.items():
            self.successors[outcome.tree.tokens[node]] = likely
        for node in (ROOT, *outcome.path):
            if node in outcome.top:
                self.successors[outcome.tree.tokens[node]] = outcome.top[node]


def rank_tree(nodes: int, ranks: int, depth: int) -> list[tuple[int, int]]:
    """The static tree, best node first: (place of the parent, rank) each, place 0 the root and i + 1 the i-th entry.

    A successor of rank r = 0, 1, ... is taken to be right with a chance of 1 / ((r + 1) (r + 2)), which is 1/2, 1/6,
    1/12, ... and adds up to 1; a path is worth the product over its ranks. The `nodes` best paths make the tree, of
    equals the shorter first. The preset's 80 nodes hold all 8 ranks under the root and are 7 deep.
    """
    shape: list[tuple[int, int]] = []
    heap = [(2, 1, 0, 0)]  # the inverse of the worth, depth, place of the parent, rank
    while heap and len(shape) < nodes:
        inverse, at, place, rank = heappop(heap)
        shape.append((place, rank))
        if rank + 1 < ranks:
            heappush(heap, (inverse // (rank + 1) * (rank + 3), at, place, rank + 1))
        if at < depth:
            heappush(heap, (inverse * 2, at + 1, len(shape), 0))
    return shape
