"""How likely a guess is what the target writes next, given that its parent was. No torch."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from spectra.guess import Source
from spectra.tree import ROOT, TokenTree

Feature = tuple[object, ...]


class Properties(NamedTuple):
    """Of a node. luck: see `luck_of`."""

    features: Sequence[Feature]
    luck: float | None


class Estimates:
    """Running chance that a node is what the target writes next, given that its parent was.

    A logistic score: one weight for each property of the node, starting at what the property was worth on other texts
    and learned as the answer goes from what the target wrote. Every grown node is judged, scored or not.

    Above temperature 0 the noise of the node's token is one more property. The target picks argmax(log p + g), where
    g = -log e is known and log p is estimated by the score: so g adds to it, with a weight that grows with the
    temperature, for the flatter p is the more the noise decides.
    """

    RATE = 0.1
    LUCK_RATE = 0.03

    def __init__(self, temperature: float = 0.0) -> None:
        flat = min(temperature, FLATTEST)
        self._weights = dict(WEIGHTS)
        self._drawn = DRAWN * flat
        self._luck = LUCK * flat**2
        self._judged: TokenTree | None = None
        self._properties: dict[int, Properties] = {}
        """Of the nodes of the tree that was judged last."""

    @staticmethod
    def features(tree: TokenTree, node: int) -> list[Feature]:
        """The first source with its grade and whether it is past the first token; each other source; its confidence."""
        first, *others = tree.sources[node]
        grade = tree.matches[node] if first in BY_MATCH else tree.ranks[node]
        found: list[Feature] = [(first, min(grade, GRADES.get(first, 0)), tree.depths[node] > 1)]
        found += [("and", other) for other in others]
        if tree.confidence[node]:
            found.append(("confidence", tree.confidence[node]))
        return found

    def chance(self, tree: TokenTree, node: int) -> float:
        """That the target writes the node's token, given that it wrote its parent's."""
        return self._probability(Properties(self.features(tree, node), luck_of(tree, node)))

    def _probability(self, properties: Properties) -> float:
        weights = self._weights
        features, luck = properties
        score = sum([weights.get(feature, UNKNOWN) for feature in features])
        if luck is not None:
            score += self._drawn + self._luck * luck
        return 1.0 / (1.0 + math.exp(-score))

    def path_probabilities(self, tree: TokenTree) -> list[float]:
        chance = [1.0]
        self._judged, self._properties = tree, {}
        for node in range(1, len(tree)):
            if not tree.eligible[node]:
                chance.append(0.0)
                continue
            chance.append(chance[tree.parents[node]] * self._probability(self._properties_of(tree, node)))
        return chance

    def _properties_of(self, tree: TokenTree, node: int) -> Properties:
        """Kept, for a node is judged before a pass and learned from after it."""
        found = self._properties.get(node) if tree is self._judged else None
        if found is None:
            found = Properties(self.features(tree, node), luck_of(tree, node))
            if tree is self._judged:
                self._properties[node] = found
        return found

    def observe(self, tree: TokenTree, emitted: Sequence[int]) -> None:
        reached = {ROOT: 0}  # node -> how many emitted tokens lead to it
        for node in range(1, len(tree)):
            at = reached.get(tree.parents[node])
            if at is None or not tree.eligible[node] or at >= len(emitted):
                continue
            hit = tree.tokens[node] == emitted[at]
            if hit:
                reached[node] = at + 1
            properties = self._properties_of(tree, node)
            features, luck = properties
            missed = hit - self._probability(properties)
            if luck is not None:
                self._luck += self.LUCK_RATE * missed * luck
            change = self.RATE * missed
            for feature in features:
                self._weights[feature] = self._weights.get(feature, UNKNOWN) + change


def luck_of(tree: TokenTree, node: int) -> float | None:
    """g of the node's token at its output position less the mean of all, or None where no noise is known."""
    row = tree.noise(tree.depths[node])
    if row is None:
        return None
    return min(LUCKIEST, -math.log(max(row[tree.tokens[node]], 1e-9)) - EULER)


GRADES = {
    Source.FORWARD: 5,
    Source.BACKWARD: 4,
    Source.RETRIEVAL: 0,
    Source.POOL: 0,
    Source.NGRAM: 5,
    Source.RECYCLED: 7,
    Source.AUTOMATON: 8,
    Source.DRAFT: 7,
    Source.SECOND: 2,
}
"""The last grade of each source, counted from 0: its rank, or how many context tokens it matched. Others have one."""
BY_MATCH = frozenset({Source.BACKWARD, Source.NGRAM, Source.AUTOMATON})
UNKNOWN = -2.0
DRAWN = -0.5
"""What a guess is worth less at temperature 1 than at 0, in log-odds."""
LUCK = 0.5
"""Weight of g at temperature 1."""
FLATTEST, LUCKIEST = 1.5, 6.0
EULER = 0.5772
"""The mean of g."""


def _grades(source: Source, first: Sequence[float], deep: Sequence[float]) -> dict[Feature, float]:
    """Weights by grade, of a guess's first token and of its later ones."""
    return {(source, grade, past): w for past, row in ((False, first), (True, deep)) for grade, w in enumerate(row)}


WEIGHTS: dict[Feature, float] = {
    **_grades(Source.FORWARD, (-2.4, -2.1, -2.5, -2.8, -3.3, -3.9), (-0.6, -0.8, -1.0, -1.2, -1.5, -1.9)),
    **_grades(Source.BACKWARD, (-1.3, -1.3, -0.4, 0.2, 0.8), (-0.6, -0.6, 0.0, 0.6, 1.5)),
    **_grades(Source.RETRIEVAL, (-1.7,), (-1.1,)),
    **_grades(Source.POOL, (-2.2,), (-0.8,)),
    **_grades(
        Source.AUTOMATON,
        (-1.4, -1.4, -0.2, 0.5, 1.0, 0.9, 0.9, 1.5, 2.7),
        (0.3, 0.3, 0.7, 0.5, 1.2, 1.2, 1.4, 1.8, 2.9),
    ),
    **_grades(
        Source.RECYCLED,
        (-1.1, -2.4, -3.0, -3.5, -3.6, -3.7, -3.9, -4.0),
        (-1.2, -2.5, -2.9, -3.2, -3.4, -3.6, -3.8, -3.9),
    ),
    **_grades(
        Source.DRAFT, (1.5, 0.3, -0.4, -1.3, -2.1, -2.8, -3.4, -4.2), (1.5, 0.3, -0.4, -1.3, -2.1, -2.8, -3.4, -4.2)
    ),
    **_grades(Source.MEMORY, (-1.7,), (-1.1,)),
    ("and", Source.RECYCLED): 0.5,
    ("and", Source.DRAFT): 0.4,
    ("and", Source.MEMORY): 0.8,
    ("and", Source.AUTOMATON): 0.4,
    ("and", Source.FORWARD): 0.2,
    ("and", Source.RETRIEVAL): 1.4,
    **{("confidence", grade): w for grade, w in enumerate((0.4, 1.3, 3.0, 1.4, -0.3, -0.9, -1.6, -2.1, -2.5), 1)},
}
"""Log-odds of 300 greedy answers of the embedded model, none of them a benchmark's, with a store of other answers."""
