"""How often each rule accepts what, exactly: the chance that the i-th draft is the one accepted and is token x.

Summed over x it is the acceptance of the i-th draft; over p(x) it is the chance that an x that was written was one of
the drafts. No draws: what a table says depends on p and q alone.
"""

from collections.abc import Sequence

import numpy as np

from spectra.rules.chain import residual
from spectra.rules.draws import Distribution
from spectra.rules.spechub import share
from spectra.rules.transport import Transport

SMALL = 48
"""Most tokens of a linear program."""


def multistep(p: Distribution, qs: Sequence[Distribution]) -> Distribution:
    """[drafts, V] of multi-step sampling, one draft from each q; of RRS where all are the same."""
    rows, reached = [], 1.0
    for q in qs:
        row = np.minimum(p, q)
        rows.append(reached * row)
        reached *= max(0.0, 1.0 - float(row.sum()))
        p = residual(p, q)
    return np.array(rows)


def without_replacement(p: Distribution, q: Distribution) -> Distribution:
    """[2, V] of RRSw with two drafts, in time V log V.

    A rejected y leaves the second draft q(x) / (1 - q(y)), of which min with the residual is accepted: the smaller one
    is found for all y at once, in the order of q(y).
    """
    first, rejected, rest = np.minimum(p, q), np.maximum(q - p, 0.0), residual(p, q)
    drawn = np.flatnonzero(rejected)
    if not len(drawn):
        return np.array([first, np.zeros_like(p)])
    if q.max() >= 1.0:  # the second draft is any other token, all alike
        return np.array([first, rejected.sum() * np.minimum(rest, 1.0 / (len(q) - 1)) * (q < 1.0)])
    drawn = drawn[np.argsort(q[drawn])]
    scale, mass = 1.0 / (1.0 - q[drawn]), rejected[drawn]
    scaled = np.concatenate([[0.0], np.cumsum(mass * scale)])
    whole = np.concatenate([[0.0], np.cumsum(mass)])
    ratio = np.divide(rest, q, out=np.full_like(q, np.inf), where=q > 0)
    below = scale.searchsorted(ratio)
    return np.array([first, q * scaled[below] + rest * (whole[-1] - whole[below])])


def spechub(p: Distribution, q: Distribution) -> Distribution:
    """[2, V] of SpecHub."""
    s = share(p, q)
    first, second = s.from_leading.copy(), s.from_following.copy()
    first[s.hub], second[s.hub] = s.hub_leading, s.hub_following
    return np.array([first, second])


def naive(p: Distribution, qs: Sequence[Distribution]) -> Distribution:
    """[drafts, V] of naive sampling: the target's draw is the i-th draft and none before it."""
    rows, missed = [], p
    for q in qs:
        rows.append(missed * q)
        missed = missed * (1.0 - q)
    return np.array(rows)


def transport(p: Distribution, q: Distribution) -> tuple[float, float] | None:
    """(OTM, OTMw): the chance that any of two drafts is accepted, at best. None where the tokens are too many."""
    kept = np.flatnonzero((p > 0) | (q > 0))
    if not 1 < len(kept) <= SMALL:
        return None
    return Transport(replace=True).acceptance(p[kept], q[kept]), Transport(replace=False).acceptance(p[kept], q[kept])
