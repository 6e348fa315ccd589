"""What a user may set about a build, checked once, here. No torch."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from spectra.errors import SpectraError
from spectra.settings import check_number

KEEP = 100_000
"""Texts the paper keeps (SPECTRA 4.2)."""


@dataclass(frozen=True, slots=True)
class BuildSettings:
    """keep: texts of lowest perplexity, at most. keep_tokens: tokens of them, at most; the last text is cut to fit.

    refine: False keeps a random sample drawn by `seed` instead. window: tokens of a text; longer ones become several.
    min_tokens, min_distinct: floors of length and of the share of distinct 4-grams. header: "answer" puts the end of
    the chat template's generation prompt before every text, "none" nothing. order, successors: see `build_index`.
    score_tokens: tokens of a random sample that is scored instead of the whole corpus, about.
    batch_tokens: tokens scored at once, padding included; batches depend on the settings only, not on the processes.
    """

    keep: int | None = KEEP
    keep_tokens: int | None = None
    refine: bool = True
    window: int = 1024
    min_tokens: int = 16
    min_distinct: float = 0.5
    where: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    skip_bad: bool = False
    header: str = "answer"
    order: int = 8
    successors: int = 8
    score_tokens: int | None = None
    batch_tokens: int = 4096
    seed: int = 0

    def __post_init__(self) -> None:
        for name, value in self._counts:
            if value is not None:
                check_number(name, value, 1, 2**40, whole=True)
        check_number("window", self.window, 2, 2**20, whole=True)
        check_number("min-tokens", self.min_tokens, 2, self.window, whole=True)
        check_number("min-distinct", self.min_distinct, 0, 1)
        check_number("order", self.order, 1, 64, whole=True)
        check_number("successors", self.successors, 1, 64, whole=True)
        check_number("batch-tokens", self.batch_tokens, 1, 2**24, whole=True)
        check_number("seed", self.seed, 0, 2**63 - 1, whole=True)
        if self.header not in ("answer", "none"):
            raise SpectraError("header", f"{self.header!r} is unknown; choose answer or none")

    @property
    def _counts(self) -> tuple[tuple[str, int | None], ...]:
        return ("keep", self.keep), ("keep-tokens", self.keep_tokens), ("score-tokens", self.score_tokens)

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "where": {name: list(values) for name, values in self.where.items()}}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "BuildSettings":
        where = {name: tuple(values) for name, values in data["where"].items()}
        return cls(**{**data, "where": where})
