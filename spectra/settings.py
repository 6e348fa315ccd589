"""What a user may set about one answer, checked once, here. No torch."""

import math
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field, fields
from numbers import Integral
from typing import NamedTuple

from spectra.errors import SpectraError

Message = dict[str, str]
"""One turn of a conversation: role ("user" or "assistant") and content."""


def check_unicode(field: str, text: str) -> None:
    """Raise SpectraError for text that cannot be encoded: the command line gives bytes that are no UTF-8 so."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise SpectraError(field, "it is not valid Unicode; give it as UTF-8") from error


def check_number(
    field: str, value: object, low: float, high: float, *, whole: bool = False, open_low: bool = False
) -> None:
    """Raise `SpectraError` unless `value` is a finite number in [low, high] ((low, high] with `open_low`)."""
    kind = "a whole number" if whole else "a number"
    upper = str(high) if isinstance(high, int) else f"{high:g}"
    span = f"{'above' if open_low else 'from'} {low:g} {'up to' if open_low else 'to'} {upper}"
    good = isinstance(value, int) if whole else isinstance(value, int | float)
    if not good or isinstance(value, bool) or (isinstance(value, float) and not math.isfinite(value)):
        raise SpectraError(field, f"{value!r} is not {kind}; give {kind} {span}")
    assert isinstance(value, int | float)
    if not low <= value <= high or (open_low and value == low):
        raise SpectraError(field, f"{value!r} is out of range; give {kind} {span}")


def check_kind(field: str, value: object, kind: type, usual: str, *, needed: bool = False) -> None:
    """Raise `SpectraError` for one of another kind, and for None where it is needed. usual: what to give, as code."""
    if not isinstance(value, kind) and (needed or value is not None):
        raise SpectraError(field, f"a {type(value).__name__} is none; give `{usual}` or another {kind.__name__}")


def check_functions(field: str, value: object, names: Iterable[str], usual: str) -> None:
    """Raise `SpectraError` unless `value` is an object with functions of these names. usual: what to give."""
    if isinstance(value, type):
        raise SpectraError(field, f"{value.__name__} is a class; give an object, `{value.__name__}(...)`")
    lacks = [name for name in names if not callable(getattr(value, name, None))]
    if lacks:
        raise SpectraError(field, f"a {type(value).__name__} has no function {lacks[0]}; give {usual}")


@dataclass(frozen=True, slots=True)
class Sampling:
    """How the target picks a token from its logits. `temperature=0` is greedy.

    The draw at output position i uses noise that depends on (seed, i) only, so the same seed gives the same text with
    and without speculation. Filters run in the order of transformers: penalty, temperature, top-k, top-p, min-p.

    temperature: 0 to 100. top_k: 0 for all. top_p: above 0, to 1. min_p: 0 to 1. repetition_penalty: above 0, to 100.
    seed: 0 to 2^63 - 1. Raises SpectraError for a number out of range.
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        check_number("temperature", self.temperature, 0, 100)
        check_number("top_k", self.top_k, 0, 1_000_000_000, whole=True)
        check_number("top_p", self.top_p, 0, 1, open_low=True)
        check_number("min_p", self.min_p, 0, 1)
        check_number("repetition_penalty", self.repetition_penalty, 0, 100, open_low=True)
        check_number("seed", self.seed, 0, 2**63 - 1, whole=True)
        for name in ("temperature", "top_p", "min_p", "repetition_penalty"):  # transformers refuses some that are int
            object.__setattr__(self, name, float(getattr(self, name)))

    @property
    def greedy(self) -> bool:
        """Whether the likeliest token is taken, and none drawn."""
        return self.temperature == 0


STOPPED = "one raised StopIteration; give one that says True or False, as by `next(values, False)`"


@dataclass(frozen=True, slots=True)
class Limits:
    """When an answer ends. Tested after each token, so a run accepted at once is cut where plain decoding ends.

    max_new_tokens: 1 to 1,000,000. eos: ids that end the answer (they are part of the output). criteria: asked with all
    tokens, prompt included. Raises SpectraError for a number out of range, and for ids or criteria that are none.
    """

    max_new_tokens: int = 256
    eos: frozenset[int] = frozenset()
    criteria: Callable[[list[int]], bool] | None = None

    def __post_init__(self) -> None:
        check_number("max_new_tokens", self.max_new_tokens, 1, 1_000_000, whole=True)
        if not isinstance(self.eos, Collection) or not all(isinstance(token, Integral) for token in self.eos):
            raise SpectraError("eos", f"{self.eos!r} is no set of token ids; give one, such as frozenset({{2}})")
        if self.criteria is not None and not callable(self.criteria):
            raise SpectraError("criteria", f"a {type(self.criteria).__name__} cannot be called; give a function")

    def cut(self, tokens: list[int], produced: int, new: list[int]) -> tuple[list[int], str]:
        """(the part of `new` that plain decoding would have written, why it ended or "").

        tokens: everything committed so far, prompt included. produced: how many of them are output.
        """
        for i, token in enumerate(new):
            if token in self.eos:
                return new[: i + 1], "eos"
            if self.criteria is not None and _stops(self.criteria, [*tokens, *new[: i + 1]]):
                return new[: i + 1], "criteria"
            if produced + i + 1 >= self.max_new_tokens:
                return new[: i + 1], "length"
        return new, ""


