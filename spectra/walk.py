"""Trees of draws: grown from draft distributions by a rule, walked by the same rule against the target's.

The counterpart of `verify.walk` for drafts that carry probabilities: exact in distribution, not token for token. A
token drawn twice is two nodes, for it is two tests. Knows no models: distributions come from the callables handed in.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from spectra.guess import Source
from spectra.rules.draws import Distribution
from spectra.rules.protocol import Rule, accept
from spectra.tree import ROOT, TokenTree


def grow_rule(
    tree: TokenTree,
    rule: Rule,
    drafts: Callable[[int], Sequence[Distribution]],
    widths: Sequence[int],
    source: Source,
    generator: np.random.Generator,
) -> dict[int, Distribution]:
    """Hang draws under the root: widths[d] of them from each of `drafts(node)` under every node d deep.

    drafts: the distributions after a node, one a draft model (SpecInfer merges several by asking each of them at each
    node). widths: (2, 2) is the binary tree of depth 2, (1, 1, 3, 1, 1, 1, 1, 1) SpecInfer's expansion. Returns for
    each new node the distribution that it was drawn from. Raises ValueError for a tree that merges.
    """
    if tree.merge:
        raise ValueError("draws must not merge: a token drawn twice is two tests; use TokenTree(merge=False)")
    drawn: dict[int, Distribution] = {}
    level = [ROOT]
    for width in widths:
        parents, level = level, []
        for parent in parents:
            for q in drafts(parent):
                for rank, token in enumerate(rule.draft(q, width, generator)[0]):
                    node = tree.add(parent, int(token), source, rank=rank)
                    drawn[node] = q
                    level.append(node)
    return drawn


def walk_rule(
    tree: TokenTree,
    rule: Rule,
    target: Callable[[int], Distribution],
    drawn: Mapping[int, Distribution],
    generator: np.random.Generator,
) -> tuple[list[int], list[int]]:
    """(accepted nodes from the root's child down, the emitted tokens: one for each of them and the next).

    target: the target's distribution after a node. drawn: what `grow_rule` returned; nodes without a distribution are
    left aside. Each token has the target's own law given those before it, whatever the draft distributions are.
    """
    children: dict[int, list[int]] = {}
    for node in sorted(drawn):
        children.setdefault(tree.parents[node], []).append(node)
    node = ROOT
    path: list[int] = []
    emitted: list[int] = []
    while True:
        family = children.get(node, [])
        tokens = [tree.tokens[child] for child in family]
        accepted, token = accept(rule, target(node), [drawn[child] for child in family], tokens, generator)
        emitted.append(token)
        if accepted is None:
            return path, emitted
        node = family[accepted]
        path.append(node)
