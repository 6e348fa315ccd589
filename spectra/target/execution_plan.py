"""What was learned of a model on this device: how it may be stepped, and what a step costs. Plain data, no torch."""

from bisect import bisect_left
from dataclasses import asdict, dataclass
from typing import Any

from spectra.budget.step_cost import StepCost
from spectra.errors import SpectraError

PLACEHOLDER_COST = StepCost(((1, 1.0), (8, 1.2), (32, 2.0), (128, 5.0)))
"""Rises like a small CPU; used where nothing was measured (tests, a target made by hand)."""


@dataclass(frozen=True, slots=True)
class Plan:
    """numerics: "exact" or "fast". buckets: row counts that steps are filled up to: exact, counts whose bits
    agree; fast, small counts that are not slower than a larger one (more rows than the last stay as they are).

    step: "eager", "graphs", "flash" or "flash-eager", see `spectra.target.cuda_graphs.choice`.
    trees: the model can score trees, not only chains. wide: attention is one product over all slots, where that was
    faster: exact, with float64 sums, in place of aligned blocks; fast, with float32 sums, in place of the stock one.
    note: one line on why exact numerics could not be had, or "".
    """

    numerics: str = "fast"
    buckets: tuple[int, ...] = ()
    trees: bool = True
    wide: bool = False
    cost: StepCost = PLACEHOLDER_COST
    note: str = ""
    step: str = "eager"

    @property
    def exact(self) -> bool:
        return self.numerics == "exact"

    @property
    def ours(self) -> bool:
        """Attention is the project's own, not the stock one."""
        return self.exact or self.wide

    def fit(self, rows: int) -> int:
        """The smallest of the buckets that holds `rows`."""
        at = bisect_left(self.buckets, rows)
        if at < len(self.buckets):
            return self.buckets[at]
        if not self.exact:
            return rows
        raise SpectraError(
            "nodes", f"{rows} query tokens a step, at most {self.buckets[-1]} are exact here; ask for fewer"
        )

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "Plan":
        cost = StepCost(tuple((int(q), float(t)) for q, t in data["cost"]["table"]))
        buckets = tuple(int(b) for b in data["buckets"])
        wide = bool(data["wide"])
        step = str(data.get("step", "eager"))  # plans written before there was another have none
        return cls(str(data["numerics"]), buckets, bool(data["trees"]), wide, cost, str(data["note"]), step)
