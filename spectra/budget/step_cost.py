"""T(q): what a step of q query tokens costs on this device. Measured elsewhere; plain numbers, no torch."""

from bisect import bisect_left
from dataclasses import dataclass
from itertools import pairwise
from operator import itemgetter

LEAST, MOST = 1e-12, 1e12
"""Seconds that a step may take."""


@dataclass(frozen=True, slots=True)
class StepCost:
    """T(q): measured seconds of one forward pass over q query tokens on this device, piecewise linear between.

    table: (query tokens, seconds), the first ones rising. Raises ValueError for a table that is empty or does not rise,
    and for seconds that no step takes.
    """

    table: tuple[tuple[int, float], ...]

    def __post_init__(self) -> None:
        try:
            table = tuple((count, seconds) for count, seconds in self.table)
        except (TypeError, ValueError) as error:
            raise ValueError("a step cost table lists pairs (query tokens, seconds)") from error
        object.__setattr__(self, "table", table)
        counts = [count for count, _ in table]
        whole = all(isinstance(count, int) and count < 1 << 31 for count in counts)
        if not whole or not counts or counts[0] < 1 or any(after <= before for before, after in pairwise(counts)):
            raise ValueError("a step cost table lists query counts in rising order, from 1 on")
        if not all(isinstance(seconds, int | float) and LEAST <= seconds <= MOST for _, seconds in table):
            raise ValueError(f"a step takes from {LEAST:g} to {MOST:g} seconds")

    def seconds(self, queries: int) -> float:
        """Seconds of a step with `queries` query tokens; past the last measured size the last slope goes on."""
        rows = self.table
        at = bisect_left(rows, queries, key=itemgetter(0))
        if at == 0 or len(rows) == 1:
            return rows[0][1]
        if at < len(rows):
            (q0, t0), (q1, t1) = rows[at - 1 : at + 1]
            return t1 if queries == q1 else t0 + (t1 - t0) * (queries - q0) / (q1 - q0)
        (q0, t0), (q1, t1) = rows[-2:]
        return t1 + max(0.0, (t1 - t0) / (q1 - q0)) * (queries - q1)

    def shared(self, sequences: int) -> "StepCost":
        """T of one of so many sequences whose equal steps go into one pass: T'(q) = T(sequences * q)."""
        return StepCost(tuple((queries, min(MOST, self.seconds(sequences * queries))) for queries, _ in self.table))
