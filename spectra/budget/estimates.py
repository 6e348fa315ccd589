"""How likely a guess is what the target writes next, given that its parent was. No torch."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from spectra.budget.weights import BUILT_IN, UNKNOWN, Feature, Weights
from spectra.guess import Source
from spectra.tree import TokenTree


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

    def __init__(self, temperature: float = 0.0, weights: Weights = BUILT_IN) -> None:
        self.flat = min(temperature, FLATTEST)
        self._weights = dict(weights.features)
        self._drawn = weights.drawn * self.flat
        self._luck = weights.luck * self.flat**2
        self._judged: TokenTree | None = None
        self._properties: dict[int, Properties] = {}
        """Of the nodes of the tree that was judged last."""

    @staticmethod
    def features(tree: TokenTree, node: int) -> list[Feature]:
        """The first source with its grade and whether it is past the first token; each other source; its confidence."""
        sources = tree.sources[node]
        first = sources[0]
        grade = tree.matches[node] if first in BY_MATCH else tree.ranks[node]
        found: list[Feature] = [(first, min(grade, GRADES.get(first, 0)), tree.depths[node] > 1)]
        if len(sources) > 1:
            found += [("and", other) for other in sources[1:]]
        if tree.confidence[node]:
            found.append(("confidence", tree.confidence[node]))
        return found

    def chance(self, tree: TokenTree, node: int) -> float:
        """That the target writes the node's token, given that it wrote its parent's."""
        return self._probability(Properties(self.features(tree, node), luck_of(tree, node)))

    def _probability(self, properties: Properties) -> float:
        weights = self._weights
        features, luck = properties
        score = 0.0
        for feature in features:
            score += weights.get(feature, UNKNOWN)
        if luck is not None:
            score += self._drawn + self._luck * luck
        return 1.0 / (1.0 + math.exp(-score))

    def path_probabilities(self, tree: TokenTree, least: float = 0.0) -> list[float]:
        """least: what comes after a node of a smaller chance is not judged and counts as 0."""
        chance = [1.0]
        self._judged, self._properties = tree, {}
        parents, eligible = tree.parents, tree.eligible
        for node in range(1, len(tree)):
            path = chance[parents[node]]
            if path < least or not eligible[node]:
                chance.append(0.0)
            else:
                chance.append(path * self._probability(self.properties(tree, node)))
        return chance

    def properties(self, tree: TokenTree, node: int) -> Properties:
        """Kept, for a node is judged before a pass and learned from after it."""
        found = self._properties.get(node) if tree is self._judged else None
        if found is None:
            found = Properties(self.features(tree, node), luck_of(tree, node))
            if tree is self._judged:
                self._properties[node] = found
        return found

    def observe(self, tree: TokenTree, emitted: Sequence[int]) -> None:
        for node, hit in tree.reached(emitted):
            properties = self.properties(tree, node)
            features, luck = properties
            missed = hit - self._probability(properties)
            if luck is not None:
                self._luck += self.LUCK_RATE * missed * luck
            change = self.RATE * missed
            for feature in features:
                self._weights[feature] = self._weights.get(feature, UNKNOWN) + change


def luck_of(tree: TokenTree, node: int) -> float | None:
    """g of the node's token at its output position less the mean of all, or None where no noise is known.

    Raises SpectraError for an id of no token.
    """
    row = tree.noise(tree.depths[node])
    if row is None:
        return None
    try:
        noise = row[tree.tokens[node]]
    except IndexError:
        raise tree.no_token(node, len(row)) from None
    return min(LUCKIEST, -math.log(max(noise, 1e-9)) - EULER)


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
FLATTEST, LUCKIEST = 1.5, 6.0
EULER = 0.5772
"""The mean of g."""
