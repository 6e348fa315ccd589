"""Presets of other training-free methods at their authors' sizes, in the same loop, verified by the same exact rule.

A target that cannot score trees gets chains: then Lookahead has no window and Token Recycling guesses one path. Methods
that need a datastore (REST, and its union with Lookahead) are in `stored.py`.
"""

from collections.abc import Callable

from spectra.budget import FixedBudget
from spectra.drafters.anpd import Anpd
from spectra.drafters.automaton import SuffixAutomaton
from spectra.drafters.lookahead import Lookahead
from spectra.drafters.prompt_lookup import PromptLookup
from spectra.drafters.protocol import Drafter
from spectra.drafters.recycling import Recycling
from spectra.preset import Build, Method, Preset
from spectra.settings import Sampling
from spectra.target.protocol import Target

Draft = Callable[[Target, int, int], Drafter]
"""(target, most guessed tokens a step, seed) -> drafter."""


def baselines() -> dict[str, Preset]:
    """Name -> preset."""
    return {
        "anpd": Preset("adaptive n-grams: the most frequent continuation in the text, N=5, K=5", anpd()),
        "lookahead": Preset("Lookahead decoding in SPECTRA's sizes: W=15, N=5, G=15", lookahead()),
        "lookahead-7b": Preset("Lookahead decoding in its authors' sizes: W=7, N=5, G=7", lookahead(7, guesses=7)),
        "prompt-lookup": Preset("copies what followed the newest match of 3 to 1 tokens", prompt_lookup()),
        "token-recycling": Preset("80 guesses from the 8 tokens last likely after each", token_recycling()),
        "suffix-automaton": Preset("copies what followed the longest match in the text", suffix_automaton()),
    }


def anpd(order: int = 5, length: int = 5) -> Build:
    """N and K."""
    return _fixed(length, lambda target, most, seed: Anpd(order=order, length=length, banned=target.eos))


def prompt_lookup(order: int = 3, length: int = 10) -> Build:
    """The longest match and K."""
    return _fixed(length, lambda target, most, seed: PromptLookup(order=order, length=length, banned=target.eos))


def token_recycling(nodes: int = 80, ranks: int = 8) -> Build:
    """The size of the static tree and K, the successors kept of a token."""
    return _fixed(nodes, lambda target, most, seed: Recycling(nodes=most, ranks=ranks, banned=target.eos), top=ranks)


def suffix_automaton(length: int = 16) -> Build:
    """K, the longest copy."""
    return _fixed(length, lambda target, most, seed: SuffixAutomaton(depth=length, banned=target.eos))


def lookahead(window: int = 15, order: int = 5, guesses: int = 15) -> Build:
    """W, N and G. A window that would not leave room for as many guesses shrinks: one that is cut never learns."""
    width = order - 1

    def draft(target: Target, most: int, seed: int) -> Drafter:
        columns = min(window, (most + 1) * window // ((window + guesses) * width)) if target.trees else 0
        return Lookahead(window=columns, order=order, guesses=guesses, banned=target.eos, seed=seed)

    return _fixed(max(window * width - 1, 0) + guesses * width, draft)


def _fixed(size: int, draft: Draft, top: int = 0) -> Build:
    """size: guessed tokens a step. top: see `Method`."""

    def build(target: Target, nodes: int | None, sampling: Sampling) -> Method:
        most = min(size if nodes is None else nodes, size, target.widest - 1)
        return Method("", [draft(target, most, sampling.seed)], FixedBudget(most), most, top)

    return build
