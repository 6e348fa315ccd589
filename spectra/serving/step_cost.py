"""T(q) of a server, learned from its own steps: the seconds between two calls, by the number of query tokens.

A line fitted to the last steps, an older one counting less. Before there is variety it has the slope of a small CPU.
"""

KEEP = 0.98
SLOPE = 0.03
"""What a query token costs beside the first, as a part of the first: the prior."""
RIDGE = 64.0
"""Weight of the prior: the spread (squared tokens, summed over steps) at which the steps count as much as it does."""
OUTLIER = 4.0


class LearnedStepCost:
    """Observes steps and estimates the `seconds` of one."""

    def __init__(self) -> None:
        self._weight = self._queries = self._seconds = 0.0
        self._squares = self._products = 0.0

    def observe(self, queries: int, seconds: float) -> None:
        """A step that did nothing but verify. Another process may have held the machine: outliers are cut."""
        if self._weight:
            seconds = min(seconds, OUTLIER * self.seconds(queries))
        self._weight = KEEP * self._weight + 1.0
        self._queries = KEEP * self._queries + queries
        self._seconds = KEEP * self._seconds + seconds
        self._squares = KEEP * self._squares + queries * queries
        self._products = KEEP * self._products + queries * seconds

    def seconds(self, queries: int) -> float:
        """Of a step with so many query tokens; 1.0 is the first token's before anything was observed."""
        if not self._weight:
            return 1.0 + SLOPE * (queries - 1)
        mean, typical = self._queries / self._weight, self._seconds / self._weight
        prior = SLOPE * typical / (1.0 + SLOPE * (mean - 1))
        spread = max(0.0, self._squares - mean * self._queries)
        together = self._products - mean * self._seconds
        slope = max(0.0, (together + RIDGE * prior) / (spread + RIDGE))
        return max(typical + slope * (queries - mean), typical / OUTLIER)
