"""How likely a guess is what the target writes next, given that its parent was. No torch."""

import math
from collections.abc import Sequence

from spectra.guess import Source
from spectra.tree import ROOT, TokenTree

Feature = tuple[object, ...]


class Estimates:
    """Running chance that a node is what the target writes next, given that its parent was.

    A logistic score: one weight for each property of the node, starting at what the property was worth on other texts
    and learned as the answer goes from what the target wrote. Every grown node is judged, scored or not.
    """

    RATE = 0.1

    def __init__(self) -> None:
        self._weights = dict(WEIGHTS)

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

    def probability(self, features: Sequence[Feature]) -> float:
        weights = self._weights
        return 1.0 / (1.0 + math.exp(-sum(weights.get(feature, UNKNOWN) for feature in features)))

    def path_probabilities(self, tree: TokenTree) -> list[float]:
        chance = [1.0]
        for node in range(1, len(tree)):
            if not tree.eligible[node]:
                chance.append(0.0)
                continue
            one = self.probability(self.features(tree, node))
            chance.append(chance[tree.parents[node]] * one)
        return chance

    def observe(self, tree: TokenTree, emitted: Sequence[int]) -> None:
        reached = {ROOT: 0}  # node -> how many emitted tokens lead to it
        for node in range(1, len(tree)):
            at = reached.get(tree.parents[node])
            if at is None or not tree.eligible[node] or at >= len(emitted):
                continue
            hit = tree.tokens[node] == emitted[at]
            if hit:
                reached[node] = at + 1
            features = self.features(tree, node)
            change = self.RATE * (hit - self.probability(features))
            for feature in features:
                self._weights[feature] = self._weights.get(feature, UNKNOWN) + change


GRADES = {
    Source.FORWARD: 5,
    Source.BACKWARD: 4,
    Source.RETRIEVAL: 0,
    Source.POOL: 0,
    Source.NGRAM: 5,
    Source.RECYCLED: 7,
    Source.AUTOMATON: 8,
    Source.DRAFT: 2,
    Source.SECOND: 2,
}
"""The last grade of each source, counted from 0: its rank, or how many context tokens it matched. Others have one."""
BY_MATCH = frozenset({Source.BACKWARD, Source.NGRAM, Source.AUTOMATON})
UNKNOWN = -2.0


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
    ("and", Source.RECYCLED): 0.5,
    ("and", Source.AUTOMATON): 0.4,
    ("and", Source.FORWARD): 0.2,
    ("and", Source.RETRIEVAL): 1.4,
    **{("confidence", grade): w for grade, w in enumerate((0.4, 1.3, 3.0, 1.4, -0.3, -0.9, -1.6, -2.1, -2.5), 1)},
}
"""Log-odds of 300 greedy answers of the embedded model, none of them a benchmark's, with a store of other answers."""
