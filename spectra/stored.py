"""Presets that need a datastore: SPECTRA whole, RETRIEVAL alone, their literal forms, and REST."""

from collections.abc import Collection, Sequence
from dataclasses import replace

from spectra.baselines import lookahead
from spectra.budget import AdaptiveBudget, FixedBudget
from spectra.datastore.continuations import Counted
from spectra.drafters.automaton import SuffixAutomaton
from spectra.drafters.core import IMPROVED, CoreSettings, SpectraCore
from spectra.drafters.protocol import Drafter
from spectra.drafters.recycling import Recycling
from spectra.drafters.retrieval import PaperRetrieval, Retrieval
from spectra.errors import SpectraError
from spectra.guess import Source
from spectra.preset import Build, Method, Preset
from spectra.settings import Sampling
from spectra.target.protocol import Target

BUILD = "python -m spectra.datastore build --corpus FILES --out datastores/NAME"
REST_NODES = 64
RETRIEVAL_NODES = 64
LOOKAHEAD_NODES = 119
RECYCLED_NODES = 40
RECYCLE_BELOW = 1.5
"""What a step of RECYCLED_NODES guesses may cost, in plain steps, for successors to be guessed beside a store's."""
RANKS = 8
"""How many successors of a token are kept."""


def need_stores(target: Target, *, refined: bool = True) -> Sequence[Counted]:
    """The target's stores of one kind. Raises SpectraError with the command that builds one."""
    found = [store for store in target.stores if store.refined == refined]
    if not found:
        kind, option = ("", "") if refined else ("unrefined ", " --no-refine")
        raise SpectraError(
            "datastore",
            f"no {kind}datastore fits {target.name}; build one (`{BUILD}{option}`) and name it with --datastore",
        )
    return found


def paper(*, core: bool = True, refined: bool = True) -> Build:
    """The paper's sizes: N=5, W=15, G=15; retrieval fills what CORE leaves of G."""

    def build(target: Target, nodes: int | None, sampling: Sampling) -> Method:
        settings = CoreSettings() if target.trees else CoreSettings(rows=0)
        width, guesses = settings.order - 1, settings.guesses or 0
        drafters: list[Drafter] = []
        first = SpectraCore(settings, banned=target.eos, seed=sampling.seed) if core else None
        if first is not None:
            drafters.append(first)
        stores = need_stores(target, refined=refined)
        drafters.append(PaperRetrieval(stores, guesses=guesses, width=width, core=first, banned=target.eos))
        full = (settings.rows if core else 0) * width + guesses * width
        most = min(full if nodes is None else nodes, full, target.widest - 1)
        return Method("", drafters, FixedBudget(most), most)

    return build


def retrieval(target: Target, nodes: int | None, sampling: Sampling) -> Method:
    """RETRIEVAL alone, with as many nodes as pay."""
    most = min(nodes or RETRIEVAL_NODES, target.widest - 1)
    return Method("", [Retrieval(need_stores(target), banned=target.eos)], AdaptiveBudget(target.cost, most), most)


def rest(target: Target, nodes: int | None, sampling: Sampling) -> Method:
    """REST (2311.08252): an unrefined store's most frequent continuations, 64 nodes, nothing on a miss."""
    most = min(nodes or REST_NODES, REST_NODES, target.widest - 1)
    stores = need_stores(target, refined=False)
    return Method("", [Retrieval(stores, most=most, banned=target.eos)], FixedBudget(most), most)


def lookahead_rest(target: Target, nodes: int | None, sampling: Sampling) -> Method:
    """The naive union: Lookahead's window and guesses, then REST's, in the sizes they have alone or in proportion."""
    alone_nodes = LOOKAHEAD_NODES + REST_NODES
    most = min(alone_nodes if nodes is None else nodes, alone_nodes, target.widest - 1)
    first = lookahead()(target, most * LOOKAHEAD_NODES // alone_nodes, sampling)
    second = rest(target, max(1, most - first.most), sampling)
    return Method("", [*first.drafters, *second.drafters], FixedBudget(most), most)


def improved(
    target: Target,
    most: int,
    rows: int,
    seed: int,
    *,
    stores: Sequence[Counted] = (),
    without: Collection[Source] = (),
    core: CoreSettings = IMPROVED,
) -> Method:
    """Internal guesses first, then what the stores add, copies of long repeats and recycled successors.

    The budget weighs them all. without: sources to leave out. Successors are always at hand, so beside stores they only
    pay where a wide step costs little more than a narrow one (RECYCLE_BELOW).
    """
    drafters: list[Drafter] = [SpectraCore(replace(core, rows=rows), banned=target.eos, seed=seed)]
    if stores:
        if Source.AUTOMATON not in without:
            drafters.append(SuffixAutomaton(depth=12, banned=target.eos))
        drafters.append(Retrieval(stores, banned=target.eos))
    cheap = target.cost.seconds(1 + RECYCLED_NODES) < RECYCLE_BELOW * target.cost.seconds(1)
    recycles = Source.RECYCLED not in without and (cheap or not stores)
    if recycles:
        drafters.append(Recycling(nodes=RECYCLED_NODES, ranks=RANKS, depth=4, banned=target.eos))
    return Method("", drafters, AdaptiveBudget(target.cost, most), most, top=RANKS if recycles else 0)


STORED: dict[str, Preset] = {
    "spectra-retrieval": Preset("a refined datastore's continuations alone, as many as pay", retrieval),
    "spectra-paper": Preset("SPECTRA as printed: CORE and RETRIEVAL, N=5, W=15, G=15", paper()),
    "spectra-paper-retrieval": Preset("SPECTRA-RETRIEVAL as printed, without CORE", paper(core=False)),
    "spectra-paper-retrieval-no-ppl": Preset(
        "ablation: retrieval from an unrefined datastore", paper(core=False, refined=False)
    ),
    "rest": Preset("REST: the 64 most frequent continuations of an unrefined datastore", rest),
    "lookahead-rest": Preset("the naive union of Lookahead and REST", lookahead_rest),
}
