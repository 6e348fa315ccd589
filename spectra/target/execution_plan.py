"""What was learned of a model on this device: how it is stepped, and what a step costs. Plain data, no torch."""

from bisect import bisect_left
from dataclasses import asdict, dataclass
from typing import Any

from spectra.budget.step_cost import StepCost

PLACEHOLDER_COST = StepCost(((1, 1.0), (8, 1.2), (32, 2.0), (128, 5.0)))
"""Rises like a small CPU; used where nothing was measured (tests, a target made by hand)."""


@dataclass(frozen=True, slots=True)
class ExecutionPlan:
    """numerics: "exact" or "fast". step: "native" (our library for CPUs), "eager", "graphs", "flash" or
    "flash-eager" (see `spectra.target.step_choice`).

    chunk: rows of every forward pass of an exact step by torch. A wider step goes in several passes and the last one
    is filled up, so matrix kernels, which are chosen by the number of rows, always see the same one. 0: a step of any
    width is one pass. counts: row counts that are captured; a step is filled up to one of them.
    trees: the model can score trees, not only chains. note: one line on what was asked for and is not available, or "".
    """

    numerics: str = "fast"
    step: str = "eager"
    chunk: int = 0
    counts: tuple[int, ...] = ()
    trees: bool = True
    cost: StepCost = PLACEHOLDER_COST
    note: str = ""

    @property
    def exact(self) -> bool:
        return self.numerics == "exact"

    def fit(self, rows: int) -> int:
        """Rows that a step of `rows` query tokens computes."""
        if self.chunk:
            return -(-rows // self.chunk) * self.chunk
        at = bisect_left(self.counts, rows)
        return self.counts[at] if at < len(self.counts) else rows

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "ExecutionPlan":
        values = dict(data)
        values["cost"] = StepCost(tuple((int(q), float(t)) for q, t in data["cost"]["table"]))
        values["counts"] = tuple(int(count) for count in data["counts"])
        return cls(**values)
