"""SPECTRA-RETRIEVAL's drafter (paper 4.2): what followed the same last tokens in a corpus. No torch.

The longest known suffix answers; continuations carry a confidence class from their counts, for the budget to weigh.
"""

import math
from collections.abc import Collection, Mapping, Sequence

from spectra.drafters.continuations import NGramStore, Node, continuations, hits
from spectra.drafters.core import SpectraCore
from spectra.guess import Guess, Source
from spectra.inside import Inside, joined
from spectra.method import Outcome
from spectra.tree import ROOT, TokenTree

RARELY = 8
"""Steps from one question to the next where guesses do not bring their price."""
FIRST_WORTH, RATE = 0.2, 0.05


class Retrieval:
    """One tree of continuations. max_nodes: asked for a step. banned: tokens that never enter a guess.

    least: share of the counts that a node's path must have, as long as a step's guesses bring nothing. price: tokens a
    step that the guesses must bring, less `row` tokens for each that is scored, to be asked for at every step; 0: they
    always are.
    """

    def __init__(
        self,
        stores: Sequence[NGramStore],
        *,
        max_nodes: int = 16,
        banned: Collection[int] = (),
        source: Source = Source.RETRIEVAL,
        least: float = 0.0,
        price: float = 0.0,
        row: float = 0.0,
    ) -> None:
        self.least = least
        self.price = price
        self.row = row
        self.worth = FIRST_WORTH
        """Running mean of what a step's guesses brought."""
        self.steps = 0
        self._looked = False
        self.source = source
        self.stores = stores
        self.max_nodes = max_nodes
        self.banned = banned

    def look(self, tokens: Sequence[int]) -> Inside:
        """What followed the longest known suffix in the stores, most frequent first."""
        return Inside(hits=tuple(hits(self.stores, tokens)))

    def taught(self) -> Inside:
        """A store does not learn."""
        return Inside()

    def begin(self, prompt: Sequence[int]) -> None:
        """A store does not learn."""

    @property
    def asked(self) -> bool:
        """Whether this step's guesses are looked for."""
        return not self.price or self.worth >= self.price or self.steps % RARELY == 0

    def grow(self, tree: TokenTree, tokens: Sequence[int]) -> None:
        self.steps += 1
        places: list[int | None] = []
        self._looked = self.asked
        if not self._looked:
            return
        least = self.least / (1 + max(0.0, self.worth)) ** 2  # what was right lately goes deeper
        for node in continuations(self.stores, tokens, self.max_nodes, least):
            parent = ROOT if node.parent < 0 else places[node.parent]
            if parent is None or node.token in self.banned:
                places.append(None)
                continue
            grade = confidence(node)
            places.append(tree.add(parent, node.token, self.source, rank=node.rank, match=node.match, confidence=grade))

    def observe(self, tokens: Sequence[int], outcome: Outcome) -> None:
        """A store does not learn. A token counts as brought when no other source offered it first."""
        if self.price and self._looked:
            self._looked = False  # the next step may be one at which no drafter is asked
            brought = sum(outcome.tree.sources[node][0] == self.source for node in outcome.path)
            scored = sum(sources[0] == self.source for sources in outcome.tree.sources)
            self.worth += RATE * (brought - self.row * scored - self.worth)


class PaperRetrieval(Retrieval):
    """The paper's guesses: at most `guesses` (G) whole continuations of `width` (N - 1) tokens.

    A lookup matches two tokens at least; the likeliest first token comes first with all its branches.
    """

    MIN_MATCH = 2

    def __init__(self, stores: Sequence[NGramStore], *, guesses: int, width: int, banned: Collection[int] = ()) -> None:
        super().__init__(stores, max_nodes=2 * guesses * width, banned=banned)
        self.guesses = guesses
        self.width = width

    def grow(self, tree: TokenTree, tokens: Sequence[int]) -> None:
        self.fill(tree, tokens, self.guesses)

    def fill(self, tree: TokenTree, tokens: Sequence[int], max_guesses: int) -> None:
        """Add at most `max_guesses` guesses."""
        if max_guesses == 0:
            return
        nodes = continuations(self.stores, tokens, self.max_nodes)
        paths: list[tuple[int, ...] | None] = []  # places in `nodes` from the context down, None where it must not go
        for place, node in enumerate(nodes):
            before = () if node.parent < 0 else paths[node.parent]
            usable = before is not None and node.match >= self.MIN_MATCH and node.token not in self.banned
            paths.append((*before, place) if usable and before is not None and len(before) < self.width else None)
        inner = {path[:-1] for path in paths if path is not None}
        leaves = sorted(path for path in paths if path is not None and path not in inner)
        for rank, path in enumerate(leaves[:max_guesses]):
            tree.insert(Guess(tuple(nodes[place].token for place in path), Source.RETRIEVAL, rank))


class FilledCore:
    """SPECTRA as the paper prints it (4.2): CORE's guesses, then retrieved ones up to the limit G."""

    def __init__(self, core: SpectraCore, retrieval: PaperRetrieval) -> None:
        self.core = core
        self.retrieval = retrieval

    def begin(self, prompt: Sequence[int]) -> None:
        self.core.begin(prompt)

    def grow(self, tree: TokenTree, tokens: Sequence[int]) -> None:
        offered = self.core.offer(tree, tokens)
        self.retrieval.fill(tree, tokens, self.retrieval.guesses - offered)

    def observe(self, tokens: Sequence[int], outcome: Outcome) -> None:
        self.core.observe(tokens, outcome)

    def held(self) -> Mapping[Source, int]:
        return self.core.held()

    def look(self, tokens: Sequence[int]) -> Inside:
        return joined([self.core.look(tokens), self.retrieval.look(tokens)])

    def taught(self) -> Inside:
        return self.core.taught()


def confidence(node: Node) -> int:
    """1-3: the only token that ever followed, seen once, two or three times, more often; 4-9: by its share, halving."""
    if node.times >= node.seen:
        if node.seen == 1:
            return 1
        return 2 if node.seen < 4 else 3
    return 4 + min(5, int(math.log2(node.seen / node.times)))
