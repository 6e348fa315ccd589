"""Looks on while the target writes its own answer: at every token its distribution p, the drafts' q, and what rules
would make of them.

What a rule accepts is computed exactly: the chance that the i-th draft is the one accepted and is token x. Summed over
x it is the acceptance of the i-th draft; over p(x) it is the chance that an x that was written was one of the drafts.
Nothing is drawn: what a table says depends on p and q alone. Knows no files and no tables.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from spectra.budget.policy import FixedBudget
from spectra.drafters.draft_model import Draft, DraftAnswer
from spectra.method import Method, Outcome, Scored, walk_picks
from spectra.settings import Sampling
from spectra.tree import ROOT, TokenTree
from spectra.verify.rules.chain import residual
from spectra.verify.rules.draws import Distribution
from spectra.verify.rules.spechub import share
from spectra.verify.rules.transport import Transport

WIDTHS = range(1, 6)
"""Drafts of one model beside each other."""
SMALL = 48
"""Most tokens of a linear program."""

Position = dict[str, Any]
"""What was seen of one token, see `look`."""


class Observer:
    """A drafter without guesses, and the method that it is all of. positions: one for each token."""

    def __init__(self, drafts: Sequence[Draft], sampling: Sampling) -> None:
        self.drafts = drafts
        self.sampling = sampling
        self.positions: list[Position] = []
        self._answers: list[DraftAnswer] = []
        self._qs: list[Distribution] = []

    @property
    def method(self) -> Method:
        return Method("observer", [self], FixedBudget(0), 0, self._walk)

    def begin(self, prompt: Sequence[int]) -> None:
        self._answers = [draft.start(self.sampling) for draft in self.drafts]

    def grow(self, tree: TokenTree, tokens: Sequence[int]) -> None:
        self._qs = [answer.probabilities(tree, [ROOT])[0] for answer in self._answers if answer.follow(tokens, 1)]

    def observe(self, tokens: Sequence[int], outcome: Outcome) -> None:
        """Nothing to learn."""

    def _walk(self, tree: TokenTree, scored: Scored) -> tuple[list[int], list[int]]:
        path, picked = walk_picks(tree, scored)
        if len(self._qs) == len(self.drafts):
            p = None if self.sampling.greedy else scored.probabilities(ROOT)
            self.positions.append(look(p, self._qs, picked[0]))
        return path, picked


def look(p: Distribution | None, qs: Sequence[Distribution], token: int) -> Position:
    """What is recorded of one position. p: None at temperature 0, where all that counts is the target's token.

    ranks: of that token in each q, 0 the likeliest. rrs, rrsw, spechub: (first draft accepted, second accepted, and the
    same given the token). transport: (OTM, OTMw) or None. mss, naive: by the number of drafts, (accepted, accepted
    given the token). both: by the number of drafts of each of two models, (mss, naive).
    """
    seen: Position = {"ranks": [int((q > q[token]).sum()) for q in qs]}
    if p is None:
        return seen
    first = qs[0]
    pairs = {"rrs": multistep(p, [first] * 2), "rrsw": without_replacement(p, first), "spechub": spechub(p, first)}
    for name, masses in pairs.items():
        seen[name] = _short([*masses.sum(1), *masses[:, token] / p[token]])
    seen["transport"] = transport(p, first)
    for name, rule in (("mss", multistep), ("naive", naive)):
        masses = rule(p, [first] * WIDTHS[-1])
        accepted = masses.sum(1).cumsum()
        given = (masses[:, token] / p[token]).cumsum()
        seen[name] = [_short(pair) for pair in zip(accepted, given, strict=True)]
    if len(qs) > 1:
        lists = [[q for q in qs for _ in range(width)] for width in WIDTHS]
        seen["both"] = [_short([multistep(p, many).sum(), naive(p, many).sum()]) for many in lists]
    return seen


def _short(values: Sequence[float]) -> list[float]:
    """Rounded for the file; chances stay between 0 and 1."""
    return [round(float(value), 5) for value in np.clip(values, 0.0, 1.0)]


def multistep(p: Distribution, qs: Sequence[Distribution]) -> Distribution:
    """[drafts, V] of multi-step sampling, one draft from each q; of RRS where all are the same."""
    rows = []
    reached = 1.0
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
    first = np.minimum(p, q)
    rejected = np.maximum(q - p, 0.0)
    rest = residual(p, q)
    drawn = np.flatnonzero(rejected)
    if not len(drawn):
        return np.array([first, np.zeros_like(p)])
    if q.max() >= 1.0:  # the second draft is any other token, all alike
        return np.array([first, rejected.sum() * np.minimum(rest, 1.0 / (len(q) - 1)) * (q < 1.0)])
    drawn = drawn[np.argsort(q[drawn])]
    scale = 1.0 / (1.0 - q[drawn])
    mass = rejected[drawn]
    scaled = np.concatenate([[0.0], np.cumsum(mass * scale)])
    whole = np.concatenate([[0.0], np.cumsum(mass)])
    ratio = np.divide(rest, q, out=np.full_like(q, np.inf), where=q > 0)
    below = scale.searchsorted(ratio)
    return np.array([first, q * scaled[below] + rest * (whole[-1] - whole[below])])


def spechub(p: Distribution, q: Distribution) -> Distribution:
    """[2, V] of SpecHub."""
    s = share(p, q)
    first = s.from_leading.copy()
    second = s.from_following.copy()
    first[s.hub] = s.hub_leading
    second[s.hub] = s.hub_following
    return np.array([first, second])


def naive(p: Distribution, qs: Sequence[Distribution]) -> Distribution:
    """[drafts, V] of naive sampling: the target's draw is the i-th draft and none before it."""
    rows = []
    missed = p
    for q in qs:
        rows.append(missed * q)
        missed = missed * (1.0 - q)
    return np.array(rows)


class Bounds(NamedTuple):
    """The chance that any of two drafts is accepted, at best: drawn with replacement (OTM) and without (OTMw)."""

    otm: float
    otmw: float


def transport(p: Distribution, q: Distribution) -> Bounds | None:
    """None where the tokens are too many."""
    kept = np.flatnonzero((p > 0) | (q > 0))
    if not 1 < len(kept) <= SMALL:
        return None
    with_replacement = Transport(replace=True).acceptance(p[kept], q[kept])
    return Bounds(with_replacement, Transport(replace=False).acceptance(p[kept], q[kept]))
