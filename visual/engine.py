"""What the page asks of whatever decodes. The page gets an engine handed in and never loads a model itself."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from spectra.trace import StepTrace, Trace

PLAIN = "autoregressive"
"""The preset of the plain lane."""

Pieces = list[tuple[int, str]]
"""Text that a step completed, each piece with the number of tokens it took (a token may be part of a character)."""


class Answer(Protocol):
    """One running answer: iterating it decodes. `close` stops early, frees the target and may be called twice."""

    @property
    def trace(self) -> Trace:
        """Grows while the answer is iterated; its `vocabulary` is complete at the end."""
        ...

    def __iter__(self) -> Iterator[tuple[StepTrace, Pieces]]: ...

    def close(self) -> None: ...


class Engine(Protocol):
    """model: a name to show. badges: facts about device and numerics. methods: preset name -> one line about it."""

    @property
    def model(self) -> str: ...

    @property
    def badges(self) -> Sequence[str]: ...

    @property
    def methods(self) -> Mapping[str, str]: ...

    def answer(
        self, prompt: str, method: str, *, max_new_tokens: int, temperature: float, top_p: float, seed: int
    ) -> Answer:
        """Raises `SpectraError` naming the field for input it cannot use."""
        ...
