"""What nearly always followed the last tokens in the stores, from one table: a guess takes microseconds.

For batches in which a row is dear (`SURE_ONLY`): there a store's whole answer is not worth the time of asking.
"""

from bisect import bisect
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from struct import pack
from typing import NamedTuple, Protocol, runtime_checkable

from spectra.drafters.judge import Path, StrictJudge
from spectra.guess import Source
from spectra.method import Outcome
from spectra.tree import ROOT, TokenTree

GRADES = (0.7, 0.8, 0.9, 0.95)
"""Chances from which a token counts as nearly certain, by grade."""
FIRST_CLASS = 14
"""Of confidence, for the lowest grade."""
MOST = 1 << 16
"""Contexts of a store with a token that is nearly certain, the most often seen. A table has four times as many, and the
beginnings of their keys."""


class Top(NamedTuple):
    """The token that followed a context most often. key: see `key_of`. times: how often, of the `seen`."""

    key: bytes
    token: int
    times: int
    seen: int

    @property
    def chance(self) -> float:
        return self.times / (self.seen + 1)


class Followed(NamedTuple):
    """A token that nearly always followed a context. grade: how nearly, a place in GRADES."""

    token: int
    grade: int


ABSENT = Followed(-1, -1)
"""Stands for no entry of a table."""


class Table(NamedTuple):
    """What is nearly certain. order: longest context.

    followed: by the keys of contexts after which one token is nearly certain; and of longer ones that end in such a
    context, after which none is: None. A key's beginnings are keys too: who looks for the longest one of a text begins
    with the shortest, and can stop where there is none.
    """

    followed: Mapping[bytes, Followed | None]
    order: int


@runtime_checkable
class TopStore(Protocol):
    """A store that tells what followed its contexts most often. order: the longest, in tokens."""

    order: int

    @property
    def refined(self) -> bool: ...

    def likeliest(self, least: float, most: int) -> Iterable[Top]:
        """Contexts after which a token has a chance of `least`, the `most` that were seen most often."""
        ...

    def top(self, key: bytes) -> Top | None:
        """Of the context of this key, None where it is not known."""
        ...

    def ending_with(self, key: bytes) -> Iterable[Top]:
        """Of the context of this key, and of longer ones that end in it."""
        ...


class TableOf:
    """The table of those of these stores that are refined and tell what followed most often.

    It is made once, when it is first asked for: a second for half a million contexts.
    """

    def __init__(self, stores: Sequence[object]) -> None:
        self._stores = [store for store in stores if isinstance(store, TopStore) and store.refined]

    @cached_property
    def table(self) -> Table:
        return table_of(self._stores)


class NearCertain:
    """The drafter: one chain, which ends where no token is nearly certain.

    depth: of the chain, at most. banned: tokens that are never guessed. judge: the chain ends at the first node that
    does not pay by it.
    """

    def __init__(
        self, table: Table, *, depth: int = 8, banned: Collection[int] = (), judge: StrictJudge | None = None
    ) -> None:
        self._followed, self._order = table
        self._depth = depth
        self._banned = banned
        self._judge = judge

    def begin(self, prompt: Sequence[int]) -> None:
        """A store does not learn."""

    def grow(self, tree: TokenTree, tokens: Sequence[int]) -> None:
        key, node, path = key_of(tokens[max(0, len(tokens) - self._order) :]), ROOT, Path(self._judge)
        for _ in range(self._depth):
            match, found = self._after(key)
            if found is None or found.token in self._banned:
                return
            confidence = FIRST_CLASS + found.grade
            node = tree.add(node, found.token, Source.RETRIEVAL, match=match, confidence=confidence)
            if not path.pays(tree, node):
                return
            key = key_of([found.token]) + key[: 4 * (self._order - 1)]

    def observe(self, tokens: Sequence[int], outcome: Outcome) -> None:
        """A store does not learn."""

    def _after(self, key: bytes) -> tuple[int, Followed | None]:
        """(length, what follows) of the longest suffix of the context that the table has."""
        match, found = 0, None
        for size in range(4, len(key) + 1, 4):
            here = self._followed.get(key[:size], ABSENT)
            if here is ABSENT:
                break
            match, found = size // 4, here
        return match, found


def key_of(context: Sequence[int]) -> bytes:
    """Its ids, the last one first, in 4 bytes each, the highest first: the keys of suffixes are beginnings of it."""
    return pack(f">{len(context)}I", *reversed(context))


def table_of(stores: Sequence[TopStore]) -> Table:
    """Of what the stores saw together."""
    known = {top.key for store in stores for top in store.likeliest(GRADES[0], MOST)}
    joint = {key: _joint([top for store in stores if (top := store.top(key))]) for key in known}
    certain = {key: top.seen for key, top in joint.items() if top.chance >= GRADES[0]}
    order = max((store.order for store in stores), default=0)
    followed: dict[bytes, Followed | None] = {}
    for shortest in sorted(_shortest(certain), key=lambda key: (-certain[key], key)):
        found = defaultdict(list)
        for store in stores:
            for top in store.ending_with(shortest):
                found[top.key].append(top)
        for key, tops in found.items():
            if len(followed) == 4 * MOST:
                return Table(_with_beginnings(followed), order)
            top = _joint(tops)
            grade = bisect(GRADES, top.chance) - 1
            followed[key] = Followed(top.token, grade) if grade >= 0 else None
    return Table(_with_beginnings(followed), order)


def _with_beginnings(followed: Mapping[bytes, Followed | None]) -> dict[bytes, Followed | None]:
    """With the beginnings of its keys, each of which says what the longest key among its own beginnings does."""
    whole: dict[bytes, Followed | None] = {}
    for key, found in followed.items():
        before: Followed | None = None
        for size in range(4, len(key), 4):
            before = whole[key[:size]] = followed.get(key[:size], before)
        whole[key] = found
    return whole


def _shortest(keys: Iterable[bytes]) -> Iterator[bytes]:
    """Those that begin with none of the others."""
    last: bytes | None = None
    for key in sorted(keys):
        if last is None or not key.startswith(last):
            yield key
            last = key


def _joint(tops: Sequence[Top]) -> Top:
    """Of several stores, of one context. Of other tokens than the most frequent one of a store nothing is known."""
    if len(tops) == 1:
        return tops[0]
    best = max(tops, key=lambda top: top.times)
    times = sum(top.times for top in tops if top.token == best.token)
    return best._replace(times=times, seen=sum(top.seen for top in tops))
