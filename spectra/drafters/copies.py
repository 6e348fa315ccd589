"""Copies of long repeats: what followed the places where the text's last three tokens stood before.

For batches: between two steps the weights of the model pass through every cache of the CPU, so what counts is how much
memory a guess reads. This index takes half the time of a suffix automaton there, and finds nearly the same.
"""

from collections import defaultdict
from collections.abc import Collection, Sequence

from spectra.drafters.automaton import copied, copy_class
from spectra.drafters.judge import Path, StrictJudge
from spectra.guess import Source
from spectra.method import Outcome
from spectra.tree import ROOT, TokenTree

RUN = 3
"""Tokens that must repeat: shorter matches are continued rightly less than half of the time."""
PLACES = 4
"""How many of the newest places are compared."""


class Copies:
    """The drafter: one chain, what followed the longest match among the newest places.

    depth: of the chain, at most; a match of n tokens gives at most n + 1. banned: tokens that are never guessed.
    judge: the chain ends at the first node that does not pay by it.
    """

    def __init__(self, *, depth: int = 12, banned: Collection[int] = (), judge: StrictJudge | None = None) -> None:
        self._depth = depth
        self._banned = banned
        self._judge = judge
        self.begin(())

    def begin(self, prompt: Sequence[int]) -> None:
        """Forget another text. The new one is read when guesses are asked for."""
        self._newest: dict[tuple[int, int, int], int] = {}
        """Where a run stood last: the place of its last token."""
        self._earlier: list[int] = []
        """By place: where the run that ends there stood before, -1 for nowhere."""
        self._followers: defaultdict[int, set[int]] = defaultdict(set)

    def grow(self, tree: TokenTree, tokens: Sequence[int]) -> None:
        place = self._read(tokens)
        if place < 0:
            return
        match, at = 0, 0
        for _ in range(PLACES):
            length = self._match(tokens, place)
            if length > match:
                match, at = length, place + 1
            place = self._earlier[place]
            if place < 0:
                break
        node, before, path = ROOT, tokens[-1], Path(self._judge)
        for token in copied(tokens, at, min(match + 1, self._depth), self._banned):
            confidence = copy_class(len(self._followers[before]))
            node = tree.add(node, token, Source.AUTOMATON, match=match, confidence=confidence)
            if not path.pays(tree, node):
                return
            before = token

    def observe(self, tokens: Sequence[int], outcome: Outcome) -> None:
        """Nothing yet."""

    def _read(self, tokens: Sequence[int]) -> int:
        """Take what is new of the text. Returns where its last run stood before, -1 for nowhere."""
        newest, earlier = self._newest, self._earlier
        for place in range(len(earlier), len(tokens)):
            before = -1
            if place:
                self._followers[tokens[place - 1]].add(tokens[place])
            if place >= RUN - 1:
                run = tokens[place - 2], tokens[place - 1], tokens[place]
                before = newest.get(run, -1)
                newest[run] = place
            earlier.append(before)
        return earlier[-1]

    def _match(self, tokens: Sequence[int], place: int) -> int:
        """How many tokens up to this place are those at the end of the text, as far as it matters."""
        most, length = min(self._depth, place + 1), RUN
        while length < most and tokens[place - length] == tokens[-1 - length]:
            length += 1
        return length
