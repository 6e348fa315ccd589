"""Recorded answers instead of a model: drafters and budgets run at full tilt, and a T(q) table gives the time.

Knows what the model said along its own answer only: after a rejected guess it knows nothing, so candidate-pool rows
and n-grams of rejected branches are worth nothing here. What it predicts is checked against real runs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spectra.datastore.continuations import Counted
from spectra.settings import Sampling
from spectra.target.protocol import Draft, StepCost
from spectra.tree import ROOT, TokenTree


@dataclass(frozen=True, slots=True)
class Recorded:
    """One answer. prompt, answer: token ids. top: for each answer position the model's likeliest ids, best first."""

    task: str
    id: str
    prompt: tuple[int, ...]
    answer: tuple[int, ...]
    top: tuple[tuple[int, ...], ...] = ()


@dataclass(slots=True)
class ReplayScored:
    """The outcome of a step: picks along the recorded answer."""

    known: dict[int, int]
    top: dict[int, Sequence[int]]

    def pick(self, node: int) -> int:
        return self.known[node]

    def law(self, node: int) -> NDArray[np.float64]:
        """Raises ValueError: recorded answers are greedy, nothing more of the model is known."""
        raise ValueError("a recording holds no distributions")

    def read(self, ticket: int) -> int | None:
        return None


@dataclass(slots=True)
class ReplaySession:
    """seconds: what the passes so far would have cost."""

    recorded: Recorded
    cost: StepCost
    prefill_seconds: float = 0.0
    seconds: float = 0.0
    queries: int = 0

    def score(self, tree: TokenTree, tokens: Sequence[int]) -> ReplayScored:
        self.seconds += self.cost.seconds(len(tree))
        self.queries += len(tree)
        at = len(tokens) - len(self.recorded.prompt)
        answer, top = self.recorded.answer, self.recorded.top
        right = {ROOT: at}
        for node in range(1, len(tree)):
            place = right.get(tree.parents[node])
            if place is not None and place + 1 < len(answer) and tree.tokens[node] == answer[place]:
                right[node] = place + 1
        return ReplayScored(
            {node: answer[place] for node, place in right.items()},
            {node: top[place] for node, place in right.items() if place < len(top)},
        )

    def keep(self, path: Sequence[int]) -> None:
        """Nothing is cached."""

    def close(self) -> None:
        """Nothing is held."""


@dataclass(slots=True)
class ReplayTarget:
    """A `Target` that reads its answers from recordings; `session` is the one started last."""

    cost: StepCost
    eos: frozenset[int] = frozenset()
    widest: int = 1024
    trees: bool = True
    name: str = "replay"
    stores: Sequence[Counted] = ()
    drafts: Sequence[Draft] = ()
    facts: Mapping[str, object] = field(default_factory=dict)
    recorded: Recorded | None = None
    session: ReplaySession | None = None

    def start(self, prompt: Sequence[int], room: int, widest: int, sampling: Sampling, **options: Any) -> ReplaySession:
        if self.recorded is None or tuple(prompt) != self.recorded.prompt:
            raise ValueError("set `recorded` to the answer of this prompt first")
        self.session = ReplaySession(self.recorded, self.cost)
        return self.session
