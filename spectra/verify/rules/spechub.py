"""SpecHub: two drafts, one of which is always the hub a = argmax q (EMNLP 2024 main 1148).

Draw f ~ q. f = a gives the pair (a, i), i drawn from the rest of q; f = i gives the pair (i, a). Every other token
first takes what it needs from its own two pairs; the hub takes what they leave, up to p(a). So the hub, drafted every
time, is accepted exactly as often as the target wants it, and no linear program is needed.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from spectra.verify.rules.draws import Distribution, Tokens, normalised, sample, without
from spectra.verify.rules.protocol import Verdict, check_count


@dataclass(frozen=True, slots=True)
class Shares:
    """How the pairs' mass is shared out. All arrays are [V] and zero at the hub.

    leading, following: mass of the pairs (i, a), where i leads, and (a, i), where it follows. from_leading,
    from_following: what i takes of each. spare_leading, spare_following: what is left in all the pairs where the hub
    leads, and in those where it follows; hub_leading, hub_following: what it takes of that. missing: what of p no pair
    could give.
    """

    hub: int
    leading: Distribution
    following: Distribution
    from_leading: Distribution
    from_following: Distribution
    hub_leading: float
    hub_following: float
    spare_leading: float
    spare_following: float
    missing: Distribution


def share(p: Distribution, q: Distribution) -> Shares:
    """Share out the mass of all pairs of a draft from q under the target's p."""
    hub = int(np.argmax(q))
    leading = q.copy()
    leading[hub] = 0.0
    following = q[hub] * without(q, np.array([[hub]]))[0]
    from_leading = np.minimum(p, leading)
    from_following = np.minimum(p - from_leading, following)
    spare_leading = float((following - from_following).sum())
    spare_following = float((leading - from_leading).sum())
    hub_leading = min(float(p[hub]), spare_leading)
    hub_following = min(float(p[hub]) - hub_leading, spare_following)
    missing = p - from_leading - from_following
    missing[hub] = 0.0
    return Shares(
        hub, leading, following, from_leading, from_following,
        hub_leading, hub_following, spare_leading, spare_following, missing,
    )  # fmt: skip


class SpecHub:
    """Exactly two drafts at a place."""

    def draft(self, q: Distribution, k: int, generator: np.random.Generator, rows: int = 1) -> Tokens:
        check_count("SpecHub", k, 2)
        hub = int(np.argmax(q))
        first = sample(q, generator, rows)
        other = sample(without(q, np.array([[hub]]))[0], generator, rows)
        return np.column_stack([first, np.where(first == hub, other, hub)])

    def verdict(self, p: Distribution, qs: Sequence[Distribution], tokens: Sequence[int]) -> Verdict:
        check_count("SpecHub", len(tokens), 2)
        s = share(p, qs[0])
        first, second = tokens
        if first == second or s.hub not in tokens:
            raise ValueError(f"SpecHub cannot have drafted {first} and {second}: one of them is the likeliest, {s.hub}")
        residual = normalised(s.missing, p)
        if first == s.hub:
            other = _part(s.from_following[second], s.following[second])
            return Verdict(((1.0 - other) * _part(s.hub_leading, s.spare_leading), other), residual)
        other = _part(s.from_leading[first], s.leading[first])
        return Verdict((other, (1.0 - other) * _part(s.hub_following, s.spare_following)), residual)

    def acceptance(self, p: Distribution, q: Distribution, k: int = 2) -> float:
        """All that is shared out. The best that any test can do with these pairs (Theorem 1 and `transport`)."""
        check_count("SpecHub", k, 2)
        s = share(p, q)
        return float(s.from_leading.sum() + s.from_following.sum()) + s.hub_leading + s.hub_following


def _part(share: float, whole: float) -> float:
    """share / whole; nothing of nothing."""
    return min(1.0, float(share / whole)) if whole > 0 else 0.0
