"""Lookahead decoding (2402.02057): a window of Jacobi guesses makes n-grams, a pool of them makes the guesses.

The window's columns stand for the next positions of the text; each forward pass puts one more level under them.
"""

import random
from collections.abc import Collection, Mapping, Sequence

from spectra.drafters.ngrams import ForwardDictionary
from spectra.guess import Guess, Source
from spectra.method import Outcome
from spectra.tree import ROOT, TokenTree


class Lookahead:
    """The drafter. window: W, columns. order: N, tokens of an n-gram with its key. guesses: G, n-grams a key keeps.

    rows: level by level. Level 0 is a spine under the last committed token, W - 1 long; that token and the spine's head
    the W columns. Level l of column j hangs under level l - 1 of it. The first N - 2 steps fill the levels: the spine
    starts N - 2 longer with tokens drawn from the prompt and loses one a step. banned: tokens that never enter the
    window or a guess (end of sequence).
    """

    def __init__(
        self, *, window: int = 15, order: int = 5, guesses: int = 15, banned: Collection[int] = (), seed: int = 0
    ) -> None:
        self.window = window
        self.order = order
        self.banned = banned
        self.pool = ForwardDictionary(guesses)
        self.rows: list[list[int]] = []
        self._usable: list[int] = []
        self._random = random.Random(seed)
        self._tickets: list[int] = []

    def begin(self, prompt: Sequence[int]) -> None:
        self._usable = [token for token in prompt if token not in self.banned]
        if self.window and self._usable:
            self.rows = [[self._random.choice(self._usable) for _ in range(self.window + self.order - 3)]]

    def grow(self, tree: TokenTree, tokens: Sequence[int]) -> None:
        """The window, then the n-grams known for the last token, newest first."""
        self._tickets = self._grow_window(tree) if self.rows else []
        for rank, run in enumerate(self.pool.get(tokens[-1])):
            tree.insert(Guess(run, Source.NGRAM, rank))

    def observe(self, tokens: Sequence[int], outcome: Outcome) -> None:
        """Each column learns its next level. A window that was not scored whole waits."""
        answers = [answer for ticket in self._tickets if (answer := outcome.read(ticket)) is not None]
        if not answers or len(answers) < len(self._tickets):
            return
        full = len(self.rows) == self.order - 1
        if full:
            for column, key in enumerate([outcome.tree.tokens[ROOT], *self.rows[0]]):
                run = [*(row[column] for row in self.rows[1:]), answers[column]]
                if answers[column] not in self.banned:
                    self.pool.put(key, run)
        new = [self._random.choice(self._usable) if answer in self.banned else answer for answer in answers]
        if full:  # the window moves one position forward: the first level becomes the spine
            first, *rest = [*self.rows[1:], new]
            self.rows = [first[1:], *rest]
        else:
            self.rows = [row[1:] for row in [*self.rows, new]]

    def held(self) -> Mapping[Source, int]:
        """N-grams of its pool."""
        return {Source.NGRAM: self.pool.size}

    def _grow_window(self, tree: TokenTree) -> list[int]:
        """Add the rows; returns the tickets of the columns' next levels."""
        spine, *levels = self.rows
        column = [ROOT]
        for token in spine:
            column.append(tree.add(column[-1], token, Source.POOL, eligible=False))
        for level in levels:
            column = [
                tree.add(node, token, Source.POOL, eligible=False) for node, token in zip(column, level, strict=True)
            ]
        return [tree.ask(node) for node in column]
