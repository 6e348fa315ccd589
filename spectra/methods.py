"""Named presets: what a method drafts with and how wide its steps may be. A dict, no registry."""

from dataclasses import replace
from itertools import pairwise

from spectra.baselines import baselines
from spectra.budget import FixedBudget
from spectra.drafted import DRAFTED
from spectra.drafters.core import IMPROVED, CoreSettings, SpectraCore
from spectra.errors import SpectraError
from spectra.guess import Source
from spectra.preset import Build, Method, Preset
from spectra.settings import Sampling, check_number
from spectra.stored import STORED, improved
from spectra.target.protocol import StepCost, Target

POOL_WORTH = ((0, 1.54), (1, 1.72), (3, 1.88), (15, 1.98))
"""(rows, tau) of ten answers of the embedded model, none of them a benchmark's."""
MOST_NODES = 64
"""The most guessed tokens a step of an adaptive method, where the user names no number."""


def make_method(name: str, target: Target, *, nodes: int | None = None, sampling: Sampling | None = None) -> Method:
    """A fresh `Method` for one answer. nodes: the most guessed tokens a step. sampling: the answer's, default greedy.

    Raises SpectraError for an unknown name, a bad count, or a datastore or draft model that is not there.
    """
    if name not in METHODS:
        raise SpectraError("method", f"{name!r} is unknown; choose one of {', '.join(METHODS)}")
    if nodes is not None:
        check_number("nodes", nodes, 1, 1024, whole=True)
    method = METHODS[name].build(target, nodes, sampling or Sampling())
    method.name = name
    return method


def redraws(name: str, sampling: Sampling) -> bool:
    """Whether the preset may write another text than plain decoding, of the same distribution."""
    return not sampling.greedy and name in METHODS and METHODS[name].drawn


def pool_rows(cost: StepCost, width: int, usual: int = 8) -> int:
    """How many pool rows of `width` tokens pay here, beside a step of `usual` query tokens.

    What rows are worth was measured: tau of the improved CORE with 0, 1, 3 and 15 rows (POOL_WORTH). What they cost is
    T(q): on a GPU next to nothing, on a CPU often more than they bring.
    """

    def rate(rows: int) -> float:
        (w0, v0), (w1, v1) = next(pair for pair in pairwise(POOL_WORTH) if rows <= pair[1][0])
        return (v0 + (v1 - v0) * (rows - w0) / (w1 - w0)) / cost.seconds(usual + rows * width)

    return max(range(POOL_WORTH[-1][0] + 1), key=rate)


def _plain(target: Target, nodes: int | None, sampling: Sampling) -> Method:
    return Method("", [], FixedBudget(0), 0)


def literal(settings: CoreSettings) -> Build:
    """The method as the paper prints it, with these settings: its own sizes, whatever they cost."""

    def build(target: Target, nodes: int | None, sampling: Sampling) -> Method:
        chosen = settings if target.trees else replace(settings, rows=0)
        width = chosen.order - 1
        full = chosen.rows * width + (chosen.guesses or 0) * width
        most = min(full if nodes is None else nodes, full, target.widest - 1)
        drafter = SpectraCore(chosen, banned=target.eos, seed=sampling.seed)
        return Method("", [drafter], FixedBudget(most), most)

    return build


def core(target: Target, nodes: int | None, sampling: Sampling) -> Method:
    """The improved CORE, without datastores."""
    most = min(nodes or MOST_NODES, target.widest - 1)
    return improved(target, most, _rows(target, most), sampling.seed)


def spectra(*, without: Source | None = None, text: bool = True) -> Build:
    """The improved CORE and the datastores that fit. without, text: what an ablation leaves out."""

    def build(target: Target, nodes: int | None, sampling: Sampling) -> Method:
        most = min(nodes or MOST_NODES, target.widest - 1)
        stores = [store for store in target.stores if store.refined]
        left_out = () if without is None else (without,)
        settings = replace(IMPROVED, text=text)
        rows = _rows(target, most)
        return improved(target, most, rows, sampling.seed, stores=stores, without=left_out, core=settings)

    return build


def _rows(target: Target, most: int) -> int:
    width = IMPROVED.order - 1
    return min(pool_rows(target.cost, width), most // (2 * width)) if target.trees else 0


PAPER = CoreSettings()
METHODS: dict[str, Preset] = {
    "autoregressive": Preset("plain decoding, one token a forward pass: what the others are measured against", _plain),
    "spectra": Preset("both dictionaries and the datastores that fit the model (without one: spectra-core)", spectra()),
    "spectra-core": Preset("both dictionaries, as many guesses as pay on this device", core),
    "spectra-no-automaton": Preset("ablation: without copies of long repeats", spectra(without=Source.AUTOMATON)),
    "spectra-no-recycled": Preset("ablation: without recycled successors", spectra(without=Source.RECYCLED)),
    "spectra-no-text": Preset("ablation: without n-grams of the prompt and of accepted text", spectra(text=False)),
    "spectra-paper-core": Preset("SPECTRA-CORE as printed: N=5, W=15, G=15, refine 0.1", literal(PAPER)),
    "spectra-paper-core-no-forward": Preset(
        "ablation: without the forward dictionary", literal(replace(PAPER, forward=False))
    ),
    "spectra-paper-core-no-backward": Preset(
        "ablation: without the backward dictionary", literal(replace(PAPER, backward=False))
    ),
    "spectra-paper-core-no-subngram": Preset(
        "ablation: only whole rows enter the dictionaries", literal(replace(PAPER, subngrams=False))
    ),
    **STORED,
    **baselines(),
    **DRAFTED,
}
