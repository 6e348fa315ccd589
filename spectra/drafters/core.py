"""SPECTRA-CORE (paper 4.1, Algorithm 1): both dictionaries, fed by the candidate pool.

Every place where the paper leaves a choice is a setting; `CoreSettings()` is the paper's, `IMPROVED` is ours.
"""

import random
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from spectra.drafters.ngrams import BackwardDictionary, ForwardDictionary
from spectra.drafters.pool import CandidatePool
from spectra.guess import Guess, Source
from spectra.inside import Inside, Learned
from spectra.method import Outcome
from spectra.tree import ROOT, TokenTree


@dataclass(frozen=True, slots=True)
class CoreSettings:
    """order: N. rows: W. guesses: G, the most guesses a step (None: the budget decides). refine: see `_refine`.

    refine_unseen: with probability `refine` a row must predict a token that is no key of the forward dictionary
    (False: with the complement). pool_start, layout, pool_eligible: see `CandidatePool`. only_predicted: an n-gram is
    stored only when the model predicted every token after its key. text: n-grams of the prompt and of the accepted
    text are stored too. harvest: so is what the model would have written after a rejected guess. chain: the backward
    guess goes on up to this many tokens (None: N - 1). backward_first: it comes before the forward ones. forward,
    backward, subngrams: False switches the part off (the paper's ablations).
    """

    order: int = 5
    rows: int = 15
    guesses: int | None = 15
    capacity: int = 15
    refine: float = 0.1
    refine_unseen: bool = True
    pool_start: str = "random"
    layout: str = "rows"
    pool_eligible: bool = False
    only_predicted: bool = False
    text: bool = False
    harvest: bool = False
    chain: int | None = None
    backward_first: bool = False
    forward: bool = True
    backward: bool = True
    subngrams: bool = True


IMPROVED = CoreSettings(
    guesses=None,
    pool_start="windows",
    layout="columns",
    pool_eligible=True,
    only_predicted=True,
    text=True,
    harvest=True,
    chain=12,
    backward_first=True,
)


