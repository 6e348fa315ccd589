"""What a method is made of: drafters, a budget, how wide its steps may be; and how a named one is made."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from spectra.budget import Budget
from spectra.drafters.protocol import Drafter
from spectra.settings import Sampling
from spectra.target.protocol import Scored, Target
from spectra.tree import TokenTree
from spectra.verify import walk

Walk = Callable[[TokenTree, Scored], tuple[list[int], list[int]]]
"""(the scored tree, what was scored) -> (accepted nodes from the root's child down, a token for each and the next)."""


def by_picks(tree: TokenTree, scored: Scored) -> tuple[list[int], list[int]]:
    """The usual walk, along the target's own picks: what it writes is plain decoding's, token for token."""
    return walk(tree, scored.pick)


@dataclass(slots=True)
class Method:
    """One answer's drafters and budget. Make a fresh one for each answer: both learn as they go.

    most: guessed tokens a step. top: how many likely tokens of each scored node the drafters want (`Outcome.top`).
    walk: how the scored tree is walked.
    """

    name: str
    drafters: Sequence[Drafter]
    budget: Budget
    most: int
    top: int = 0
    walk: Walk = by_picks


Build = Callable[[Target, int | None, Sampling], Method]
"""(target, most guessed tokens a step or None for the method's own, what the answer is sampled with) -> method."""


@dataclass(frozen=True, slots=True)
class Preset:
    """summary: one line for people. build makes a `Method` under any name.

    drawn: its drafts carry probabilities, so that above temperature 0 it is exact in distribution, not token for token.
    """

    summary: str
    build: Build
    drawn: bool = False
