"""What the page asks of whatever decodes. The page gets an engine handed in and never loads a model itself."""

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Protocol

from spectra.metrics import PlainRate
from spectra.settings import AnswerRequest, TextOrder, Value
from spectra.trace import StepTrace, Trace

PLAIN = "autoregressive"
"""The preset of plain decoding."""

Pieces = list[tuple[int, str]]
"""Text that a step completed, each piece with the number of tokens it took (a token may be part of a character)."""

ProgressCallback = Callable[[str, int, int], None]
"""Called with what is being done, how much of it is done and how much there is of it. What it raises ends the work."""


class Answer(Protocol):
    """One running answer: iterating it decodes, and may give None, where there is nothing yet. `close` stops early,
    frees the target and may be called twice.
    """

    @property
    def trace(self) -> Trace:
        """Grows while the answer is iterated; its `vocabulary` is complete at the end."""
        ...

    def __iter__(self) -> Iterator[tuple[StepTrace, Pieces] | None]: ...

    def close(self) -> None: ...


class Backend(Protocol):
    """Whatever answers: the own engine, or a server somewhere.

    methods: preset name -> one-line description. plain: the last measurement of plain decoding. settings: preset name
    -> its fields of `MethodSettings` by value, None for a number that it leaves open. chosen: the model in use.
    """

    @property
    def chosen(self) -> str: ...

    @property
    def methods(self) -> Mapping[str, str]: ...

    @property
    def plain(self) -> PlainRate: ...

    @property
    def settings(self) -> Mapping[str, Mapping[str, Value]]: ...

    def measure(self, context: int) -> PlainRate:
        """Measure plain decoding anew after about `context` tokens; `plain` has it from then on."""
        ...

    def builds(self, request: AnswerRequest) -> bool:
        """Whether `ready` has a datastore to build for this request."""
        ...

    def ready(self, request: AnswerRequest, on_progress: ProgressCallback) -> None:
        """Get what the request's method lacks, a datastore that is built first. Raises `SpectraError`."""
        ...

    def answer(self, request: AnswerRequest) -> Answer:
        """Start an answer. Raises `SpectraError` naming the field for input it cannot use.

        The settings of a warm answer's trace say how many answers taught it ("warm").
        """
        ...

    def in_turn(self, requests: Sequence[AnswerRequest]) -> Generator[Answer]:
        """Start these answers one after the other; each is to be iterated to its end before the next is asked for."""
        ...

    def start_over(self, visitor: str) -> None:
        """Let the cache of the visitor's conversation go."""
        ...


class Engine(Backend, Protocol):
    """models: what `choose` takes. model: a name to show. badges: facts about device and
    numerics. references: what presets can be compared with that is none, name -> one-line description. cost: T(q), rows
    of (query tokens, measured seconds of one forward pass), none before it was measured. together: how many answers at
    once leave each a third of plain decoding's passes a second or more; the settings of a trace say with how many
    others it was ("shared").
    BUILDS_STORES: whether visitors can build datastores here.
    """

    BUILDS_STORES: ClassVar[bool]

    @property
    def models(self) -> Sequence[str]: ...

    @property
    def references(self) -> Mapping[str, str]: ...

    @property
    def model(self) -> str: ...

    @property
    def badges(self) -> Sequence[str]: ...

    @property
    def cost(self) -> Sequence[tuple[int, float]]: ...

    @property
    def together(self) -> int: ...

    def settings_of(self, method: str, visitor: str = "") -> Mapping[str, Value]:
        """`settings` of one preset, counting the visitor's own datastore; empty for an unknown one."""
        ...

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
        self, visitor: str, file: Path | None, keep: int, on_progress: ProgressCallback
    ) -> Mapping[str, Any]:
        """Build a datastore from a file, in the place of the visitor's last one; returns its card.

        file: None is a text that comes along. keep: texts, at most. What `on_progress` raises ends the build. Raises
        `SpectraError` for the field "file".
        """
        ...

    def write_texts(self, visitor: str, order: TextOrder, on_written: Callable[[int, int], None]) -> None:
        """Have the model write text for the visitor's datastore; what was written by such an order before stays.

        on_written: called with the texts that are finished and the tokens that are written; what it raises ends the
        writing, and finished texts stay. Raises `SpectraError` for the field "texts".
        """
        ...

    def written(self, visitor: str, order: TextOrder) -> int:
        """How many texts of such an order are written already."""
        ...

    def build_written(self, visitor: str, keep: int, on_progress: ProgressCallback) -> Mapping[str, Any]:
        """`build_store` of what the model wrote. Raises `SpectraError` for the field "texts"."""
        ...

    def drop_store(self, visitor: str) -> None:
        """Let the visitor's own datastore go."""
        ...

    def query(self, store: str, text: str, max_rows: int, visitor: str = "") -> Sequence[Mapping[str, Any]]:
        """What a store holds after `text`, likeliest first: text, count, chance, match (tokens of it that matched)."""
        ...
