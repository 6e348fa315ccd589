"""What the page asks of whatever decodes. The page gets an engine handed in and never loads a model itself."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from spectra.trace import StepTrace, Trace

PLAIN = "autoregressive"
"""The preset of the plain lane."""

Pieces = list[tuple[int, str]]
"""Text that a step completed, each piece with the number of tokens it took (a token may be part of a character)."""

Message = dict[str, str]
"""One turn of a conversation: role ("user" or "assistant") and content."""


Rate = tuple[float, int]
"""What plain decoding was measured at: (tokens a second, the prefill left out, tokens of context)."""


class Answer(Protocol):
    """One running answer: iterating it decodes. `close` stops early, frees the target and may be called twice."""

    @property
    def trace(self) -> Trace:
        """Grows while the answer is iterated; its `vocabulary` is complete at the end."""
        ...

    def __iter__(self) -> Iterator[tuple[StepTrace, Pieces]]: ...

    def close(self) -> None: ...


class Talker(Protocol):
    """Whatever answers: the own engine, or a server somewhere.

    methods: preset name -> one line about it. plain: what plain decoding was last measured at.
    """

    @property
    def methods(self) -> Mapping[str, str]: ...

    @property
    def plain(self) -> Rate: ...

    def measure(self, context: int) -> Rate:
        """Measure plain decoding anew after about `context` tokens; `plain` has it from then on."""
        ...

    def answer(
        self,
        prompt: str,
        method: str,
        *,
        max_new_tokens: int,
        temperature: float,
        top_p: float,
        seed: int,
        visitor: str = "",
    ) -> Answer:
        """Raises `SpectraError` naming the field for input it cannot use. visitor: who asks, "" for nobody known."""
        ...

    def chat(
        self,
        messages: Sequence[Message],
        method: str,
        *,
        max_new_tokens: int,
        temperature: float,
        top_p: float,
        seed: int,
        visitor: str = "",
        copied: int | None = None,
        warm: bool = False,
    ) -> Answer:
        """The next turn of a conversation whose last message is the user's. Raises like `answer`.

        The cache of the visitor's conversation stays from turn to turn. copied: start from a copy of at most so many of
        its tokens instead, and leave it as it is. warm: guess from the start by what the visitor's earlier warm
        answers taught (the trace's settings tell how many those were).
        """
        ...

    def start_over(self, visitor: str) -> None:
        """Let the cache of the visitor's conversation go."""
        ...


class Engine(Talker, Protocol):
    """models: what `choose` takes, `chosen` being the one in use. model: a name to show. badges: facts about device and
    numerics. cost: T(q), rows of (query tokens, measured seconds of one forward pass).
    """

    @property
    def models(self) -> Sequence[str]: ...

    @property
    def chosen(self) -> str: ...

    @property
    def model(self) -> str: ...

    @property
    def badges(self) -> Sequence[str]: ...

    @property
    def cost(self) -> Sequence[tuple[int, float]]: ...

    def choose(self, model: str) -> None:
        """Use another of `models` from now on. Raises `SpectraError`, and keeps the old one, if it cannot."""
        ...

    def forget(self, visitor: str) -> None:
        """The visitor is gone: let go of all that was kept."""
        ...

    def stores(self, visitor: str = "") -> Sequence[Mapping[str, Any]]:
        """The card of every datastore the engine guesses from, each with its `name`; the visitor's own first."""
        ...

    def build_store(
        self, visitor: str, file: Path, keep: int, told: Callable[[str, int, int], None]
    ) -> Mapping[str, Any]:
        """Build a datastore from a file, in the place of the visitor's last one; returns its card.

        keep: texts, at most. told: hears (what is done, how far, of how much); what it raises ends the build. Raises
        `SpectraError` for the field "file".
        """
        ...

    def drop_store(self, visitor: str) -> None:
        """Let the visitor's own datastore go."""
        ...

    def query(self, store: str, text: str, most: int, visitor: str = "") -> Sequence[Mapping[str, Any]]:
        """What a store holds after `text`, likeliest first: text, count, chance, match (tokens that matched)."""
        ...
