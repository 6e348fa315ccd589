"""A suffix automaton over prompt and output: guess what followed the longest earlier match of the text's end.

The idea is SAM decoding's (2411.10666); the automaton is Blumer et al.'s (1985). The longer the match, the longer the
guess.
"""

from collections.abc import Collection, Iterator, Sequence
from itertools import islice

from spectra.guess import Source
from spectra.method import Outcome
from spectra.tree import ROOT, TokenTree

MAX_MATCHES = 32
"""How many matches, the longest first, are looked at and kept up to date: only looping text has more."""
FIRST_CLASS, MANY = 10, 4
"""Classes of confidence: the more different tokens have followed the last one, the less likely it is the one copied."""


class SuffixAutomaton:
    """The drafter: for each of the `ranks` longest matches that go on differently, what followed its newest occurrence.

    The text is read when a guess is asked for.

    depth: the longest guess; a match of n tokens gives at most n + 1. banned: tokens that are never guessed.
    """

    def __init__(self, *, ranks: int = 1, depth: int = 16, banned: Collection[int] = ()) -> None:
        self.ranks = ranks
        self.depth = depth
        self.banned = banned
        self.automaton = Automaton()

    def begin(self, prompt: Sequence[int]) -> None:
        """Forget another text. The new one is read when guesses are asked for."""
        self.automaton = Automaton()

    def grow(self, tree: TokenTree, tokens: Sequence[int]) -> None:
        for token in tokens[self.automaton.size :]:
            self.automaton.push(token)
        offered: set[int] = set()
        for match, at in islice(self.automaton.matches(), MAX_MATCHES):
            first = tokens[at]
            if first in offered or first in self.banned:
                continue
            node, before, rank = ROOT, tokens[-1], len(offered)
            for token in copied(tokens, at, min(match + 1, self.depth), self.banned):
                confidence = copy_class(self.automaton.followers(before))
                node = tree.add(node, token, Source.AUTOMATON, rank=rank, match=match, confidence=confidence)
                before = token
            offered.add(first)
            if len(offered) == self.ranks:
                return

    def observe(self, tokens: Sequence[int], outcome: Outcome) -> None:
        """Nothing yet."""


def copied(tokens: Sequence[int], at: int, length: int, banned: Collection[int]) -> list[int]:
    """`length` tokens from `at`, up to a banned one. Past the end of the text the run goes on with itself."""
    run: list[int] = []
    for place in range(at, at + length):
        token = tokens[place] if place < len(tokens) else run[place - len(tokens)]
        if token in banned:
            break
        run.append(token)
    return run


def copy_class(followers: int) -> int:
    """The confidence of a copied token. followers: how many different ones have followed the token before it."""
    return FIRST_CLASS + min(followers, MANY) - 1


class Automaton:
    """Every substring of a text, built token by token in amortised constant time. A state is a set of substrings that
    end at the same places; state 0 is the empty one.

    Columns, one entry a state: `_next` (token -> state), `_link` (state of the longest suffix that ends at more
    places), `_length` (of its longest substring), `_end` (the newest known place of its last token).
    """

    def __init__(self) -> None:
        self.size = 0
        self._next: list[dict[int, int]] = [{}]
        self._link = [-1]
        self._length = [0]
        self._end = [-1]
        self._last = 0

    def push(self, token: int) -> None:
        """Add a token to the end of the text."""
        for state in islice(self._suffixes(self._last), MAX_MATCHES):
            self._end[state] = self.size - 1
        state = self._add(self._length[self._last] + 1, self.size, {})
        at = self._last
        while at >= 0 and token not in self._next[at]:
            self._next[at][token] = state
            at = self._link[at]
        if at >= 0:
            self._link[state] = self._split(at, token)
        self._last = state
        self.size += 1

    def matches(self) -> Iterator[tuple[int, int]]:
        """(length, place after it) of the newest earlier occurrence of each suffix that has one, longest first.

        Suffixes with the same occurrences count once, as the longest of them.
        """
        for state in self._suffixes(self._link[self._last]):
            yield self._length[state], self._end[state] + 1

    def followers(self, token: int) -> int:
        """How many different tokens have followed one of the text."""
        return len(self._next[self._next[0][token]])

    def _suffixes(self, state: int) -> Iterator[int]:
        """The state and its links, the empty state left out."""
        while state > 0:
            yield state
            state = self._link[state]

    def _split(self, at: int, token: int) -> int:
        """The state of the longest substring of `at` followed by `token`, made a state of its own where it is none."""
        known = self._next[at][token]
        length = self._length[at] + 1
        if self._length[known] == length:
            return known
        clone = self._add(length, self._end[known], dict(self._next[known]), self._link[known])
        while at >= 0 and self._next[at].get(token) == known:
            self._next[at][token] = clone
            at = self._link[at]
        self._link[known] = clone
        return clone

    def _add(self, length: int, end: int, follow: dict[int, int], link: int = 0) -> int:
        self._next.append(follow)
        self._link.append(link)
        self._length.append(length)
        self._end.append(end)
        return len(self._next) - 1