def _stops(criteria: Callable[[list[int]], bool], tokens: list[int]) -> bool:
    """What they say. A StopIteration, as of a `next` inside them, would not tell in a generator where it comes from."""
    try:
        return bool(criteria(tokens))
    except StopIteration as error:
        raise SpectraError("criteria", STOPPED) from error


Value = int | float | bool | None
"""Of one setting of a method."""


class Range(NamedTuple):
    """What a number may be, see `check_number`."""

    low: float
    high: float
    whole: bool = False
    open_low: bool = False

    def check(self, field: str, value: object) -> None:
        """Raise `SpectraError` naming the field for anything else."""
        check_number(field, value, self.low, self.high, whole=self.whole, open_low=self.open_low)


METHOD_NUMBERS = {
    "order": Range(2, 16, whole=True),
    "rows": Range(0, 128, whole=True),
    "guesses": Range(1, 128, whole=True),
    "refine": Range(0, 1),
    "nodes": Range(1, 1024, whole=True),
    "successors": Range(0, 64, whole=True),
}
"""The numbers of `MethodSettings`."""


def check_nodes(max_nodes: object) -> None:
    """Raise `SpectraError` for no whole number from 0 on, and for more guessed tokens than a step may have."""
    check_number("max_nodes", max_nodes, 0, METHOD_NUMBERS["nodes"].high, whole=True)


@dataclass(frozen=True, slots=True)
class MethodSettings:
    """What a user may change about a method; None leaves it as the preset has it.

    order, rows, guesses, refine: the paper's N, W, G and its chance of refining (SPECTRA 4.1). nodes: guessed tokens a
    step, at most. successors: how many likely successors of each scored token are kept to guess from (top-k), 0 for
    none. forward, backward: the two dictionaries. subngrams: what a pool row teaches, every n-gram in it or the whole
    row only. pool: the candidate pool. retrieval: a datastore. Raises SpectraError for a number out of range: order 2
    to 16, rows 0 to 128, guesses 1 to 128, refine 0 to 1, nodes 1 to 1024, successors 0 to 64.
    """

    order: int | None = None
    rows: int | None = None
    guesses: int | None = None
    refine: float | None = None
    nodes: int | None = None
    successors: int | None = None
    forward: bool | None = None
    backward: bool | None = None
    subngrams: bool | None = None
    pool: bool | None = None
    retrieval: bool | None = None

    def __post_init__(self) -> None:
        for name, allowed in METHOD_NUMBERS.items():
            if getattr(self, name) is not None:
                allowed.check(name, getattr(self, name))
        for name, value in self.changed.items():
            if name not in METHOD_NUMBERS and not isinstance(value, bool):
                raise SpectraError(name, f"{value!r} is not a switch; give true or false")

    @property
    def changed(self) -> dict[str, Value]:
        """Those that are not None."""
        return {one.name: getattr(self, one.name) for one in fields(self) if getattr(self, one.name) is not None}


@dataclass(frozen=True, slots=True)
class AnswerRequest:
    """One answer, as it is asked of an engine that serves many visitors.

    messages: the conversation, whose last message is the user's. method: a preset. visitor: who asks, "" for nobody
    known; the visitor's own datastore, if there is one, is guessed from too. in_conversation: the KV cache of the
    visitor's conversation stays from turn to turn. copied_tokens: start from a copy of at most so many of its tokens
    instead, and leave it as it is. warm: guess from the start by what the visitor's earlier warm answers taught.
    settings: what is changed about the method. explain: steps tell what was looked up and learned.
    """

    messages: tuple[Message, ...]
    method: str
    max_new_tokens: int = 256
    sampling: Sampling = field(default_factory=Sampling)
    visitor: str = ""
    in_conversation: bool = False
    copied_tokens: int | None = None
    warm: bool = False
    settings: MethodSettings = field(default_factory=MethodSettings)
    explain: bool = False

    @property
    def prompt(self) -> str:
        """The user's last message."""
        return self.messages[-1]["content"]


@dataclass(frozen=True, slots=True)
class TextOrder:
    """Text that a model is to write itself, for a datastore. prompts: what it answers; none: those of the project.

    texts: how many, each prompt first greedily and then by drawing. max_new_tokens: where a text is cut.
    """

    prompts: tuple[str, ...] = ()
    texts: int = 24
    max_new_tokens: int = 256

    @property
    def tokens(self) -> int:
        """At most so many are written."""
        return self.texts * self.max_new_tokens
