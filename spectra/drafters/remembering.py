"""Guesses from the answers that were given before, and what is written now joins them when it is finished.

Where they bring nothing, they are asked at few steps only.
"""

from collections.abc import Collection, Sequence
from typing import Protocol

from spectra.drafters.continuations import NGramStore
from spectra.drafters.retrieval import Retrieval
from spectra.guess import Source
from spectra.method import Outcome
from spectra.tree import TokenTree

LEAST = 0.02
"""Tokens a step that guesses must have brought lately to be asked for at every step."""
RARELY = 8
"""Steps from one question to the next where they did not."""
RATE = 0.02


class Remembered(NGramStore, Protocol):
    """A store that learns. worth: running mean of the tokens a step that its guesses brought."""

    worth: float

    def add(self, answer: Sequence[int]) -> None: ...


class Remembering(Retrieval):
    """The drafter."""

    def __init__(self, memory: Remembered, *, banned: Collection[int] = ()) -> None:
        super().__init__([memory], banned=banned, source=Source.MEMORY)
        self.memory = memory
        self._start = 0
        self._steps = 0

    def begin(self, prompt: Sequence[int]) -> None:
        self._start = len(prompt)

    def grow(self, tree: TokenTree, tokens: Sequence[int]) -> None:
        self._steps += 1
        if self.asked:
            super().grow(tree, tokens)

    @property
    def asked(self) -> bool:
        """Whether this step's guesses are looked for."""
        return self.memory.worth >= LEAST or self._steps % RARELY == 0

    def observe(self, tokens: Sequence[int], outcome: Outcome) -> None:
        """A token counts when no other source offered it first."""
        if self.asked:
            brought = sum(outcome.tree.sources[node][0] == Source.MEMORY for node in outcome.path)
            self.memory.worth += RATE * (brought - self.memory.worth)

    def end(self, tokens: Sequence[int]) -> None:
        self.memory.add(tokens[self._start :])
