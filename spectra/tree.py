"""The token tree of one step: guesses under the last committed token, merged where they share a prefix.

Node 0 is the root: the last committed token. A parent's index is always below its child's. Plain ints, no torch.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from operator import index
from typing import TYPE_CHECKING, NamedTuple

from spectra.errors import SpectraError
from spectra.guess import Guess, Source

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

ROOT = 0

Noise = Sequence[float]
"""[vocabulary]: the noise of one output position, see `spectra/verify/noise.py`."""


class Reached(NamedTuple):
    """A node that was judged by what was written. hit: whether its token was."""

    node: int
    hit: bool


def unknown(depth: int) -> Noise | None:
    """The noise where there is none, or nobody tells."""
    return None


class TokenTree:
    """A growing tree of guessed tokens.

    merge: what shares a prefix shares nodes (the default). Draws from a draft distribution too, but a token drawn twice
    is two tests: `draws` has it twice. noise: depth of a node -> the noise of its output position, None where none is.

    Columns, one entry a node: `tokens`, `parents` (-1 for the root), `depths` (root 0), `sources` (every source that
    offered the node, the first gets the credit), `eligible` (may be accepted; candidate-pool rows may not be),
    `ranks` and `matches` (from the guess), `confidence` (a class its source puts it in, 0 for none), `probability`
    (estimated chance that the whole path is accepted, or None).
    """

    def __init__(self, root_token: int, *, merge: bool = True, noise: Callable[[int], Noise | None] = unknown) -> None:
        self.merge = merge
        self.noise = noise
        self.tokens: list[int] = [root_token]
        self.parents: list[int] = [-1]
        self.depths: list[int] = [0]
        self.sources: list[tuple[Source, ...]] = [(Source.MODEL,)]
        self.eligible: list[bool] = [True]
        self.ranks: list[int] = [0]
        self.matches: list[int] = [0]
        self.confidence: list[int] = [0]
        self.probability: list[float | None] = [None]
        self.reads: dict[int, tuple[int, Collection[int]]] = {}
        """Tickets of `ask`: (node, tokens its reading must avoid)."""
        self.draws: dict[int, list[tuple[int, NDArray[np.float64]]]] = {}
        """Under a node, the draws to be tested there, in order: (child, the distribution it was drawn from)."""
        self._child: dict[tuple[int, int], int] = {}

    def __len__(self) -> int:
        return len(self.tokens)

    def add(
        self,
        parent: int,
        token: int,
        source: Source,
        *,
        eligible: bool = True,
        rank: int = 0,
        match: int = 0,
        confidence: int = 0,
    ) -> int:
        """Put `token` under `parent` and return its node; a merging tree reuses an eligible child of this token.

        token: an int, or a number of numpy or torch. Raises SpectraError for what is no whole number, IndexError for a
        parent that is no node.
        """
        try:
            token = index(token)
        except TypeError:
            wrong = f"{source} guessed {token!r}, which is no token id"
            raise SpectraError("drafter", f"{wrong}; guess ids of the target's tokenizer") from None
        if not 0 <= parent < len(self.tokens):
            raise IndexError(f"parent {parent} is not a node of this tree of {len(self.tokens)}")
        if self.merge and eligible:
            known = self._child.get((parent, token))
            if known is not None:
                if source not in self.sources[known]:
                    self.sources[known] += (source,)
                self.confidence[known] = self.confidence[known] or confidence
                return known
        node = len(self.tokens)
        self.tokens.append(token)
        self.parents.append(parent)
        self.depths.append(self.depths[parent] + 1)
        self.sources.append((source,))
        self.eligible.append(eligible)
        self.ranks.append(rank)
        self.matches.append(match)
        self.confidence.append(confidence)
        self.probability.append(None)
        if eligible:
            self._child.setdefault((parent, token), node)
        return node

    def insert(self, guess: Guess, parent: int = ROOT) -> int:
        """Hang a whole guess under `parent`; returns its last node."""
        for token in guess.tokens:
            parent = self.add(parent, token, guess.source, rank=guess.rank, match=guess.match)
        return parent

    def ask(self, node: int, avoid: Collection[int] = ()) -> int:
        """Ask for the most likely token after `node` that is not in `avoid`. Returns the ticket to read it by.

        Budgets keep such a node and its path whatever they cost, as far as they fit. Raises IndexError for what is no
        node.
        """
        if not 0 <= node < len(self.tokens):
            raise IndexError(f"node {node} is none of this tree of {len(self.tokens)}")
        ticket = len(self.reads)
        self.reads[ticket] = (node, avoid)
        return ticket

    def no_token(self, node: int, vocabulary: int) -> SpectraError:
        """What to say of a node whose token is none of a vocabulary of this size."""
        wrong = f"{self.sources[node][0]} guessed token {self.tokens[node]}, outside 0..{vocabulary - 1}"
        return SpectraError("drafter", f"{wrong}; guess ids of the target's tokenizer")

    def child(self, node: int, token: int) -> int | None:
        """The eligible child of `node` that holds `token`, or None."""
        return self._child.get((node, token))

    def path(self, node: int) -> list[int]:
        """Nodes from the root's child down to `node`; empty for the root."""
        nodes = []
        while node != ROOT:
            nodes.append(node)
            node = self.parents[node]
        return nodes[::-1]

    def path_tokens(self, node: int) -> list[int]:
        """Tokens from the root's child down to `node`."""
        return [self.tokens[i] for i in self.path(node)]

    def reached(self, emitted: Sequence[int]) -> Iterator[Reached]:
        """The eligible nodes whose parent was written. emitted: what followed the root."""
        written = {ROOT: 0}  # node -> how many emitted tokens lead to it
        for node in range(1, len(self)):
            at = written.get(self.parents[node])
            if at is None or not self.eligible[node] or at >= len(emitted):
                continue
            hit = self.tokens[node] == emitted[at]
            if hit:
                written[node] = at + 1
            yield Reached(node, hit)

    def within(self, depth: int) -> TokenTree:
        """The part that is at most `depth` deep."""
        if max(self.depths) <= depth:
            return self
        return self.subset(node for node, at in enumerate(self.depths) if at <= depth)

    def chain(self) -> TokenTree:
        """One eligible path from the root: at each node the most probable child, the first one where none is known."""
        nodes, parent = [], ROOT
        while children := [n for n in range(parent + 1, len(self)) if self.parents[n] == parent and self.eligible[n]]:
            parent = max(children, key=lambda n: self.probability[n] or 0.0)
            nodes.append(parent)
        return self if len(nodes) == len(self) - 1 else self.subset(nodes)

    def subset(self, nodes: Iterable[int]) -> TokenTree:
        """A tree of `nodes` only (the root always stays); every node's parent must be among them.

        Raises ValueError where it parts what was drawn at one place: which draws count must not depend on them.
        """
        keep = sorted({ROOT, *nodes})
        place = {old: new for new, old in enumerate(keep)}
        small = TokenTree(self.tokens[ROOT], merge=self.merge, noise=self.noise)
        small.sources[ROOT] = self.sources[ROOT]
        for old in keep[1:]:
            parent = place[self.parents[old]]
            new = small.add(
                parent,
                self.tokens[old],
                self.sources[old][0],
                eligible=self.eligible[old],
                rank=self.ranks[old],
                match=self.matches[old],
                confidence=self.confidence[old],
            )
            small.sources[new] = self.sources[old]
            small.probability[new] = self.probability[old]
        for parent, family in self.draws.items():
            kept = [(place[child], q) for child, q in family if child in place]
            if len(kept) == len(family):
                small.draws[place[parent]] = kept
            elif kept:
                raise ValueError("what was drawn at one place stays or goes together")
        small.reads = {ticket: (place[n], avoid) for ticket, (n, avoid) in self.reads.items() if n in place}
        return small
