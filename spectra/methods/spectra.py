"""SPECTRA as fast as this device allows: the improved CORE, datastores that fit, and sources that cost no query token.

The budget weighs all guesses against the measured cost of a step.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from spectra.budget.policy import AdaptiveBudget
from spectra.budget.step_cost import StepCost
from spectra.drafters.adviser import Adviser
from spectra.drafters.continuations import NGramStore
from spectra.drafters.copies import Copies
from spectra.drafters.core import IMPROVED, CoreSettings, SpectraCore
from spectra.drafters.draft_model import Draft
from spectra.drafters.near_certain import NearCertain
from spectra.drafters.recycling import Recycling
from spectra.drafters.remembering import Remembering
from spectra.drafters.retrieval import Retrieval
from spectra.method import Drafter, Method
from spectra.methods.core_settings import CORE, changed_core, values_of
from spectra.methods.preset import Build, Preset, Setup

POOL_WORTH = ((0, 1.54), (1, 1.72), (3, 1.88), (15, 1.98))
"""(rows, tau) of ten answers of the embedded model, none of them a benchmark's."""
USUAL = 8
"""Query tokens of an ordinary step, beside which pool rows are judged."""
MAX_NODES = 64
"""The most guessed tokens a step, where the user names no number."""
RECYCLED_NODES = 40
RECYCLE_BELOW = 1.5
"""What a step of RECYCLED_NODES guesses may cost, in plain steps, for successors to be guessed beside a store's."""
SURE_ONLY = 0.2
"""Where a row must promise more than this beside other sequences, only copies of long repeats do and what is nearly
certain in the stores. Other sources of n-grams are not worth the time of asking: two sequences at 0.25 had 1.20 of
plain decoding with these, and 1.14 with all sources."""
SURE_DEPTH = 8
"""Of their chains: of 832 that were scored beside 15 other sequences, 8 were deeper than 6."""
SURE_NODES = 2 * SURE_DEPTH
"""The most guessed tokens a step there: the KV cache has slots for so many."""
LOOKUP_SECONDS = 0.3e-3
"""What a step's guesses from the stores take to find and to weigh, roughly."""
DEAREST = 0.1
"""Tokens a step that the stores have to bring at most, however fast the model is."""
RANKS = 8
"""How many successors of a token are kept."""
TAKES = (*CORE, "successors")
"""The settings of methods with every source."""


def spectra(*, stores: bool = True, recycled: bool = True, text: bool = True, advised: bool = False) -> Build:
    """stores: guess from the refined datastores that fit. recycled, text: what an ablation leaves out.

    advised: ask a draft model where the other sources know little.
    """

    def build(setup: Setup) -> Method:
        asked = setup.settings.retrieval
        refined: Sequence[NGramStore] = setup.stores() if asked else ()
        if asked is None and stores:
            refined = [store for store in setup.resources.stores if store.refined]
        draft = setup.drafts(1)[0] if advised else None
        return adaptive(setup, stores=refined, recycled=recycled, core=replace(IMPROVED, text=text), draft=draft)

    return build


def retrieval(setup: Setup) -> Method:
    """RETRIEVAL alone, with as many nodes as pay."""
    nodes = setup.max_nodes(MAX_NODES)
    drafter = Retrieval(setup.stores(), banned=setup.target.eos, least=setup.row_worth / 2)
    return Method(setup.name, [drafter], budget_of(setup, nodes), nodes)


