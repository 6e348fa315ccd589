"""Presets with draft models: a chain, SpecInfer's trees, and binary trees by SpecHub's rule and by those before it.

Drafts carry probabilities, so above temperature 0 the output is exact in distribution, not token for token (but for
naive sampling, whose draws are guesses like any other). A target that cannot score trees gets chains.
"""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from spectra.budget import FixedBudget
from spectra.drafters.draft_model import SOURCES, DraftModels
from spectra.errors import SpectraError
from spectra.expansion import Shape, levels, size, unbalanced
from spectra.preset import Build, Method, Preset, by_picks
from spectra.rules.chain import Chain
from spectra.rules.multistep import MultiStep, WithoutReplacement
from spectra.rules.protocol import Rule
from spectra.rules.spechub import SpecHub
from spectra.settings import Sampling
from spectra.target.protocol import Draft, Scored, Target
from spectra.tree import TokenTree
from spectra.walk import walk_rule

CHAIN = 4
DEPTH = 4
SPECINFER = (1, 1, 3, 1, 1, 1, 1, 1)

Shaped = Callable[[int], Shape]
"""Most draws of one model -> what to draw."""


def need_drafts(target: Target, most: int) -> Sequence[Draft]:
    """The target's first draft models, `most` at most. Raises SpectraError where it has none."""
    if not target.drafts:
        raise SpectraError(
            "draft", f"no draft model fits {target.name}; name one that has its tokenizer with --draft PATH"
        )
    return target.drafts[:most]


def drafted(shaped: Shaped, rule: Rule, *, models: int = 1, tested: bool = True) -> Build:
    """models: the most draft models in one tree. tested: False for naive sampling, see `DraftModels`."""

    def build(target: Target, nodes: int | None, sampling: Sampling) -> Method:
        drafts, draw, shape_of = need_drafts(target, models), rule, shaped
        if not target.trees:
            drafts, draw, shape_of = drafts[:1], Chain(), partial(levels, [1] * CHAIN)
        most = target.widest - 1 if nodes is None else min(nodes, target.widest - 1)
        shape = shape_of(most // len(drafts))
        generator = np.random.default_rng(sampling.seed)

        def by_rule(tree: TokenTree, scored: Scored) -> tuple[list[int], list[int]]:
            return walk_rule(tree, draw, scored.law, generator)

        drafter = DraftModels(drafts, shape, sampling, draw, generator, tested)
        most = size(shape) * len(drafts)
        plain = sampling.greedy or not tested
        return Method("", [drafter], FixedBudget(most), most, walk=by_picks if plain else by_rule)

    return build


def chain(length: int = CHAIN) -> Build:
    """K."""
    return drafted(partial(levels, [1] * length), Chain())


def specinfer(widths: Sequence[int] = SPECINFER, *, tested: bool = True) -> Build:
    """The expansion of each model."""
    return drafted(partial(levels, widths), MultiStep(), models=len(SOURCES), tested=tested)


def binary(rule: Rule, depth: int = DEPTH, acceptance: Sequence[float] | None = None) -> Build:
    """Two drafts at every place. acceptance: of the first and the second; the tree is then as large, but unbalanced."""
    whole = 2 ** (depth + 1) - 2
    if acceptance is None:
        return drafted(partial(levels, [2] * depth), rule)
    return drafted(lambda most: unbalanced(acceptance, min(most, whole)), rule)


DRAFTED: dict[str, Preset] = {
    "draft-model": Preset("a draft model's chain, K=4, by speculative sampling", chain(), drawn=True),
    "specinfer": Preset(
        "SpecInfer: trees <1,1,3,1,1,1,1,1> of one or two draft models in one, multi-step speculative sampling",
        specinfer(),
        drawn=True,
    ),
    "specinfer-naive": Preset(
        "the same trees by naive sampling: the model draws, and a draft may be it", specinfer(tested=False)
    ),
    "spechub": Preset(
        "SpecHub: a draft model's binary tree of depth 4, one of two drafts always the likeliest",
        binary(SpecHub()),
        drawn=True,
    ),
    "rrs": Preset(
        "the same tree by recursive rejection sampling, drafts with replacement", binary(MultiStep()), drawn=True
    ),
    "rrsw": Preset(
        "the same tree by recursive rejection sampling, drafts without replacement",
        binary(WithoutReplacement()),
        drawn=True,
    ),
}
