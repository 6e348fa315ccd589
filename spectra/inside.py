"""What the dictionaries and datastores held, found and learned at one step: a part of its trace, where asked for.

And what a value read from a trace's file may be.
"""

import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

MAX_NUMBER = 2**53
"""The largest number of a trace: what JavaScript holds exactly."""


@dataclass(frozen=True, slots=True)
class Learned:
    """N-grams that a step put into the dictionaries, all out of one row of tokens.

    origin: "pool" (a row of the candidate pool and its new token), "text" (what was accepted), "rejected" (what the
    target would have written after a rejected guess). place: the pool row, else -1. forward: where those n-grams begin
    that the forward dictionary took, its key being the first token. backward: those that the backward one took, its key
    being all tokens but the last.
    """

    origin: str
    place: int
    tokens: tuple[int, ...]
    forward: tuple[int, ...]
    backward: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Hit:
    """A token that followed the same last `match` tokens in a datastore.

    times: how often, of the `seen` times those were seen. store: its name, "" where several answered together. texts:
    how many kept texts have it, perplexity: the lowest one among them; None where the store does not tell, and where
    the match begins in the opening of an answer, which is before every text.
    """

    token: int
    match: int
    times: int
    seen: int
    store: str = ""
    texts: int | None = None
    perplexity: float | None = None


@dataclass(frozen=True, slots=True)
class Inside:
    """forward: continuations that the forward dictionary held for the last token, newest first. backward: (length of
    the suffix, the token held for it), each asked with the one before appended, up to the first miss. refined: for each
    pool row, whether its prediction had to avoid the forward dictionary's keys. learned: what came into the
    dictionaries. hits: what datastores hold after the text.
    """

    forward: tuple[tuple[int, ...], ...] = ()
    backward: tuple[tuple[int, int], ...] = ()
    refined: tuple[bool, ...] = ()
    learned: tuple[Learned, ...] = ()
    hits: tuple[Hit, ...] = ()

    @property
    def tokens(self) -> set[int]:
        """Every token id in it."""
        found = {token for row in self.forward for token in row} | {token for _, token in self.backward}
        found.update(token for one in self.learned for token in one.tokens)
        return found | {hit.token for hit in self.hits}

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Inside":
        """Raises KeyError, TypeError or ValueError for what is none."""
        return cls(
            forward=tuple(ints(row) for row in data["forward"]),
            backward=tuple((count(match), whole(token)) for match, token in data["backward"]),
            refined=tuple(flag(draw) for draw in data["refined"]),
            learned=tuple(_learned(one) for one in data["learned"]),
            hits=tuple(_hit(one) for one in data["hits"]),
        )


def joined(parts: Iterable[Inside]) -> Inside:
    """What several drafters reported, before a step and after it."""
    every = list(parts)
    return Inside(
        forward=tuple(row for part in every for row in part.forward),
        backward=tuple(pair for part in every for pair in part.backward),
        refined=tuple(draw for part in every for draw in part.refined),
        learned=tuple(one for part in every for one in part.learned),
        hits=tuple(hit for part in every for hit in part.hits),
    )


def _learned(data: Mapping[str, Any]) -> Learned:
    tokens = ints(data["tokens"])
    place, starts = whole(data["place"]), (ints(data["forward"]), ints(data["backward"]))
    if not all(0 <= start < len(tokens) - 1 for some in starts for start in some):
        raise ValueError("an n-gram begins outside of its row")
    return Learned(text(data["origin"]), place, tokens, *starts)


def _hit(data: Mapping[str, Any]) -> Hit:
    texts, perplexity = data["texts"], data["perplexity"]
    return Hit(
        token=whole(data["token"]),
        match=count(data["match"]),
        times=count(data["times"]),
        seen=count(data["seen"]),
        store=text(data["store"]),
        texts=None if texts is None else count(texts),
        perplexity=None if perplexity is None else number(perplexity, sys.float_info.max),
    )


def ints(values: Any) -> tuple[int, ...]:
    """Each of them `whole`. These functions raise ValueError or TypeError for a value of another kind."""
    return tuple(whole(value) for value in values)


def whole(value: Any) -> int:
    """A whole number that a page can hold."""
    if not isinstance(value, int) or isinstance(value, bool) or abs(value) > MAX_NUMBER:
        raise ValueError(f"{value!r} is not a whole number that a page can hold")
    return value


def count(value: Any) -> int:
    """A whole number from 0 on."""
    if whole(value) < 0:
        raise ValueError(f"{value} is below zero")
    return int(value)


def number(value: Any, high: float = MAX_NUMBER) -> float:
    """Seconds or a probability: what is infinite, negative or no number is refused."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= high:
        raise ValueError(f"{value!r} is not a number from 0 to {high:g}")
    return float(value)


def flag(value: Any) -> bool:
    """Yes or no."""
    if not isinstance(value, bool):
        raise ValueError(f"{value!r} is neither true nor false")
    return value


def text(value: Any) -> str:
    """Text that can be sent."""
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is not a text")
    value.encode()  # lone surrogates are no text: UnicodeEncodeError is a ValueError
    return value
