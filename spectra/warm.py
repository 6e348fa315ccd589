"""What earlier answers taught, handed on to the next: a warm start. No torch.

Guesses come sooner, the text stays the same. Not for measuring: benchmarks start cold.
"""

import threading
from collections import OrderedDict
from typing import Any, Protocol, Self, runtime_checkable

from spectra.preset import Method


@runtime_checkable
class Learner(Protocol):
    """A drafter or budget whose knowledge outlives the answer."""

    def inherit(self, other: Self) -> None:
        """Go on from what `other`, made alike, has learned; it is shared from then on."""
        ...


class Warm:
    """One visitor's: knows the last method of each preset. Answers come one after the other."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[Method, int]] = {}

    def heat(self, method: Method) -> int:
        """Hand a fresh method what answers by the same preset learned; returns how many came before this one."""
        before, answers = self._last.get(method.name, (None, 0))
        if before is not None:
            for mine, its in zip((*method.drafters, method.budget), (*before.drafters, before.budget), strict=False):
                _hand_on(its, mine)
        self._last[method.name] = method, answers + 1
        return answers


class Visits:
    """What each visitor's answers taught: of those who asked last, `most` at most."""

    def __init__(self, most: int = 8) -> None:
        self.most = most
        self._kept: OrderedDict[str, Warm] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, visitor: str) -> Warm:
        """This visitor's, empty for a new one."""
        with self._lock:
            mine = self._kept.setdefault(visitor, Warm())
            self._kept.move_to_end(visitor)
            if len(self._kept) > self.most:
                self._kept.popitem(last=False)
            return mine

    def drop(self, visitor: str) -> None:
        with self._lock:
            self._kept.pop(visitor, None)

    def clear(self) -> None:
        with self._lock:
            self._kept.clear()


def _hand_on(its: Any, mine: Any) -> None:
    if isinstance(mine, Learner) and type(mine) is type(its):
        mine.inherit(its)
