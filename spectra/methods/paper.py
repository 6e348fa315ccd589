"""SPECTRA as the paper prints it, its two parts and its ablations: fixed sizes, whatever they cost."""

from dataclasses import replace

from spectra.budget.policy import FixedBudget
from spectra.drafters.core import CoreSettings, SpectraCore
from spectra.drafters.retrieval import FilledCore, PaperRetrieval
from spectra.method import Drafter, Method
from spectra.methods.core_settings import CORE, changed_core, values_of
from spectra.methods.preset import Build, Preset, Setup

PAPER = CoreSettings()
STORE_ONLY = ("order", "guesses", "nodes")
"""The settings of retrieval without the dictionaries."""


def literal(settings: CoreSettings = PAPER, *, core: bool = True, store: bool | None = None) -> Build:
    """The paper's sizes (N=5, W=15, G=15) or those of `settings`.

    core: with the dictionaries and their pool. store: also guess from a datastore, a refined one (True) or an unrefined
    one (False), for what CORE leaves of G; None: from none.
    """

    def build(setup: Setup) -> Method:
        asked = setup.settings
        chosen = changed_core(settings, asked)
        if not setup.target.trees:
            chosen = replace(chosen, rows=0)
        refined = store
        if asked.retrieval is not None:
            refined = (store is None or store) if asked.retrieval else None
        width = chosen.order - 1
        guesses = chosen.guesses or 0
        rows = chosen.rows if core else 0
        size = (rows + guesses) * width
        nodes = setup.max_nodes(size, at_most=size)
        chosen = replace(chosen, rows=min(chosen.rows, nodes // width))
        banned = setup.target.eos
        dictionaries = SpectraCore(chosen, banned=banned, seed=setup.seed)
        drafter: Drafter = dictionaries
        if refined is not None:
            retrieval = PaperRetrieval(setup.stores(refined=refined), guesses=guesses, width=width, banned=banned)
            drafter = FilledCore(dictionaries, retrieval) if core else retrieval
        values = values_of(chosen, nodes, retrieval=refined is not None)
        if not core:
            values = {name: values[name] for name in STORE_ONLY}
        return Method(setup.name, [drafter], FixedBudget(nodes), nodes, settings=values)

    return build


LITERAL: dict[str, Preset] = {
    "spectra-paper-core": Preset("SPECTRA-CORE as printed: N=5, W=15, G=15, refine 0.1", literal(), takes=CORE),
    "spectra-paper-core-no-forward": Preset(
        "ablation: without the forward dictionary", literal(replace(PAPER, forward=False)), takes=CORE
    ),
    "spectra-paper-core-no-backward": Preset(
        "ablation: without the backward dictionary", literal(replace(PAPER, backward=False)), takes=CORE
    ),
    "spectra-paper-core-no-subngram": Preset(
        "ablation: only whole rows enter the dictionaries", literal(replace(PAPER, subngrams=False)), takes=CORE
    ),
    "spectra-paper": Preset(
        "SPECTRA as printed: CORE and RETRIEVAL, N=5, W=15, G=15", literal(store=True), takes=CORE, reads=True
    ),
    "spectra-paper-retrieval": Preset(
        "SPECTRA-RETRIEVAL as printed, without CORE", literal(core=False, store=True), takes=STORE_ONLY, reads=True
    ),
    "spectra-paper-retrieval-no-ppl": Preset(
        "ablation: retrieval from an unrefined datastore",
        literal(core=False, store=False),
        takes=STORE_ONLY,
        reads=True,
    ),
}
