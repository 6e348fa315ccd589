"""SPECTRA's candidate pool: W rows of tokens that ride along in each forward pass and move one token forward.

The rows are a source of n-grams. They never ask for a forward pass of their own, and unless `eligible` is set they are
never accepted either. Does not know the dictionaries that it feeds.
"""

import random
from collections.abc import Collection, Sequence

from spectra.guess import Source
from spectra.tree import ROOT, TokenTree


class CandidatePool:
    """`rows` rows of `width` known tokens (paper: W and N - 1).

    start: "random" draws tokens from the prompt, "windows" takes consecutive ones. layout: "rows" hangs each row under
    the last committed token, "columns" makes Lookahead's window (the first tokens of all rows form a spine).
    banned: tokens that never enter a row (end of sequence).
    """

    def __init__(
        self,
        rows: int,
        width: int,
        *,
        start: str = "random",
        layout: str = "rows",
        eligible: bool = False,
        banned: Collection[int] = (),
        seed: int = 0,
    ) -> None:
        self.size = rows
        self.width = width
        self.start = start
        self.layout = layout
        self.eligible = eligible
        self.banned = banned
        self.rows: list[list[int]] = []
        self.predicted: list[int] = []
        """How many tokens at the end of each row the model itself predicted."""
        self._random = random.Random(seed)
        self.tickets: list[int] = []
        """This step's questions to the target, one a row."""

    def begin(self, prompt: Sequence[int]) -> None:
        """Fill the rows from the prompt."""
        usable = [token for token in prompt if token not in self.banned]
        if not usable:
            self.size = 0
        self.rows = []
        for _ in range(self.size):
            if self.start == "windows":
                at = self._random.randrange(max(1, len(usable) - self.width + 1))
                row = [usable[(at + i) % len(usable)] for i in range(self.width)]
            else:
                row = [self._random.choice(usable) for _ in range(self.width)]
            self.rows.append(row)
        self.predicted = [0] * self.size

    def grow(self, tree: TokenTree, refine: Sequence[bool], seen: Collection[int]) -> None:
        """Add the rows. refine: for each row, whether its prediction must be a token outside `seen`."""
        self.tickets = []
        above = ROOT
        for row, novel in zip(self.rows, refine, strict=True):
            node = above if self.layout == "columns" else ROOT
            for depth, token in enumerate(row):
                node = tree.add(node, token, Source.POOL, eligible=self.eligible)
                if depth == 0:
                    above = node
            self.tickets.append(tree.ask(node, seen if novel else ()))

    def advance(self, predictions: Sequence[int | None]) -> list[tuple[list[int], int]]:
        """Shift every row left by one. Returns what was learned: (row with its new token, predicted tokens in it)."""
        learned = []
        for i, token in enumerate(predictions):
            if token is None:  # the row was not scored
                continue
            row = self.rows[i]
            known = min(self.predicted[i] + 1, self.width)
            learned.append(([*row, token], known))
            if token in self.banned:  # the row goes on from a token of its own instead
                token = self._random.choice(row)
                known = 0
            self.rows[i] = [*row[1:], token]
            self.predicted[i] = known
        return learned
