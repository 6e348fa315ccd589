"""Several drafts, tested one after the other: SpecInfer's multi-step speculative sampling (2305.09781, section 4.3),
and what SpecHub (EMNLP 2024 main 1148) calls recursive rejection sampling, with and without replacement.

Each test is that of a chain; a rejection leaves its residual as the p of the next test. The drafts must be draws: a
draft model's top k under these tests changes the output distribution. A token drawn twice is tested twice.
"""

from collections.abc import Sequence
from math import prod

import numpy as np

from spectra.verify.rules.chain import chance, residual
from spectra.verify.rules.draws import Distribution, Tokens, sample, without
from spectra.verify.rules.protocol import Verdict


class MultiStep:
    """MSS: draws that are independent of each other, each from a q of its own. With one q for all this is RRS."""

    def draft(self, q: Distribution, k: int, generator: np.random.Generator, rows: int = 1) -> Tokens:
        return sample(q, generator, rows * k).reshape(rows, k)

    def verdict(self, p: Distribution, qs: Sequence[Distribution], tokens: Sequence[int]) -> Verdict:
        return _in_turn(p, qs, tokens)

    def acceptance(self, p: Distribution, q: Distribution, k: int) -> float:
        """1 - prod(1 - sum min(P_i, q)): the residuals P_i do not depend on which tokens were rejected."""
        missed = []
        for _ in range(k):
            missed.append(1.0 - float(np.minimum(p, q).sum()))
            p = residual(p, q)
        return 1.0 - prod(missed)


class WithoutReplacement:
    """RRSw: no token is drawn twice. Every draft comes from, and is tested against, q without the ones before it."""

    def draft(self, q: Distribution, k: int, generator: np.random.Generator, rows: int = 1) -> Tokens:
        tokens = np.empty((rows, 0), dtype=np.int64)
        for _ in range(k):
            tokens = np.column_stack([tokens, sample(without(q, tokens), generator, rows)])
        return tokens

    def verdict(self, p: Distribution, qs: Sequence[Distribution], tokens: Sequence[int]) -> Verdict:
        left = [without(q, np.array([tokens[:i]], dtype=np.int64))[0] for i, q in enumerate(qs)]
        return _in_turn(p, left, tokens)

    def acceptance(self, p: Distribution, q: Distribution, k: int) -> float:
        """By recursion over the first rejected token: V^(k-1) terms."""
        return 1.0 - self._missed(p, q, (), k)

    def _missed(self, p: Distribution, q: Distribution, rejected: tuple[int, ...], k: int) -> float:
        """The chance that the next k drafts are all rejected."""
        drawn = without(q, np.array([rejected], dtype=np.int64))[0]
        over = np.maximum(drawn - p, 0.0)  # the chance that x is drawn and rejected
        if k == 1:
            return float(over.sum())
        rest = residual(p, drawn)
        return sum(float(over[x]) * self._missed(rest, q, (*rejected, int(x)), k - 1) for x in np.flatnonzero(over))


def _in_turn(p: Distribution, qs: Sequence[Distribution], tokens: Sequence[int]) -> Verdict:
    """Test each token against the q that drew it; a rejection makes the residual the p of the next one."""
    chances, reached = [], 1.0
    for q, token in zip(qs, tokens, strict=True):
        taken = chance(p, q, token)
        chances.append(reached * taken)
        reached *= 1.0 - taken
        p = residual(p, q)
    return Verdict(tuple(chances), p)
