"""What earlier answers taught, handed on to the next: a warm start. No torch.

Guesses come sooner, the text stays the same. Not for measuring: benchmarks start cold.
"""

from typing import Any, NamedTuple, Protocol, Self, runtime_checkable

from spectra.method import Method

MAX_VISITORS = 8
"""Those whose answers teach the next ones: the last who asked."""


@runtime_checkable
class Learner(Protocol):
    """A drafter or budget whose knowledge outlives the answer."""

    def inherit(self, other: Self) -> None:
        """Go on from what `other`, made alike, has learned; it is shared from then on."""
        ...


class Taught(NamedTuple):
    """The method of the last answer by a preset, and how many answers it has learned from."""

    method: Method
    answers: int


class WarmStart:
    """One visitor's: holds the last method of each preset. Answers come one after the other."""

    def __init__(self) -> None:
        self._last: dict[str, Taught] = {}

    def apply(self, method: Method) -> int:
        """Hand a fresh method what answers by the same preset learned; returns how many came before this one."""
        last = self._last.get(method.name)
        answers = 0
        if last is not None:
            answers = last.answers
            for new, old in zip(method.drafters, last.method.drafters, strict=False):
                _inherit(new, old)
            _inherit(method.budget, last.method.budget)
        self._last[method.name] = Taught(method, answers + 1)
        return answers


def _inherit(new: Any, old: Any) -> None:
    if isinstance(new, Learner) and type(new) is type(old):
        new.inherit(old)
