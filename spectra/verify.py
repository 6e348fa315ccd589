"""Walk the tree along the target's own picks. Lossless by construction, greedy or sampled.

Guesses without probabilities need no acceptance test: the target picks a token at each accepted node and the walk goes
on only into a child that equals the pick (the same law as SPECTRA's Algorithm 4, free of the order of guesses). The
first pick with no such child is the bonus token, also after a full match.
"""

from collections.abc import Callable

from spectra.tree import ROOT, TokenTree


def walk(tree: TokenTree, pick: Callable[[int], int]) -> tuple[list[int], list[int]]:
    """(accepted nodes from the root's child down, the picked tokens: one for each of them and the bonus)."""
    node = ROOT
    path: list[int] = []
    picked: list[int] = []
    while True:
        token = pick(node)
        picked.append(token)
        child = tree.child(node, token)
        if child is None:
            return path, picked
        path.append(child)
        node = child
