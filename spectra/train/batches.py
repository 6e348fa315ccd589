"""Conversations of like length in batches, without end: in an epoch each once, in an order that seed and epoch give."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from spectra.train.conversations import Conversations

JITTER = 0.2
"""How much lengths are shaken, as a share, so that neighbours differ from epoch to epoch."""


@dataclass
class Batches:
    """rows: which conversations; budget: tokens a batch, padding included; length: where a conversation is cut."""

    conversations: Conversations
    rows: NDArray[np.int64]
    budget: int
    length: int
    seed: int
    _first: int = field(default=0, init=False)
    _epoch: int = field(default=-1, init=False)
    _plan: list[NDArray[np.int64]] = field(default_factory=list, init=False)

    def __getitem__(self, number: int) -> NDArray[np.int64]:
        """The conversations of batch `number`, which is the same whatever was asked for before."""
        if number < self._first:
            self._first, self._epoch, self._plan = 0, -1, []
        while number >= self._first + len(self._plan):
            self._first += len(self._plan)
            self._epoch += 1
            self._plan = self._planned(self._epoch)
        return self._plan[number - self._first]

    def _planned(self, epoch: int) -> list[NDArray[np.int64]]:
        draw = np.random.default_rng([self.seed, epoch])
        lengths = np.minimum(self.conversations.lengths[self.rows], self.length)
        order = np.argsort(-lengths * (1 + JITTER * draw.random(len(lengths))), kind="stable")
        plan, begin, widest = [], 0, 0
        for end, row in enumerate(order):
            wider = max(widest, int(lengths[row]))
            if end > begin and wider * (end + 1 - begin) > self.budget:
                plan.append(self.rows[order[begin:end]])
                begin, wider = end, int(lengths[row])
            widest = wider
        plan.append(self.rows[order[begin:]])
        draw.shuffle(plan)  # type: ignore[arg-type]
        return plan


def padded(conversations: Conversations, rows: NDArray[np.int64], length: int) -> NDArray[np.int64]:
    """[rows, longest] token ids, zeros behind the shorter ones (causal attention never looks there)."""
    found = [conversations.ids(int(row), length) for row in rows]
    ids = np.zeros((len(found), max(map(len, found))), np.int64)
    for line, one in zip(ids, found, strict=True):
        line[: len(one)] = one
    return ids
