"""Adaptive n-gram parallel decoding (2404.08698): a chain of the most frequent continuations in prompt and output.

Adaptive: the counts grow with each accepted token. It guesses one continuation, never several.
"""

from collections.abc import Collection, Mapping, Sequence

from spectra.guess import Source
from spectra.method import Outcome
from spectra.tree import ROOT, TokenTree


class Anpd:
    """The drafter. order: N, so the longest context has N - 1 tokens; a miss backs off to shorter ones, down to one.

    length: K, tokens of the chain. banned: tokens that are never guessed (end of sequence).
    """

    def __init__(self, *, order: int = 5, length: int = 5, banned: Collection[int] = ()) -> None:
        self.order = order
        self.length = length
        self.banned = banned
        self._count: dict[tuple[int, ...], int] = {}
        self._best: dict[tuple[int, ...], tuple[int, int]] = {}
        """context -> (its most frequent continuation, its count); of equally frequent ones the newest."""

    def begin(self, prompt: Sequence[int]) -> None:
        self._learn(prompt, len(prompt))

    def grow(self, tree: TokenTree, tokens: Sequence[int]) -> None:
        context = list(tokens[-(self.order - 1) :])
        node = ROOT
        for _ in range(self.length):
            found = self._find(context)
            if found is None or found[0] in self.banned:
                return
            token, match = found
            node = tree.add(node, token, Source.NGRAM, match=match)
            context.append(token)

    def observe(self, tokens: Sequence[int], outcome: Outcome) -> None:
        self._learn(tokens, len(outcome.emitted))

    def held(self) -> Mapping[Source, int]:
        """Contexts of known continuation."""
        return {Source.NGRAM: len(self._best)}

    def _learn(self, tokens: Sequence[int], new: int) -> None:
        """Count the n-grams that end in the last `new` tokens."""
        for end in range(max(1, len(tokens) - new), len(tokens)):
            token = tokens[end]
            for start in range(max(0, end + 1 - self.order), end):
                context = tuple(tokens[start:end])
                count = self._count[*context, token] = self._count.get((*context, token), 0) + 1
                if count >= self._best.get(context, (token, 0))[1]:
                    self._best[context] = token, count

    def _find(self, context: Sequence[int]) -> tuple[int, int] | None:
        """(continuation, matched length) of the longest known context; None on a miss."""
        for match in range(min(self.order - 1, len(context)), 0, -1):
            best = self._best.get(tuple(context[-match:]))
            if best is not None:
                return best[0], match
        return None
