"""The walk: along the target's own picks, or by a rule where drafts carry probabilities. Both are lossless.

Guesses without probabilities need no acceptance test: the target picks a token at each accepted node and the walk goes
on only into a child that equals the pick (the same distribution as SPECTRA's Algorithm 4, whatever the order of
guesses). The first pick with no such child is the bonus token, also after a full match.
Draws from a draft model's distribution are tested by the rule that drew them: exact in distribution, not token for
token. Draws of one token share a node and are tested one by one.
"""

from collections.abc import Callable

import numpy as np

from spectra.tree import ROOT, TokenTree
from spectra.verify.rules.draws import Distribution
from spectra.verify.rules.protocol import Rule, accept


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


def walk_rule(
    tree: TokenTree, rule: Rule, target: Callable[[int], Distribution], generator: np.random.Generator
) -> tuple[list[int], list[int]]:
    """(accepted nodes from the root's child down, the emitted tokens: one for each of them and the next).

    target: the target's distribution after a node. Nodes that were not drawn are ignored. Each token has
    the target's own distribution given those before it, whatever the draft distributions are.
    """
    node = ROOT
    path: list[int] = []
    emitted: list[int] = []
    while True:
        family = tree.draws.get(node, [])
        tokens = [tree.tokens[child] for child, _ in family]
        accepted, token = accept(rule, target(node), [q for _, q in family], tokens, generator)
        emitted.append(token)
        if accepted is None:
            return path, emitted
        node = family[accepted][0]
        path.append(node)
