"""What a method is made of: drafters, a budget, how wide its steps may be; and how a named one is made."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from spectra.budget import Budget
from spectra.drafters.protocol import Drafter
from spectra.target.protocol import Target


@dataclass(slots=True)
class Method:
    """One answer's drafters and budget. Make a fresh one for each answer: both learn as they go.

    most: guessed tokens a step. top: how many likely tokens of each scored node the drafters want (`Outcome.top`).
    """

    name: str
    drafters: Sequence[Drafter]
    budget: Budget
    most: int
    top: int = 0


@dataclass(frozen=True, slots=True)
class Preset:
    """summary: one line for people. build(target, nodes or None, seed) makes a `Method` under any name."""

    summary: str
    build: Callable[[Target, int | None, int], Method]
