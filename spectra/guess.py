"""What a drafter offers: a run of tokens with the place it came from. Plain ints, no torch."""

import re
from dataclasses import dataclass
from typing import ClassVar

NAME = re.compile(r"[a-z][a-z0-9-]{0,31}")


class Source(str):
    """Where a token came from. `MODEL` is the target's own pick; every other source is a drafter's guess.

    The constants are the project's own. A drafter of yours names another with `Source("mine")`: small letters, digits
    and hyphens. DRAFT and SECOND are draft models, the first and the second of a method's.
    """

    __slots__ = ()

    MODEL: ClassVar["Source"]
    FORWARD: ClassVar["Source"]
    BACKWARD: ClassVar["Source"]
    RETRIEVAL: ClassVar["Source"]
    POOL: ClassVar["Source"]
    NGRAM: ClassVar["Source"]
    RECYCLED: ClassVar["Source"]
    AUTOMATON: ClassVar["Source"]
    MEMORY: ClassVar["Source"]
    DRAFT: ClassVar["Source"]
    SECOND: ClassVar["Source"]

    def __new__(cls, name: str) -> "Source":
        """Raises ValueError for a name that is none."""
        if not isinstance(name, str) or not NAME.fullmatch(name):
            raise ValueError(f"{str(name)[:40]!r} is no source: small letters, digits and hyphens, at most 32")
        return super().__new__(cls, name)

    def __deepcopy__(self, memo: object) -> "Source":
        return self


Source.MODEL = Source("model")
Source.FORWARD = Source("forward")
Source.BACKWARD = Source("backward")
Source.RETRIEVAL = Source("retrieval")
Source.POOL = Source("pool")
Source.NGRAM = Source("ngram")
Source.RECYCLED = Source("recycled")
Source.AUTOMATON = Source("automaton")
Source.MEMORY = Source("memory")
Source.DRAFT = Source("draft")
Source.SECOND = Source("second")


@dataclass(frozen=True, slots=True)
class Guess:
    """A run of tokens that may follow the last committed one.

    tokens: the guessed continuation, nearest first, never empty.
    rank: 0 for the drafter's first choice, 1 for the next, ... (a feature of the budget's acceptance estimates).
    match: how many context tokens the lookup matched (0 when it does not match a context).
    Raises ValueError where there is no token.
    """

    tokens: tuple[int, ...]
    source: Source
    rank: int = 0
    match: int = 0

    def __post_init__(self) -> None:
        if len(self.tokens) == 0:  # an array is neither true nor false
            raise ValueError("a guess holds at least one token")
