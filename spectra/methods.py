"""Named presets: what a method drafts with and how wide its steps may be. A dict, no registry."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from spectra.budget import AdaptiveBudget, Budget, FixedBudget
from spectra.drafters.core import IMPROVED, CoreSettings, SpectraCore
from spectra.drafters.protocol import Drafter
from spectra.errors import SpectraError
from spectra.settings import check_number
from spectra.target.protocol import StepCost, Target

MOST_NODES = 64
"""The most guessed tokens a step of an adaptive method, where the user names no number."""


@dataclass(slots=True)
class Method:
    """One answer's drafters and budget. Make a fresh one for each answer: both learn as they go."""

    name: str
    drafters: Sequence[Drafter]
    budget: Budget
    most: int


@dataclass(frozen=True, slots=True)
class Preset:
    """summary: one line for people. build(target, nodes or None, seed) makes a `Method` under any name."""

    summary: str
    build: Callable[[Target, int | None, int], Method]


def make_method(name: str, target: Target, *, nodes: int | None = None, seed: int = 0) -> Method:
    """A fresh `Method`. nodes: the most guessed tokens a step. Raises SpectraError for an unknown name or bad count."""
    if name not in METHODS:
        raise SpectraError("method", f"{name!r} is unknown; choose one of {', '.join(METHODS)}")
    if nodes is not None:
        check_number("nodes", nodes, 1, 1024, whole=True)
    method = METHODS[name].build(target, nodes, seed)
    method.name = name
    return method


def pool_rows(cost: StepCost, width: int, most: int = 15, tolerance: float = 1.05) -> int:
    """How many pool rows of `width` tokens are as good as free here: they slow a 16-token step by 5 % at most."""
    base = cost.seconds(16)
    return max((w for w in range(most + 1) if cost.seconds(16 + w * width) <= tolerance * base), default=0)


def _plain(target: Target, nodes: int | None, seed: int) -> Method:
    return Method("", [], FixedBudget(0), 0)


def _literal(settings: CoreSettings) -> Callable[[Target, int | None, int], Method]:
    def build(target: Target, nodes: int | None, seed: int) -> Method:
        chosen = settings if target.trees else replace(settings, rows=0)
        width = chosen.order - 1
        full = chosen.rows * width + (chosen.guesses or 0) * width
        most = full if nodes is None else min(nodes, full)
        drafter = SpectraCore(chosen, banned=target.eos, seed=seed)
        return Method("", [drafter], FixedBudget(most), most)

    return build


def _improved(target: Target, nodes: int | None, seed: int) -> Method:
    width = IMPROVED.order - 1
    most = nodes or MOST_NODES
    rows = min(pool_rows(target.cost, width), most // (2 * width)) if target.trees else 0
    drafter = SpectraCore(replace(IMPROVED, rows=rows), banned=target.eos, seed=seed)
    return Method("", [drafter], AdaptiveBudget(target.cost, most), most)


PAPER = CoreSettings()
METHODS: dict[str, Preset] = {
    "autoregressive": Preset("plain decoding, one token a forward pass: what the others are measured against", _plain),
    "spectra": Preset("improved SPECTRA; without a datastore it is spectra-core", _improved),
    "spectra-core": Preset("both dictionaries, as many guesses as pay on this device", _improved),
    "spectra-paper-core": Preset("SPECTRA-CORE as printed: N=5, W=15, G=15, refine 0.1", _literal(PAPER)),
    "spectra-paper-core-no-forward": Preset(
        "ablation: without the forward dictionary", _literal(replace(PAPER, forward=False))
    ),
    "spectra-paper-core-no-backward": Preset(
        "ablation: without the backward dictionary", _literal(replace(PAPER, backward=False))
    ),
    "spectra-paper-core-no-subngram": Preset(
        "ablation: only whole rows enter the dictionaries", _literal(replace(PAPER, subngrams=False))
    ),
}
