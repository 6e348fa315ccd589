"""Guesses from the answers that were given before, and what is written now joins them when it is finished.

Where they bring nothing, they are asked at few steps only.
"""

from collections.abc import Collection, Sequence
from typing import Protocol

from spectra.drafters.continuations import Kept, Lookup, NGramStore
from spectra.drafters.retrieval import Retrieval
from spectra.guess import Source
from spectra.method import Outcome

LEAST = 0.02
"""Tokens a step that guesses must have brought lately to be asked for at every step."""


class Remembered(NGramStore, Protocol):
    """A store that learns. worth: see `Retrieval.worth`, of all answers."""

    worth: float

    def add(self, answer: Sequence[int]) -> None: ...


class Recalled:
    """What a memory holds, guessed from and left as it is: no answer joins it."""

    def __init__(self, memory: Remembered) -> None:
        self._memory = memory
        self.order, self.refined, self.name, self.worth = memory.order, memory.refined, memory.name, memory.worth

    def successors(self, context: Sequence[int]) -> Lookup:
        """See `SuccessorCounts.successors`."""
        return self._memory.successors(context)

    def texts_with(self, tokens: Sequence[int]) -> Kept | None:
        """See `NGramStore.texts_with`."""
        return self._memory.texts_with(tokens)

    def add(self, answer: Sequence[int]) -> None:
        """It is forgotten."""


class Remembering(Retrieval):
    """The drafter."""

    def __init__(self, memory: Remembered, *, banned: Collection[int] = (), least: float = 0.0) -> None:
        super().__init__([memory], banned=banned, source=Source.MEMORY, least=least, price=LEAST)
        self.memory = memory
        self.worth = memory.worth
        self._start = 0

    def begin(self, prompt: Sequence[int]) -> None:
        self._start = len(prompt)

    def observe(self, tokens: Sequence[int], outcome: Outcome) -> None:
        super().observe(tokens, outcome)
        self.memory.worth = self.worth

    def end(self, tokens: Sequence[int]) -> None:
        self.memory.add(tokens[self._start :])
