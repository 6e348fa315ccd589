"""What a drafter offers: a run of tokens with the place it came from. Plain ints, no torch."""

from dataclasses import dataclass
from enum import StrEnum


class Source(StrEnum):
    """Where a token came from. `MODEL` is the target's own pick; every other source is a drafter's guess.

    DRAFT and SECOND are draft models, the first and the second of a method's.
    """

    MODEL = "model"
    FORWARD = "forward"
    BACKWARD = "backward"
    RETRIEVAL = "retrieval"
    POOL = "pool"
    NGRAM = "ngram"
    RECYCLED = "recycled"
    AUTOMATON = "automaton"
    DRAFT = "draft"
    SECOND = "second"


@dataclass(frozen=True, slots=True)
class Guess:
    """A run of tokens that may follow the last committed one.

    tokens: the guessed continuation, nearest first, never empty.
    rank: 0 for the drafter's first choice, 1 for the next, ... (a feature of the budget's acceptance estimates).
    match: how many context tokens the lookup matched (0 when it does not match a context).
    """

    tokens: tuple[int, ...]
    source: Source
    rank: int = 0
    match: int = 0

    def __post_init__(self) -> None:
        if not self.tokens:
            raise ValueError("a guess holds at least one token")
