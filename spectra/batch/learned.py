"""What a batch learns from its own passes: whether drafting pays, how far to trust chances, what a pass takes.

None of it decides what is written, only how many guesses are scored.
"""

from collections.abc import Sequence

from spectra.tree import TokenTree


class DraftingWorth:
    """Whether drafting pays in a batch: seconds that accepted nodes save, to those that growing and scoring takes.

    Running sums. How many are accepted is taken from their chances, which are right on the whole: how many were, in so
    few passes, is mostly luck. Where it does not pay, drafters are asked at few steps only, to see whether it does by
    now.
    """

    KEPT = 0.97
    FIRST = 24
    """Steps before it is judged."""
    ENOUGH = 0.7
    """What is saved, to what it takes, for drafting to go on: a few steps say little, and plain decoding would take a
    part of that too."""
    RARELY = 8
    """Steps from one question to the next where it does not pay; twice as many after each that did not."""
    AT_MOST = 32
    """Steps from one question to the next."""

    def __init__(self) -> None:
        self._saved = self._spent = 0.0
        self._known = self._rested = 0
        self._rest = self.RARELY

    def asks(self) -> bool:
        """Whether drafters are asked at this step. Called once a step."""
        self._saved *= self.KEPT
        self._spent *= self.KEPT
        pays = self._saved >= self.ENOUGH * self._spent or self._known < self.FIRST
        self._rested = 0 if pays else (self._rested + 1) % self._rest
        return not self._rested

    def learn(self, drafting: float, forward: float, plain: float, promised: float) -> None:
        """Of a step at which they were asked. drafting, forward: its seconds; drafting with what is done after the pass
        for guessed rows. promised: nodes a sequence that are accepted by their chances.

        plain: what the pass would have taken without them, in parts of what it took.
        """
        self._known += 1
        saved, spent = promised * forward * plain, drafting + forward * (1 - plain)
        self._saved += saved
        self._spent += spent
        if self._known > self.FIRST:
            self._rest = self.RARELY if saved >= self.ENOUGH * spent else min(2 * self._rest, self.AT_MOST)


class Trust:
    """The number of likely guesses that were right, to the number that their chances promised: running sums.

    The best of many guesses are often those that were overrated, and a batch takes only the best: it begins with doubt.
    Guesses after what was written are judged whether they were scored or not, so doubt does not last for want of any.
    """

    KEPT = 0.99
    LIKELY = 0.5

    def __init__(self) -> None:
        self._promised, self._accepted = 8.0, 6.0

    @property
    def share(self) -> float:
        return min(1.0, self._accepted / self._promised)

    def learn(self, grown: TokenTree, emitted: Sequence[int]) -> None:
        """Of a step. grown: the whole tree, cut nodes included. emitted: what followed its root."""
        promised, right = 0.0, 0
        for node, hit in grown.reached(emitted):
            chance = grown.probability[node] or 0.0
            if chance >= self.LIKELY:
                promised += chance / (grown.probability[grown.parents[node]] or 1.0)
                right += hit
        if promised:
            self._promised = self.KEPT * self._promised + promised
            self._accepted = self.KEPT * self._accepted + right


class PassTime:
    """What a pass of several sequences takes beyond T of its rows, in seconds of the machine that T was measured on.

    T is measured on rows of one sequence; each of several reads a KV cache of its own, however many rows it has. What
    rows take is seen in the differences of one pass and the next: what slows the machine for a while is in both. Least
    squares over the last passes, against what is believed before: a machine is as much slower at rows as at the rest.
    """

    KEPT = 0.98
    ROWS_PART = 0.9
    """Of the seconds that T of the rows explains, before anything was seen."""
    DOUBT = 0.1
    """How far off that may be."""
    LONGEST = 1.5
    """A pass that took longer than so many times what is usual was kept waiting; more is not learned from it."""
    LEAST_ROWS_PART = 0.6
    """Whatever was seen."""
    LEAST_PART = 0.5
    """Of T of a pass without guesses, at least, is what does not depend on its rows. It is less than on a machine of
    one's own where others slow the arithmetic and not the memory."""

    def __init__(self) -> None:
        self._count = self._t = self._seconds = self._tt = self._both = self._ss = 0.0
        self._last = (0, 0.0, 0.0)

    def beyond(self, sequences: int, plain: float) -> float:
        """What a pass takes on top of T of its rows; below 0 where a row more costs a larger part of it than T says.
        plain: T of a row for each sequence."""
        if not self._count:
            return 0.0
        t, seconds = self._t / self._count, self._seconds / self._count
        least = self.LEAST_ROWS_PART * seconds / t
        return max((self.LEAST_PART - 1) * plain, sequences * (seconds / max(self._slope(), least) - t))

    def _slope(self) -> float:
        """Seconds that a second of T takes here: what was believed and what was seen, each by how sure it is."""
        believed = self.ROWS_PART * self._seconds / self._t
        if not self._tt:
            return believed
        seen = self._both / self._tt
        off = (seen - believed) ** 2 * self._tt  # seen with few passes, it may be chance
        noise = max(0.0, self._ss - seen * self._both) + off / self._count
        doubt = (self.DOUBT * believed) ** 2 * self._count
        return (doubt * self._both + noise * believed) / (doubt * self._tt + noise) if noise else seen

    def learn(self, t: float, seconds: float, sequences: int) -> None:
        """Of a pass. t: T of its rows."""
        t, seconds = t / sequences, seconds / sequences
        if self._count:
            usual = self._seconds / self._count * max(1.0, t * self._count / self._t)
            seconds = min(seconds, self.LONGEST * usual)
        before, last_t, last_seconds = self._last
        self._last = sequences, t, seconds
        # from one number of sequences to another the rest of a pass differs, which says nothing of rows
        more_t, more_seconds = (t - last_t, seconds - last_seconds) if sequences == before else (0.0, 0.0)
        kept = self.KEPT
        self._count = kept * self._count + 1
        self._t = kept * self._t + t
        self._seconds = kept * self._seconds + seconds
        self._tt = kept * self._tt + more_t**2
        self._both = kept * self._both + more_t * more_seconds
        self._ss = kept * self._ss + more_seconds**2
