"""Speculative sampling: one draft, accepted with probability min(1, p/q) (2211.17192, section 2.3 and Algorithm 1).

A token that q offers too often, q(x) > p(x), is thinned to p(x); what is missing elsewhere, max(p - q, 0), is what a
rejection draws from. The two make up p exactly. (The ratio is target over draft: the inverse is a common misprint.)
"""

from collections.abc import Sequence

import numpy as np

from spectra.verify.rules.draws import Distribution, Tokens, normalised, sample
from spectra.verify.rules.protocol import Verdict, check_count


def chance(p: Distribution, q: Distribution, token: int) -> float:
    """min(1, p(x)/q(x)); 1 for a token with q(x) = 0 and p(x) > 0."""
    if q[token] <= 0:
        return float(p[token] > 0)
    return min(1.0, float(p[token] / q[token]))


def residual(p: Distribution, q: Distribution) -> Distribution:
    """What p still misses after one test against q: norm(max(p - q, 0)), and p itself where p = q."""
    return normalised(np.maximum(p - q, 0.0), p)


class Chain:
    """One draft at a place: the nodes of a chain of K tokens."""

    def draft(self, q: Distribution, k: int, generator: np.random.Generator, rows: int = 1) -> Tokens:
        check_count("speculative sampling", k, 1)
        return sample(q, generator, rows)[:, None]

    def verdict(self, p: Distribution, qs: Sequence[Distribution], tokens: Sequence[int]) -> Verdict:
        check_count("speculative sampling", len(tokens), 1)
        return Verdict((chance(p, qs[0], tokens[0]),), residual(p, qs[0]))

    def acceptance(self, p: Distribution, q: Distribution, k: int = 1) -> float:
        """The overlap of the two: sum min(p, q) (2211.17192, Corollary 3.6)."""
        check_count("speculative sampling", k, 1)
        return float(np.minimum(p, q).sum())
