"""Presets with draft models: a chain, SpecInfer's trees, and binary trees by SpecHub's rule and by those before it.

Drafts carry probabilities, so above temperature 0 the output is exact in distribution, not token for token (but for
naive sampling, whose draws are guesses like any other). A target that cannot score trees gets chains.
"""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from spectra.budget.policy import FixedBudget
from spectra.drafters.draft_model import SOURCES, DraftModels
from spectra.drafters.tree_shapes import Shape, levels, size, unbalanced
from spectra.method import Method, Scored, walk_picks
from spectra.methods.preset import Build, Preset, Setup
from spectra.tree import TokenTree
from spectra.verify.rules.chain import Chain
from spectra.verify.rules.multistep import MultiStep, WithoutReplacement
from spectra.verify.rules.protocol import Rule
from spectra.verify.rules.spechub import SpecHub
from spectra.verify.walk import walk_rule

CHAIN = 4
DEPTH = 4
SPECINFER = (1, 1, 3, 1, 1, 1, 1, 1)

ShapeWithin = Callable[[int], Shape]
"""The most draws of one model -> what to draw."""


def draft_model_build(shape_within: ShapeWithin, rule: Rule, *, models: int = 1, tested: bool = True) -> Build:
    """models: the most draft models in one tree. tested: False for naive sampling, see `DraftModels`."""

    def build(setup: Setup) -> Method:
        sampling = setup.sampling
        drafts = setup.drafts(models)
        draw = rule
        within = shape_within
        if not setup.target.trees:
            drafts = drafts[:1]
            draw = Chain()
            within = partial(levels, [1] * CHAIN)
        shape = within(setup.max_nodes(setup.target.max_query_tokens - 1) // len(drafts))
        generator = np.random.default_rng(sampling.seed)

        def by_rule(tree: TokenTree, scored: Scored) -> tuple[list[int], list[int]]:
            return walk_rule(tree, draw, scored.probabilities, generator)

        drafter = DraftModels(drafts, shape, sampling, draw, generator, tested)
        nodes = size(shape) * len(drafts)
        walk = walk_picks if sampling.greedy or not tested else by_rule
        return Method(setup.name, [drafter], FixedBudget(nodes), nodes, walk)

    return build


def chain(length: int = CHAIN) -> Build:
    """K."""
    return draft_model_build(partial(levels, [1] * length), Chain())


def specinfer(widths: Sequence[int] = SPECINFER, *, tested: bool = True) -> Build:
    """The expansion of each model."""
    return draft_model_build(partial(levels, widths), MultiStep(), models=len(SOURCES), tested=tested)


def binary(rule: Rule, depth: int = DEPTH, acceptance: Sequence[float] | None = None) -> Build:
    """Two drafts at every place. acceptance: of the first and the second; the tree is then as large, but unbalanced."""
    whole = 2 ** (depth + 1) - 2
    if acceptance is None:
        return draft_model_build(partial(levels, [2] * depth), rule)
    return draft_model_build(lambda max_draws: unbalanced(acceptance, min(max_draws, whole)), rule)


DRAFT_MODELS: dict[str, Preset] = {
    "draft-model": Preset("a draft model's chain, K=4, by speculative sampling", chain(), drawn=True, asks=True),
    "specinfer": Preset(
        "SpecInfer: trees <1,1,3,1,1,1,1,1> of one or two draft models in one, multi-step speculative sampling",
        specinfer(),
        drawn=True,
        asks=True,
    ),
    "specinfer-naive": Preset(
        "the same trees by naive sampling: the target draws, and a draft that equals the draw is accepted",
        specinfer(tested=False),
        asks=True,
    ),
    "spechub": Preset(
        "SpecHub: a draft model's binary tree of depth 4; one of the two drafts is always the likeliest token",
        binary(SpecHub()),
        drawn=True,
        asks=True,
    ),
    "rrs": Preset(
        "the same tree by recursive rejection sampling, drafts with replacement",
        binary(MultiStep()),
        drawn=True,
        asks=True,
    ),
    "rrsw": Preset(
        "the same tree by recursive rejection sampling, drafts without replacement",
        binary(WithoutReplacement()),
        drawn=True,
        asks=True,
    ),
}