class SpectraCore:
    """The drafter. banned: tokens that never enter a row or a guess (end of sequence)."""

    def __init__(self, settings: CoreSettings, *, banned: Collection[int] = (), seed: int = 0) -> None:
        self.settings = settings
        self.banned = banned
        self._random = random.Random(seed)
        self._draws: list[bool] = []
        self._log: list[Learned] | None = None
        self.forward = ForwardDictionary(settings.capacity)
        self.backward = BackwardDictionary(settings.order)
        self.pool = CandidatePool(
            settings.rows,
            settings.order - 1,
            start=settings.pool_start,
            layout=settings.layout,
            eligible=settings.pool_eligible,
            banned=banned,
            seed=seed,
        )

    def begin(self, prompt: Sequence[int]) -> None:
        self.pool.begin(prompt)
        if self.settings.text:
            self._learn_text(prompt, len(prompt))

    def inherit(self, other: "SpectraCore") -> None:
        """Go on with the dictionaries of another one, of the same settings."""
        self.forward = other.forward
        self.backward = other.backward

    def grow(self, tree: TokenTree, tokens: Sequence[int]) -> None:
        self.offer(tree, tokens)

    def offer(self, tree: TokenTree, tokens: Sequence[int]) -> int:
        """Algorithm 1, lines 3-9: pool rows, then guesses from the two dictionaries. Returns how many guesses."""
        settings = self.settings
        self._draws = self._refine()
        self.pool.grow(tree, self._draws, self.forward.lists.keys())
        forward = self.forward.get(tokens[-1]) if settings.forward else []
        backward = settings.backward and self.backward.get(tokens[-(settings.order - 1) :]) is not None
        if settings.guesses is not None:
            forward = forward[: settings.guesses]
            backward = backward and len(forward) < settings.guesses
        if backward and settings.backward_first:
            self._grow_backward(tree, tokens)
        for rank, continuation in enumerate(forward):
            tree.insert(Guess(continuation, Source.FORWARD, rank))
        if backward and not settings.backward_first:
            self._grow_backward(tree, tokens)
        return len(forward) + (1 if backward else 0)

    def observe(self, tokens: Sequence[int], outcome: Outcome) -> None:
        """Algorithm 1, lines 14-18: each row learns its next token, the dictionaries learn the row, the row shifts."""
        predictions = [outcome.read(ticket) for ticket in self.pool.tickets]
        scored = [place for place, token in enumerate(predictions) if token is not None]
        for place, (row, predicted) in zip(scored, self.pool.advance(predictions), strict=True):
            self._learn_row(row, predicted, place)
        if self.settings.harvest:
            self._harvest(tokens[: len(tokens) - len(outcome.emitted)], outcome)
        if self.settings.text:
            self._learn_text(tokens, len(outcome.emitted))

    def held(self) -> Mapping[Source, int]:
        """N-grams of each dictionary that guesses."""
        forward = {Source.FORWARD: self.forward.size} if self.settings.forward else {}
        backward = {Source.BACKWARD: len(self.backward.entries)} if self.settings.backward else {}
        return {**forward, **backward}

    def _grow_backward(self, tree: TokenTree, tokens: Sequence[int]) -> None:
        node = ROOT
        for token, match in self._backward(tokens):
            node = tree.add(node, token, Source.BACKWARD, match=match)

    def _refine(self) -> list[bool]:
        """For each row, whether this step's prediction must avoid the forward dictionary's keys."""
        draws = [self._random.random() < self.settings.refine for _ in self.pool.rows]
        return draws if self.settings.refine_unseen else [not draw for draw in draws]

    def look(self, tokens: Sequence[int]) -> Inside:
        """What the dictionaries hold for the end of the text."""
        self._log = []
        self._draws = []  # the step may be one at which no drafter is asked
        forward = self.forward.get(tokens[-1]) if self.settings.forward else []
        backward = tuple((match, token) for token, match in self._backward(tokens)) if self.settings.backward else ()
        return Inside(forward=tuple(forward), backward=backward)

    def taught(self) -> Inside:
        """What the step put into the dictionaries, and the refine draw of every pool row."""
        learned, self._log = self._log or [], None
        return Inside(refined=tuple(self._draws), learned=tuple(learned))

    def _backward(self, tokens: Sequence[int]) -> Iterator[tuple[int, int]]:
        """u: (what followed the longest known suffix of x + u, its length), up to the first miss (paper 4.1)."""
        context = list(tokens[-(self.settings.order - 1) :])
        for _ in range(self.settings.order - 1 if self.settings.chain is None else self.settings.chain):
            found = self.backward.get(context)
            if found is None:
                return
            yield found
            context.append(found[0])

    def _learn_row(self, row: Sequence[int], predicted: int, place: int) -> None:
        """row: N tokens, the last just predicted. Stores its n-grams, or only the whole row without sub-n-grams."""
        last = row[-1]
        stored = []
        for j in range(len(row) - 1 if self.settings.subngrams else 1):
            if self.settings.only_predicted and len(row) - 1 - j > predicted:
                continue
            if not self.banned or not any(token in self.banned for token in row[j:]):
                self.forward.put(row[j], row[j + 1 :])
                self.backward.put(row[j:-1], last)
                stored.append(j)
        self._note("pool", place, row, stored, stored)

    def _harvest(self, before: Sequence[int], outcome: Outcome) -> None:
        """A rejected guess was scored too: what the model would have written after it is an n-gram at no cost."""
        width = self.settings.order - 1
        accepted = {0, *outcome.path}
        for node, token in outcome.known.items():
            if node in accepted or token in self.banned or not outcome.tree.eligible[node]:
                continue
            context = [*before[-width:], *outcome.tree.path_tokens(node)]
            longest = min(width, len(context))
            for length in range(1, longest + 1):
                self.backward.put(context[-length:], token)
            self.forward.put(context[-1], (token,))
            self._note("rejected", -1, [*context[-longest:], token], [longest - 1], range(longest))

    def _learn_text(self, tokens: Sequence[int], new: int) -> None:
        """Store the n-grams that end in the last `new` tokens of real text."""
        width = self.settings.order - 1
        for end in range(max(1, len(tokens) - new), len(tokens)):
            token = tokens[end]
            if token in self.banned:
                continue
            whole = False
            for length in range(1, min(width, end) + 1):
                self.backward.put(tokens[end - length : end], token)
            if end >= width:
                continuation = tokens[end - width + 1 : end + 1]
                whole = not any(t in self.banned for t in continuation)
                if whole:
                    self.forward.put(tokens[end - width], continuation)
            longest = min(width, end)
            self._note("text", -1, tokens[end - longest : end + 1], [0] if whole else [], range(longest))

    def _note(
        self, origin: str, place: int, tokens: Sequence[int], forward: Iterable[int], backward: Iterable[int]
    ) -> None:
        """For a trace that is to hold it; nothing where nobody asked."""
        if self._log is not None:
            self._log.append(Learned(origin, place, tuple(tokens), tuple(forward), tuple(backward)))
