"""What a rule is: how k tokens are drawn from q, and with what chance each of them is accepted under p.

The chances are plain numbers, so a rule can be checked exactly: summed over all drafts, they must give p.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from spectra.verify.rules.draws import Distribution, Tokens, sample


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a rule decides about given drafts, before any draw.

    chances: for each draft the chance that it is the one accepted. residual: [V], where the next token comes from when
    none is; together they sum to one.
    """

    chances: tuple[float, ...]
    residual: Distribution

    def draw(self, tokens: Sequence[int], generator: np.random.Generator) -> tuple[int | None, int]:
        """(which draft is accepted or None, the next token)."""
        point = generator.random()
        for index, chance in enumerate(self.chances):
            point -= chance
            if point < 0:
                return index, tokens[index]
        return None, int(sample(self.residual, generator)[0])


class Rule(Protocol):
    """Draws drafts and tests them."""

    def draft(self, q: Distribution, k: int, generator: np.random.Generator, rows: int = 1) -> Tokens:
        """[rows, k]: `rows` independent drafts of k tokens each, in the order in which they are to be tested.

        Raises ValueError for a k that the rule cannot serve.
        """

    def verdict(self, p: Distribution, qs: Sequence[Distribution], tokens: Sequence[int]) -> Verdict:
        """Test drafted `tokens` against the target's p.

        qs: for each token the q that its draft started from (without replacement: before anything was left out). The
        tokens must have been drawn by `draft`, or be `top` of q at temperature 0: others change what comes out.
        """

    def acceptance(self, p: Distribution, q: Distribution, k: int) -> float:
        """The chance that any of k drafts is accepted, exactly."""


def accept(
    rule: Rule, p: Distribution, qs: Sequence[Distribution], tokens: Sequence[int], generator: np.random.Generator
) -> tuple[int | None, int]:
    """(which draft is accepted or None, the next token). Without drafts the token is a draw from p."""
    verdict = rule.verdict(p, qs, tokens) if tokens else Verdict((), p)
    return verdict.draw(tokens, generator)


def check_count(name: str, k: int, only: int) -> None:
    """Raises ValueError for any other number of drafts than the rule is made for."""
    if k != only:
        raise ValueError(f"{name} tests {only} draft{'s' if only > 1 else ''} at a place, not {k}")
