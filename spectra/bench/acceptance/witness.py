"""Looks on while the target writes its own answer: at every token its distribution p, the drafts' q, and what rules
would make of them. A method that guesses nothing; knows no files and no tables."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from spectra.bench.acceptance.masses import multistep, naive, spechub, transport, without_replacement
from spectra.budget import FixedBudget
from spectra.drafters.protocol import Outcome
from spectra.preset import Method, by_picks
from spectra.rules.draws import Distribution
from spectra.settings import Sampling
from spectra.target.protocol import Draft, DraftAnswer, Scored
from spectra.tree import ROOT, TokenTree

WIDTHS = range(1, 6)


class Witness:
    """A drafter without guesses. positions: what was seen at each token, see `look`."""

    def __init__(self, drafts: Sequence[Draft], sampling: Sampling) -> None:
        self.drafts, self.sampling = drafts, sampling
        self.positions: list[dict[str, Any]] = []
        self._answers: list[DraftAnswer] = []
        self._qs: list[Distribution] = []

    @property
    def method(self) -> Method:
        return Method("", [self], FixedBudget(0), 0, walk=self._walk)

    def begin(self, prompt: Sequence[int]) -> None:
        self._answers = [draft.start(self.sampling) for draft in self.drafts]

    def grow(self, tree: TokenTree, tokens: Sequence[int]) -> None:
        self._qs = [answer.laws(tree, [ROOT])[0] for answer in self._answers if answer.follow(tokens, 1)]

    def observe(self, tokens: Sequence[int], outcome: Outcome) -> None:
        """Nothing to learn."""

    def _walk(self, tree: TokenTree, scored: Scored) -> tuple[list[int], list[int]]:
        path, picked = by_picks(tree, scored)
        if len(self._qs) == len(self.drafts):
            p = None if self.sampling.greedy else scored.law(ROOT)
            self.positions.append(look(p, self._qs, picked[0]))
        return path, picked


def look(p: Distribution | None, qs: Sequence[Distribution], token: int) -> dict[str, Any]:
    """What is recorded of one position. p: None at temperature 0, where all that counts is the target's token.

    ranks: of that token in each q, 0 the likeliest. rrs, rrsw, spechub: (first draft accepted, second accepted, and the
    same given the token). transport: (OTM, OTMw) or None. mss, naive: by the number of drafts, (accepted, accepted
    given the token). both: by the number of drafts of each of two models, (mss, naive).
    """
    seen: dict[str, Any] = {"ranks": [int((q > q[token]).sum()) for q in qs]}
    if p is None:
        return seen
    most, first = WIDTHS[-1], qs[0]
    pairs = {"rrs": multistep(p, [first] * 2), "rrsw": without_replacement(p, first), "spechub": spechub(p, first)}
    for name, masses in pairs.items():
        seen[name] = _short([*masses.sum(1), *masses[:, token] / p[token]])
    seen["transport"] = transport(p, first)
    for name, rule in (("mss", multistep), ("naive", naive)):
        masses = rule(p, [first] * most)
        seen[name] = [
            _short(row) for row in zip(masses.sum(1).cumsum(), (masses[:, token] / p[token]).cumsum(), strict=True)
        ]
    if len(qs) > 1:
        lists = [[q for q in qs for _ in range(width)] for width in WIDTHS]
        seen["both"] = [_short([multistep(p, many).sum(), naive(p, many).sum()]) for many in lists]
    return seen


def _short(values: Sequence[float]) -> list[float]:
    """Rounded for the file; chances stay between 0 and 1."""
    return [round(float(value), 5) for value in np.clip(values, 0.0, 1.0)]
