"""Trees of draws: grown from draft distributions by a rule, walked by the same rule against the target's.

The counterpart of `verify.walk` for drafts that carry probabilities: exact in distribution, not token for token. Draws
of one token share a node and are tested one by one. Knows no models: distributions come from the callables handed in.
"""

from collections.abc import Callable, Sequence

import numpy as np

from spectra.expansion import Shape, expand
from spectra.guess import Source
from spectra.rules.draws import Distribution
from spectra.rules.protocol import Rule, accept
from spectra.tree import ROOT, TokenTree

Laws = Callable[[Sequence[int]], Sequence[Distribution]]
"""Nodes of one level -> the draft's distribution after each."""


def grow_rule(
    tree: TokenTree, rule: Rule, laws: Laws, shape: Shape, source: Source, generator: np.random.Generator
) -> None:
    """Hang draws of one draft model under the root, as many at each place as `shape` says, and note them in `draws`.

    Several models grow one tree in turn, each from its own draws: where they agree their nodes are one, and both their
    draws are tested there (SpecInfer's merged trees). Given that a node is there, what is drawn under it is independent
    of everything else, so the walk may test all of it.
    """
    noted: list[tuple[int, int, Distribution]] = []

    def choose(nodes: Sequence[int], widths: Sequence[int]) -> list[list[int]]:
        rows: list[list[int]] = []
        for node, width, q in zip(nodes, widths, laws(nodes), strict=True):
            rows.append([int(token) for token in rule.draft(q, width, generator)[0]])
            noted.extend((node, token, q) for token in rows[-1])
        return rows

    expand(tree, shape, source, choose)
    for parent, token, q in noted:
        child = tree.child(parent, token)
        assert child is not None
        tree.draws.setdefault(parent, []).append((child, q))


def walk_rule(
    tree: TokenTree, rule: Rule, target: Callable[[int], Distribution], generator: np.random.Generator
) -> tuple[list[int], list[int]]:
    """(accepted nodes from the root's child down, the emitted tokens: one for each of them and the next).

    target: the target's distribution after a node. Nodes that nobody drew are left aside. Each token has the target's
    own law given those before it, whatever the draft distributions are.
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
