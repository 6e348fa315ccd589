"""What a batch learns from its own passes: whether drafting pays, how far to trust chances, what a pass takes.

None of it decides what is written, only how many guesses are scored.
"""

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import TypeVar
from weakref import WeakKeyDictionary

from spectra.tree import TokenTree

X = TypeVar("X")


class DraftingWorth:
    """Whether asking the drafters of a sequence pays: what accepted nodes saved, to what growing and scoring them took.

    Running sums over steps at which they were asked. Where it does not pay, they are asked at few steps only, to see
    whether it does by now. others: of the same batch; a sequence begins with their mean.
    """

    KEPT = 0.85
    FIRST = 8
    """Steps before it is judged, where nothing is known of others."""
    OTHERS = 3
    """What is known of others counts for as many steps."""
    RARELY = 8
    """Steps from one question to the next where it does not pay; twice as many after each that did not."""
    AT_MOST = 32
    """Steps from one question to the next."""

    def __init__(self, others: "Sequence[DraftingWorth]" = ()) -> None:
        self._count = self._accepted = self._spent = 0.0
        self._known = self._rested = 0
        self._rest = self.RARELY
        if known := [other for other in others if other._known >= self.FIRST]:
            self._known, self._count = self.FIRST, self.OTHERS
            self._accepted = self.OTHERS * fmean(other._accepted / other._count for other in known)
            self._spent = self.OTHERS * fmean(other._spent / other._count for other in known)

    def asks(self, token: float) -> bool:
        """Whether drafters are asked at this step. Called once a step. token: the seconds that one more token saves."""
        pays = self._accepted * token >= self._spent or self._known < self.FIRST
        self._rested = 0 if pays else (self._rested + 1) % self._rest
        return not self._rested

    def learn(self, accepted: int, spent: float, token: float) -> None:
        """Of a step at which they were asked. accepted: nodes. spent: seconds that asking and scoring them took."""
        self._known += 1
        self._count = self.KEPT * self._count + 1
        self._accepted = self.KEPT * self._accepted + accepted
        self._spent = self.KEPT * self._spent + spent
        if self._known > self.FIRST:
            self._rest = self.RARELY if accepted * token >= spent else min(2 * self._rest, self.AT_MOST)


class BatchWorth:
    """At which sequences of a batch the drafters are asked: see `DraftingWorth`.

    A sequence that repeats itself goes on with guesses beside those to which they are not worth their seconds. What is
    known of one is kept as long as the sequence, also through steps at which it has no part.
    """

    KEPT = 0.98
    MOST = 4.0
    """Seconds for itself that a step counts for at most, to their mean: the machine may have been elsewhere."""

    def __init__(self) -> None:
        self._of: WeakKeyDictionary[object, DraftingWorth] = WeakKeyDictionary()
        self._plain: float | None = None
        self._own: float | None = None
        """Seconds that a sequence takes for itself at a step without guesses, and at one with them."""

    def asks(self, tokens: Mapping[X, float]) -> set[X]:
        """Those whose drafters are asked at this step. tokens: the sequences whose drafters may rest, with the seconds
        that one more token of each saves. Called once a step."""
        others = [*self._of.values()]
        for one in tokens:
            if one not in self._of:
                self._of[one] = DraftingWorth(others)
        return {one for one, token in tokens.items() if self._of[one].asks(token)}

    def learn_plain(self, own: float) -> None:
        """Of a sequence at a step without guesses. own: seconds for itself alone."""
        self._plain, _ = self._mean(self._plain, own)

    def learn(self, sequence: object, accepted: int, *, own: float, rows: float, token: float) -> None:
        """Of a sequence whose drafters were asked. accepted: nodes. own: seconds for itself alone. rows: seconds of the
        pass for the rows of its nodes. token: as in `asks`."""
        self._own, own = self._mean(self._own, own)
        spent = max(0.0, own - (self._plain or 0.0)) + rows
        self._of[sequence].learn(accepted, spent, token)

    def _mean(self, mean: float | None, own: float) -> tuple[float, float]:
        """(the mean with one step more, what that step counts for)."""
        if mean is None:
            return own, own
        own = min(own, self.MOST * mean)
        return self.KEPT * mean + (1 - self.KEPT) * own, own


class Trust:
    """How many of the nodes that were scored are accepted, to what their chances promised: running sums.

    The best of many guesses are often those that were overrated, and a batch takes only the best: it begins with doubt.
    """

    KEPT = 0.99

    def __init__(self) -> None:
        self._promised, self._accepted = 8.0, 6.0

    @property
    def share(self) -> float:
        return min(1.0, self._accepted / self._promised)

    def learn(self, tree: TokenTree, accepted: int) -> None:
        promised = [chance for chance in tree.probability if chance]
        if promised:
            self._promised = self.KEPT * self._promised + sum(promised)
            self._accepted = self.KEPT * self._accepted + accepted


class PassTime:
    """What a pass of several sequences takes beyond T of its rows, in seconds of the machine that T was measured on.

    T is measured on rows of one sequence; each of several reads a KV cache of its own, however many rows it has. By the
    line through (T, seconds) a sequence, least squares over the last steps: a machine that is busy is slower at both.
    """

    KEPT = 0.97
    AS_MEASURED = 0.05
    """How far the T of steps must spread, in parts of their mean, to say as much as the slope 1 does beforehand."""
    LEAST_SLOPE = 0.5

    def __init__(self) -> None:
        self._count = self._t = self._seconds = self._tt = self._both = 0.0

    def beyond(self, sequences: int) -> float:
        if not self._count:
            return 0.0
        return sequences * max(0.0, self._seconds / self._slope - self._t) / self._count

    def seconds(self, t: float, sequences: int) -> float:
        """Of a pass on this machine as it is now."""
        return self._slope * (t + self.beyond(sequences))

    @property
    def _slope(self) -> float:
        """Seconds that one of T takes."""
        if not self._count:
            return 1.0
        t, seconds = self._t / self._count, self._seconds / self._count
        before = (self.AS_MEASURED * t) ** 2
        slope = (self._both / self._count - t * seconds + before) / (self._tt / self._count - t * t + before)
        return max(slope, self.LEAST_SLOPE)

    def learn(self, t: float, seconds: float, sequences: int) -> None:
        """Of a pass. t: T of its rows."""
        t, seconds = t / sequences, seconds / sequences
        self._count = self.KEPT * self._count + 1
        self._t = self.KEPT * self._t + t
        self._seconds = self.KEPT * self._seconds + seconds
        self._tt = self.KEPT * self._tt + t * t
        self._both = self.KEPT * self._both + t * seconds
