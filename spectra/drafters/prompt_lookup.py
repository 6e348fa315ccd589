"""Prompt lookup (Saxena 2023; Yang et al. 2304.04487): copy what followed the newest earlier match of the text's end.

The text is prompt and output. Every n-gram's place is kept in a dictionary, so a lookup does not scan the text.
"""

from collections.abc import Collection, Sequence

from spectra.guess import Guess, Source
from spectra.method import Outcome
from spectra.tree import TokenTree


class PromptLookup:
    """The drafter. order: tokens of the longest match, a miss backs off to shorter ones, down to one.

    length: the most tokens copied. banned: tokens that are never guessed (end of sequence).
    """

    def __init__(self, *, order: int = 3, length: int = 10, banned: Collection[int] = ()) -> None:
        self.order = order
        self.length = length
        self.banned = banned
        self._after: dict[tuple[int, ...], int] = {}
        """n-gram -> the place after its newest occurrence; one that ends the text has none yet."""

    def begin(self, prompt: Sequence[int]) -> None:
        self._learn(prompt, len(prompt))

    def grow(self, tree: TokenTree, tokens: Sequence[int]) -> None:
        for match in range(min(self.order, len(tokens)), 0, -1):
            at = self._after.get(tuple(tokens[-match:]))
            if at is not None:
                run = tokens[at : at + self.length]
                stop = next((i for i, token in enumerate(run) if token in self.banned), len(run))
                if stop:
                    tree.insert(Guess(tuple(run[:stop]), Source.NGRAM, match=match))
                return

    def observe(self, tokens: Sequence[int], outcome: Outcome) -> None:
        self._learn(tokens, len(outcome.emitted))

    def _learn(self, tokens: Sequence[int], new: int) -> None:
        """Note the n-grams that are followed by one of the last `new` tokens."""
        for end in range(max(1, len(tokens) - new), len(tokens)):
            for start in range(max(0, end - self.order), end):
                self._after[tuple(tokens[start:end])] = end