def adaptive(
    setup: Setup,
    *,
    stores: Sequence[NGramStore] = (),
    recycled: bool = True,
    core: CoreSettings = IMPROVED,
    draft: Draft | None = None,
) -> Method:
    """Internal guesses first, then what the stores add, and recycled successors.

    recycled: guess successors where they pay. They are always at hand, so beside stores that is only where a wide step
    costs little more than a narrow one (RECYCLE_BELOW). In a batch whose rows are dear (SURE_ONLY) copies of long
    repeats and what is nearly certain in the stores take the place of all three, whatever the settings of the
    dictionaries. A memory and a draft model are asked as elsewhere.
    """
    target, asked = setup.target, setup.settings
    sure_only = setup.together > 1 and setup.row_worth > SURE_ONLY
    nodes = setup.max_nodes(SURE_NODES if sure_only else MAX_NODES)
    width = (asked.order or core.order) - 1
    paying = min(pool_rows(setup.shared_cost, width), nodes // (2 * width)) if target.trees else 0
    chosen = changed_core(replace(core, rows=paying), asked)
    chosen = replace(chosen, rows=min(chosen.rows, nodes // width) if target.trees else 0)
    budget = budget_of(setup, nodes)
    drafters: list[Drafter]
    if sure_only:
        drafters = [Copies(depth=SURE_DEPTH, banned=target.eos, judge=budget)]
        if stores and (table := setup.resources.near_certain.table).followed:
            drafters.append(NearCertain(table, depth=SURE_DEPTH, banned=target.eos, judge=budget))
    else:
        drafters = [SpectraCore(chosen, banned=target.eos, seed=setup.seed)]
        if stores:
            drafters.append(watched(setup, stores))
    shared = setup.shared_cost
    cheap = shared.seconds(1 + RECYCLED_NODES) < RECYCLE_BELOW * shared.seconds(1)
    usual = RANKS if recycled and (cheap or not stores) else 0
    ranks = usual if asked.successors is None else asked.successors
    if ranks and not sure_only:
        drafters.append(Recycling(nodes=RECYCLED_NODES, ranks=ranks, depth=4, banned=target.eos))
    if setup.resources.memory is not None:
        drafters.append(Remembering(setup.resources.memory, banned=target.eos, least=setup.row_worth / 2))
    if draft is not None:
        adviser = Adviser(draft, setup.sampling, budget, setup.seconds_a_token, row=setup.row_worth, banned=target.eos)
        drafters.append(adviser)
    values = values_of(chosen, nodes, retrieval=bool(stores), successors=ranks)
    if sure_only:
        values = {name: values[name] for name in ("nodes", "retrieval")}
    return Method(setup.name, drafters, budget, nodes, settings=values)


def watched(setup: Setup, stores: Sequence[NGramStore]) -> Retrieval:
    """Stores that are asked rarely while they bring less than the time and half the rows that they take: they also say
    which of the other sources' guesses are right."""
    row, price = setup.row_worth, min(LOOKUP_SECONDS / setup.seconds_a_token, DEAREST)
    return Retrieval(stores, banned=setup.target.eos, least=row, price=price, row=row / 2)


def budget_of(setup: Setup, nodes: int) -> AdaptiveBudget:
    """Of at most `nodes` nodes, which weighs guesses against T(q) by the weights of the resources."""
    weights = setup.resources.weights
    return AdaptiveBudget(setup.cost, nodes, temperature=setup.sampling.temperature, weights=weights)


def pool_rows(cost: StepCost, width: int) -> int:
    """How many pool rows of `width` tokens pay here, beside a step of USUAL query tokens.

    What rows are worth was measured: tau of the improved CORE with 0, 1, 3 and 15 rows (POOL_WORTH). What they cost is
    T(q): on a GPU next to nothing, on a CPU often more than they bring.
    """

    def rate(rows: int) -> float:
        (w0, v0), (w1, v1) = next(pair for pair in pairwise(POOL_WORTH) if rows <= pair[1][0])
        return (v0 + (v1 - v0) * (rows - w0) / (w1 - w0)) / cost.seconds(USUAL + rows * width)

    return max(range(POOL_WORTH[-1][0] + 1), key=rate)


def _preset(summary: str, build: Build, *, asks: bool = False, reads: bool = True) -> Preset:
    return Preset(summary, build, takes=TAKES, asks=asks, reads=reads)


SPECTRA: dict[str, Preset] = {
    "spectra": _preset(
        "both dictionaries and the datastores that fit the model (without one: spectra-core)", spectra()
    ),
    "spectra-draft": _preset(
        "spectra, and a draft model is asked where the other sources know little", spectra(advised=True), asks=True
    ),
    "spectra-core": _preset(
        "both dictionaries, as many guesses as pay on this device", spectra(stores=False), reads=False
    ),
    "spectra-retrieval": Preset("a refined datastore's continuations alone, as many as pay", retrieval, reads=True),
    "spectra-no-recycled": _preset("ablation: without recycled successors", spectra(recycled=False)),
    "spectra-no-text": _preset("ablation: without n-grams of the prompt and of accepted text", spectra(text=False)),
}
