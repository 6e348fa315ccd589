"""A draft model as one more source of a tree: asked after the nodes where the other sources know little, while it pays.

Its guesses are ordinary ones, so the text stays plain decoding's token for token at any temperature.
"""

import time
from collections.abc import Collection, Sequence

import numpy as np
from numpy.typing import NDArray

from spectra.drafters.draft_model import Draft, DraftAnswer
from spectra.drafters.judge import Judge
from spectra.guess import Source
from spectra.method import Outcome
from spectra.settings import Sampling
from spectra.tree import ROOT, TokenTree

HIT = 0.3
"""Chance that its few tokens hold the target's, where those of the other sources do not: at the start of an answer."""
FIRST = 3.0
"""Questions that HIT counts for."""
LATELY = 0.98
"""Weight, a step later, of what questions brought."""
KEPT = 0.9
"""Weight of the earlier questions in the running mean of their time."""
GRADES = (0.7, 0.5, 0.3, 0.15, 0.08, 0.04, 0.02)
"""Lower ends of the grades of probability; the lowest grade is the last and one more."""


class Adviser:
    """The drafter. It comes last, for it asks after what the others grew.

    draft: the model. judge: the method's budget. step: seconds of a plain step of the target, against which the time of
    a question is weighed as it was measured so far. row: what a scored guess costs, in plain steps. tokens: the
    likeliest offered, and of those that the noise favours as many. depth: a node's, at which nothing is asked any more.
    """

    def __init__(
        self,
        draft: Draft,
        sampling: Sampling,
        judge: Judge,
        step: float,
        *,
        row: float = 0.0,
        tokens: int = 4,
        depth: int = 4,
        banned: Collection[int] = (),
    ) -> None:
        self._draft = draft
        self._sampling = sampling
        self._judge = judge
        self._step = step
        self._row = row
        self._tokens = tokens
        self._depth = depth
        self._banned = banned
        self._seconds = 0.0
        self._read = False
        self._hoped, self._brought = FIRST, FIRST * HIT  # of the tokens that nobody offered, and what came of them
        self._answer: DraftAnswer | None = None

    def begin(self, prompt: Sequence[int]) -> None:
        self._answer = self._draft.start(self._sampling)

    def grow(self, tree: TokenTree, tokens: Sequence[int]) -> None:
        path = [1.0]
        unknown = {ROOT: 1.0}  # the chance that the target gets to the node and then writes what nobody offers
        for node in range(1, len(tree)):
            path.append(self._weigh(tree, node, path, unknown))
        following = False
        hit = self._brought / self._hoped
        while unknown:
            node = max(unknown, key=unknown.__getitem__)
            if hit * unknown[node] * self._step <= self._seconds:
                return
            began = time.perf_counter()
            assert self._answer is not None
            if not following and not self._answer.follow(tokens, self._depth):
                return
            if not self._read:
                began = time.perf_counter()  # the prompt is read once and says nothing of the next question's time
            following = self._read = True
            (probabilities,) = self._answer.probabilities(tree, [node])
            self._book(time.perf_counter() - began)
            self._hoped += unknown[node]
            for token in self._choose(probabilities, tree, node):
                size = len(tree)
                child = tree.add(node, token, Source.DRAFT, rank=grade(float(probabilities[token])))
                if child == size:
                    path.append(self._weigh(tree, child, path, unknown))
            del unknown[node]

    def observe(self, tokens: Sequence[int], outcome: Outcome) -> None:
        """Learn what questions bring: its tokens that nobody else offered first, less its rows."""
        brought = sum(outcome.tree.sources[node][0] == Source.DRAFT for node in outcome.path)
        scored = sum(sources[0] == Source.DRAFT for sources in outcome.tree.sources)
        self._brought = FIRST * HIT + LATELY * (self._brought + brought - self._row * scored - FIRST * HIT)
        self._hoped = FIRST + LATELY * (self._hoped - FIRST)

    def end(self, tokens: Sequence[int]) -> None:
        """The model's KV cache goes; who asked may keep the method."""
        self._answer = None

    def _weigh(self, tree: TokenTree, node: int, path: Sequence[float], unknown: dict[int, float]) -> float:
        """The chance of the node's path; its parent's unknown part gets smaller by it."""
        parent = tree.parents[node]
        chance = path[parent] * self._judge.chance(tree, node) if tree.eligible[node] else 0.0
        if parent in unknown:
            unknown[parent] -= chance
        if chance and tree.depths[node] < self._depth:
            unknown[node] = chance
        return chance

    def _choose(self, probabilities: NDArray[np.float64], tree: TokenTree, node: int) -> list[int]:
        """The likeliest tokens and those of the largest probability over noise, each once."""
        count = min(self._tokens, len(probabilities) - 1)
        chosen = largest(probabilities, count)
        noise = tree.noise(tree.depths[node] + 1)
        if noise is not None:
            drawn = probabilities / np.maximum(np.asarray(noise)[: len(probabilities)], 1e-12)
            chosen += largest(drawn, count)
        return [token for token in dict.fromkeys(chosen) if token not in self._banned]

    def _book(self, seconds: float) -> None:
        self._seconds = KEPT * self._seconds + (1 - KEPT) * seconds if self._seconds else seconds


def largest(values: NDArray[np.float64], count: int) -> list[int]:
    """Where they stand, the largest first: for a few of many this is quicker than any sorting."""
    left, places = values.copy(), []
    for _ in range(count):
        places.append(int(left.argmax()))
        left[places[-1]] = -1.0
    return places


def grade(probability: float) -> int:
    """0 for the highest probabilities, 7 for the lowest."""
    return next((place for place, low in enumerate(GRADES) if probability >= low), len(GRADES))
