"""A vLLM of ints: rows of a shared array without names, moved at random; chunked prompts, cancellations, preemptions.

What a request says is a function of its number and the position, in tokens that no other request has.
"""

import random
from dataclasses import dataclass, field

import numpy as np

SYSTEM = list(range(40))
"""What every prompt starts with."""
OWN = 1000
"""Tokens of request r are [OWN * (r + 1), OWN * (r + 2))."""


@dataclass(eq=False)
class Served:
    number: int
    prompt: list[int]
    length: int
    tokens: list[int] = field(default_factory=list)
    read: int = 0
    draft: list[int] = field(default_factory=list)

    @property
    def answer(self) -> list[int]:
        return self.tokens[len(self.prompt) :]


def said(number: int, position: int) -> int:
    """A pattern that comes again, with a word out of the way now and then."""
    dice = random.Random(f"{number} {position}")
    place = dice.randrange(7, 60) if dice.random() < 0.1 else position % (5 + number % 9)
    return OWN * (number + 1) + place


def request(number: int, dice: random.Random, length: int) -> Served:
    prompt = SYSTEM + [OWN * (number + 1) + dice.randrange(60) for _ in range(dice.randrange(1, 30))]
    return Served(number, prompt, length, list(prompt))


@dataclass
class Engine:
    """propose: what is tested. Each `step` is a forward pass of all rows, then a call of it."""

    propose: object
    size: int = 8
    longest: int = 256
    chunk: int = 24
    seed: int = 0
    waiting: list[Served] = field(default_factory=list)
    rows: list[Served] = field(default_factory=list)
    done: list[Served] = field(default_factory=list)
    drafts: list[tuple[Served, list[int]]] = field(default_factory=list)
    accepted: int = 0
    preempted: int = 0

    def __post_init__(self) -> None:
        self.dice = random.Random(self.seed)
        self.ids = np.zeros((self.size, self.longest), np.int32)

    def step(self, *, preempt: float = 0.0, cancel: float = 0.0) -> None:
        while self.waiting and len(self.rows) < self.size:
            self.rows.append(self.waiting.pop(0))
        if self.rows and self.dice.random() < cancel:
            self.rows.pop(self.dice.randrange(len(self.rows)))
        if len(self.rows) > 1 and self.dice.random() < preempt:
            victim = self.rows.pop(self.dice.randrange(len(self.rows)))
            victim.read, victim.draft = 0, []  # its text is read again from the start when there is room
            self.waiting.insert(0, victim)
            self.preempted += 1
        self.dice.shuffle(self.rows)
        sampled = [self._forward(row) for row in self.rows]
        for place, row in enumerate(self.rows):
            self.ids[place] = 7  # whatever stood there before
            self.ids[place, : len(row.tokens)] = row.tokens
        lengths = np.array([len(row.tokens) for row in self.rows], np.int32)
        proposed = self.propose(sampled, lengths, self.ids)
        assert len(proposed) == len(self.rows)
        for row, draft in zip(self.rows, proposed, strict=True):
            row.draft = draft
            self.drafts.append((row, draft))
        finished = [row for row in self.rows if len(row.answer) >= row.length or len(row.tokens) >= self.longest]
        self.done += finished
        self.rows = [row for row in self.rows if row not in finished]

    def _forward(self, row: Served) -> list[int]:
        """Tokens that the pass adds to the row: nothing while its text is read, else what was guessed right and one."""
        if row.read < len(row.tokens) - 1:
            row.read = min(len(row.tokens), row.read + self.chunk)
            if row.read < len(row.tokens):
                return []
        new: list[int] = []
        for guess in [*row.draft, None]:
            new.append(said(row.number, len(row.tokens) + len(new)))
            if guess != new[-1]:
                break
        new = new[: self.longest - len(row.tokens)]
        self.accepted += len(new) - 1
        row.tokens += new
        row.read = len(row.tokens)
        return new
