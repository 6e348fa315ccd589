"""Optimal transport with membership cost (SpecTr, 2310.15141): the best that two drafts allow; SpecHub's OTM and OTMw.

A linear program: every set of drafts sends its mass to its own tokens, no token takes more than p. Flow to tokens
outside the set costs 1 whatever it is, so it need not be in the program (SpecHub, Theorem 1). The size is V squared:
for small vocabularies and as a yardstick. Needs scipy.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from spectra.errors import SpectraError
from spectra.verify.rules.draws import Distribution, Tokens, normalised, without
from spectra.verify.rules.multistep import MultiStep, WithoutReplacement
from spectra.verify.rules.protocol import Verdict, check_count

TOLERANCES = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}


@dataclass(frozen=True, slots=True)
class Flow:
    """A solved program. taken[x, y]: how much of the mass of the drafts {x, y} goes to x. pairs[x, y]: that mass."""

    taken: Distribution
    pairs: Distribution

    @property
    def value(self) -> float:
        """The chance that a draft is accepted."""
        return float(self.taken.sum())

    @property
    def inflow(self) -> Distribution:
        """[V]: how much each token takes in all."""
        return np.asarray(self.taken.sum(axis=1))


def solve(p: Distribution, joint: Distribution) -> Flow:
    """The best flow for p [V] and the drafts' joint distribution [V, V]. Raises SpectraError without scipy."""
    linprog, coo_array = _scipy()
    size = len(p)
    pairs = joint + joint.T
    np.fill_diagonal(pairs, np.diag(joint))
    x, y = np.nonzero(pairs)  # one variable for each (x, y): what {x, y} gives to x
    sets, which = np.unique(np.minimum(x, y) * size + np.maximum(x, y), return_inverse=True)
    variables = np.arange(len(x))
    rows = np.concatenate([which, len(sets) + x])
    limits = coo_array((np.ones(2 * len(x)), (rows, np.tile(variables, 2))), shape=(len(sets) + size, len(x)))
    bounds = np.concatenate([pairs[sets // size, sets % size], p])
    found = linprog(-np.ones(len(x)), A_ub=limits.tocsr(), b_ub=bounds, method="highs", options=TOLERANCES)
    if found.x is None:
        raise ArithmeticError(f"the linear program was not solved: {found.message}")
    taken = np.zeros((size, size))
    taken[x, y] = np.maximum(found.x, 0.0)
    return Flow(taken, pairs)


class Transport:
    """OTM (drafts with replacement) or OTMw (without); two drafts."""

    def __init__(self, *, replace: bool) -> None:
        self.replace = replace

    def joint(self, q: Distribution) -> Distribution:
        """[V, V]: the chance of each ordered pair of drafts."""
        if self.replace:
            return np.asarray(np.outer(q, q))
        return np.asarray(q[:, None] * without(q, np.arange(len(q))[:, None]))

    def draft(self, q: Distribution, k: int, generator: np.random.Generator, rows: int = 1) -> Tokens:
        check_count("optimal transport", k, 2)
        drawn = MultiStep() if self.replace else WithoutReplacement()
        return drawn.draft(q, k, generator, rows)

    def verdict(self, p: Distribution, qs: Sequence[Distribution], tokens: Sequence[int]) -> Verdict:
        """Solves the whole program for the one pair: a yardstick, not for decoding."""
        check_count("optimal transport", len(tokens), 2)
        flow = solve(p, self.joint(qs[0]))
        first, second = tokens
        mass = flow.pairs[first, second]
        ways = [(first, second)] if first == second else [(first, second), (second, first)]
        chances = [float(flow.taken[way] / mass) if mass > 0 else 0.0 for way in ways] + [0.0]
        return Verdict(tuple(chances[:2]), normalised(np.maximum(p - flow.inflow, 0.0), p))

    def acceptance(self, p: Distribution, q: Distribution, k: int = 2) -> float:
        check_count("optimal transport", k, 2)
        return solve(p, self.joint(q)).value


def _scipy() -> tuple[Any, Any]:
    """(linprog, coo_array), imported when they are needed."""
    try:
        from scipy.optimize import linprog
        from scipy.sparse import coo_array
    except ImportError:
        raise SpectraError("scipy", "optimal transport needs it and it is not installed; pip install scipy") from None
    return linprog, coo_array
