"""Presets of other training-free methods, in the same loop, verified by the same exact rule.

Sizes are their authors', of `lookahead` SPECTRA's. A target that cannot score trees gets chains: then Lookahead has no
window and Token Recycling guesses one path.
"""

from collections.abc import Callable

from spectra.budget.policy import FixedBudget
from spectra.drafters.anpd import Anpd
from spectra.drafters.automaton import SuffixAutomaton
from spectra.drafters.lookahead import Lookahead
from spectra.drafters.prompt_lookup import PromptLookup
from spectra.drafters.recycling import Recycling
from spectra.drafters.retrieval import Retrieval
from spectra.method import Drafter, Method
from spectra.methods.preset import Build, Preset, Setup

REST_NODES = 64
LOOKAHEAD_NODES = 119

Draft = Callable[[Setup, int], Drafter]
"""(what the method is made for, the most guessed tokens a step) -> drafter."""


def anpd(order: int = 5, length: int = 5) -> Build:
    """N and K."""
    return _fixed(length, lambda setup, nodes: Anpd(order=order, length=length, banned=setup.target.eos))


def prompt_lookup(order: int = 3, length: int = 10) -> Build:
    """The longest match and K."""
    return _fixed(length, lambda setup, nodes: PromptLookup(order=order, length=length, banned=setup.target.eos))


def token_recycling(ranks: int = 8) -> Build:
    """K, the successors kept of a token."""
    return _fixed(80, lambda setup, nodes: Recycling(nodes=nodes, ranks=ranks, banned=setup.target.eos))


def suffix_automaton(length: int = 16) -> Build:
    """K, the longest copy."""
    return _fixed(length, lambda setup, nodes: SuffixAutomaton(depth=length, banned=setup.target.eos))


def lookahead(window: int = 15, order: int = 5, guesses: int = 15) -> Build:
    """W, N and G. A window that leaves too little space for guesses is made smaller: one that is cut never learns."""
    width = order - 1

    def draft(setup: Setup, nodes: int) -> Drafter:
        columns = 0
        if setup.target.trees:
            columns = min(window, (nodes + 1) * window // ((window + guesses) * width))
        return Lookahead(window=columns, order=order, guesses=guesses, banned=setup.target.eos, seed=setup.seed)

    return _fixed(max(window * width - 1, 0) + guesses * width, draft)


def rest(setup: Setup) -> Method:
    """REST (2311.08252): an unrefined store's most frequent continuations, 64 nodes, nothing on a miss."""
    return _rest(setup, setup.max_nodes(REST_NODES, at_most=REST_NODES))


def lookahead_rest(setup: Setup) -> Method:
    """The naive union: Lookahead's window and guesses, then REST's, in the sizes they have alone or in proportion."""
    both = LOOKAHEAD_NODES + REST_NODES
    nodes = setup.max_nodes(both, at_most=both)
    first = lookahead()(Setup(setup.name, setup.target, nodes=nodes * LOOKAHEAD_NODES // both, sampling=setup.sampling))
    second = _rest(setup, max(1, nodes - first.max_nodes))
    return Method(setup.name, [*first.drafters, *second.drafters], FixedBudget(nodes), nodes)


def _rest(setup: Setup, nodes: int) -> Method:
    drafter = Retrieval(setup.stores(refined=False), max_nodes=nodes, banned=setup.target.eos)
    return Method(setup.name, [drafter], FixedBudget(nodes), nodes)


def _fixed(size: int, draft: Draft) -> Build:
    """size: guessed tokens a step."""

    def build(setup: Setup) -> Method:
        nodes = setup.max_nodes(size, at_most=size)
        return Method(setup.name, [draft(setup, nodes)], FixedBudget(nodes), nodes)

    return build


BASELINES: dict[str, Preset] = {
    "anpd": Preset("adaptive n-grams: the most frequent continuation in the text, N=5, K=5", anpd()),
    "lookahead": Preset("Lookahead decoding in SPECTRA's sizes: W=15, N=5, G=15", lookahead()),
    "lookahead-7b": Preset("Lookahead decoding in its authors' sizes: W=7, N=5, G=7", lookahead(7, guesses=7)),
    "prompt-lookup": Preset("copies what followed the newest match of 3 to 1 tokens", prompt_lookup()),
    "token-recycling": Preset("80 guesses from the 8 tokens last likely after each", token_recycling()),
    "suffix-automaton": Preset("copies what followed the longest match in the text", suffix_automaton()),
    "rest": Preset("REST: the 64 most frequent continuations of an unrefined datastore", rest, reads=True),
    "lookahead-rest": Preset("the naive union of Lookahead and REST", lookahead_rest, reads=True),
}
