"""SPECTRA as the paper prints it, its two parts and its ablations: fixed sizes, whatever they cost."""

from dataclasses import replace

from spectra.budget.policy import FixedBudget
from spectra.drafters.core import CoreSettings, SpectraCore
from spectra.drafters.retrieval import FilledCore, PaperRetrieval
from spectra.method import Drafter, Method
from spectra.methods.preset import Build, Preset, Setup

PAPER = CoreSettings()


def literal(settings: CoreSettings = PAPER, *, core: bool = True, store: bool | None = None) -> Build:
    """The paper's sizes (N=5, W=15, G=15) or those of `settings`.

    core: with the dictionaries and their pool. store: also guess from a datastore, a refined one (True) or an unrefined
    one (False), for what CORE leaves of G; None: from none.
    """

    def build(setup: Setup) -> Method:
        chosen = settings if setup.target.trees else replace(settings, rows=0)
        width = chosen.order - 1
        guesses = chosen.guesses or 0
        rows = chosen.rows if core else 0
        size = (rows + guesses) * width
        banned = setup.target.eos
        dictionaries = SpectraCore(chosen, banned=banned, seed=setup.seed)
        drafter: Drafter = dictionaries
        if store is not None:
            retrieval = PaperRetrieval(setup.stores(refined=store), guesses=guesses, width=width, banned=banned)
            drafter = FilledCore(dictionaries, retrieval) if core else retrieval
        nodes = setup.max_nodes(size, at_most=size)
        return Method(setup.name, [drafter], FixedBudget(nodes), nodes)

    return build


LITERAL: dict[str, Preset] = {
    "spectra-paper-core": Preset("SPECTRA-CORE as printed: N=5, W=15, G=15, refine 0.1", literal()),
    "spectra-paper-core-no-forward": Preset(
        "ablation: without the forward dictionary", literal(replace(PAPER, forward=False))
    ),
    "spectra-paper-core-no-backward": Preset(
        "ablation: without the backward dictionary", literal(replace(PAPER, backward=False))
    ),
    "spectra-paper-core-no-subngram": Preset(
        "ablation: only whole rows enter the dictionaries", literal(replace(PAPER, subngrams=False))
    ),
    "spectra-paper": Preset("SPECTRA as printed: CORE and RETRIEVAL, N=5, W=15, G=15", literal(store=True)),
    "spectra-paper-retrieval": Preset("SPECTRA-RETRIEVAL as printed, without CORE", literal(core=False, store=True)),
    "spectra-paper-retrieval-no-ppl": Preset(
        "ablation: retrieval from an unrefined datastore", literal(core=False, store=False)
    ),
}
