"""Presets of other training-free methods at their authors' sizes, in the same loop, verified by the same exact rule.

A target that cannot score trees gets chains: then Lookahead has no window and Token Recycling guesses one path.
"""

from collections.abc import Callable

from spectra.budget import FixedBudget
from spectra.drafters.anpd import Anpd
from spectra.drafters.automaton import SuffixAutomaton
from spectra.drafters.lookahead import Lookahead
from spectra.drafters.prompt_lookup import PromptLookup
from spectra.drafters.protocol import Drafter
from spectra.drafters.recycling import Recycling
from spectra.preset import Method, Preset
from spectra.target.protocol import Target

Build = Callable[[Target, int | None, int], Method]
Draft = Callable[[Target, int, int], Drafter]
"""(target, most guessed tokens a step, seed) -> drafter."""


def baselines() -> dict[str, Preset]:
    """Name -> preset."""
    return {
        "anpd": Preset("adaptive n-grams: the most frequent continuation in the text, N=5, K=5", _fixed(5, _anpd)),
        "lookahead": Preset("Lookahead decoding in SPECTRA's sizes: W=15, N=5, G=15", _lookahead(15, 5, 15)),
        "lookahead-7b": Preset("Lookahead decoding in its authors' sizes: W=7, N=5, G=7", _lookahead(7, 5, 7)),
        "prompt-lookup": Preset("copies what followed the newest match of 3 to 1 tokens", _fixed(10, _prompt_lookup)),
        "token-recycling": Preset("80 guesses from the 8 tokens last likely after each", _fixed(80, _recycling, 8)),
        "suffix-automaton": Preset("copies what followed the longest match in the text", _fixed(16, _automaton)),
    }


def _fixed(size: int, draft: Draft, top: int = 0) -> Build:
    """size: guessed tokens a step. top: see `Method`."""

    def build(target: Target, nodes: int | None, seed: int) -> Method:
        most = min(size if nodes is None else nodes, size, target.widest - 1)
        return Method("", [draft(target, most, seed)], FixedBudget(most), most, top)

    return build


def _anpd(target: Target, most: int, seed: int) -> Drafter:
    return Anpd(order=5, length=5, banned=target.eos)


def _prompt_lookup(target: Target, most: int, seed: int) -> Drafter:
    return PromptLookup(order=3, length=10, banned=target.eos)


def _recycling(target: Target, most: int, seed: int) -> Drafter:
    return Recycling(nodes=most, ranks=8, banned=target.eos)


def _automaton(target: Target, most: int, seed: int) -> Drafter:
    return SuffixAutomaton(depth=most, banned=target.eos)


def _lookahead(window: int, order: int, guesses: int) -> Build:
    """A window that would not leave room for as many guesses shrinks: one that is cut never learns."""
    width = order - 1

    def draft(target: Target, most: int, seed: int) -> Drafter:
        columns = min(window, (most + 1) // (2 * width)) if target.trees else 0
        return Lookahead(window=columns, order=order, guesses=guesses, banned=target.eos, seed=seed)

    return _fixed(window * width - 1 + guesses * width, draft)
