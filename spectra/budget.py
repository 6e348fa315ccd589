"""Which nodes of the grown tree are worth a query token on this device. No torch.

A step with n guessed tokens costs T(1 + n), measured; it yields 1 + (sum of the chances that each node is accepted).
The best n maximises the ratio, so a step is never wider than it pays, and plain when nothing promises.
"""

from collections.abc import Sequence
from typing import Protocol

from spectra.guess import Source
from spectra.target.protocol import StepCost
from spectra.tree import ROOT, TokenTree

Feature = tuple[Source, int, int, int]


class Budget(Protocol):
    def choose(self, tree: TokenTree) -> TokenTree:
        """The part of the grown tree that is worth scoring."""
        ...

    def observe(self, grown: TokenTree, emitted: Sequence[int]) -> None:
        """Learn from how the step went. grown: the whole tree, cut nodes included."""
        ...


class FixedBudget:
    """The first `most` nodes as they were grown: the paper's fixed sizes."""

    def __init__(self, most: int) -> None:
        self.most = most

    def choose(self, tree: TokenTree) -> TokenTree:
        return tree if len(tree) <= self.most + 1 else tree.subset(range(self.most + 1))

    def observe(self, grown: TokenTree, emitted: Sequence[int]) -> None:
        """Nothing to learn."""


class AdaptiveBudget:
    """Chooses nodes by estimated path probability against the measured step cost.

    Every grown node is judged by what the target went on to write, scored or not, so the estimates need no exploring.
    `overhead`: seconds of a step outside the forward pass.
    """

    def __init__(self, cost: StepCost, most: int, *, overhead: float = 0.0) -> None:
        self.most = most
        self.estimates = Estimates()
        self._seconds = [cost.seconds(1 + n) + overhead for n in range(most + 1)]

    def choose(self, tree: TokenTree) -> TokenTree:
        chance = self.estimates.path_probabilities(tree)
        tree.probability = [None, *chance[1:]]
        ranked = sorted((n for n in range(1, len(tree)) if tree.eligible[n]), key=lambda n: (-chance[n], n))
        kept: set[int] = set()
        for leaf, _ in tree.reads.values():  # rows that ride along, as far as they fit
            path = kept.union(tree.path(leaf))
            kept = path if len(path) <= self.most else kept
        free = [n for n in ranked if n not in kept][: max(0, self.most - len(kept))]
        gain = 1.0 + sum(chance[n] for n in kept if tree.eligible[n])
        width = min(len(kept), self.most)
        best, size = gain / self._seconds[width], 0
        for count, node in enumerate(free, 1):
            gain += chance[node]
            if gain / self._seconds[width + count] > best:
                best, size = gain / self._seconds[width + count], count
        return tree.subset([*kept, *free[:size]])

    def observe(self, grown: TokenTree, emitted: Sequence[int]) -> None:
        self.estimates.observe(grown, emitted)


class Estimates:
    """Running chance that a node is what the target writes next, given that its parent was, by kind of guess."""

    PRIOR_WEIGHT = 12.0
    DECAY = 0.99

    def __init__(self) -> None:
        self._tally: dict[Feature, list[float]] = {}

    @staticmethod
    def feature(tree: TokenTree, node: int) -> Feature:
        """Source, rank (0-5), matched length (0-4), depth (1-4, more counts as 4)."""
        source = tree.sources[node][0]
        return source, min(tree.ranks[node], 5), min(tree.matches[node], 4), min(tree.depths[node], 4)

    def probability(self, feature: Feature) -> float:
        tally = self._tally.get(feature)
        return tally[0] / tally[1] if tally else prior(feature)

    def path_probabilities(self, tree: TokenTree) -> list[float]:
        chance = [1.0]
        for node in range(1, len(tree)):
            if not tree.eligible[node]:
                chance.append(0.0)
                continue
            one = self.probability(self.feature(tree, node))
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
            feature = self.feature(tree, node)
            tally = self._tally.get(feature)
            if tally is None:
                tally = self._tally[feature] = [prior(feature) * self.PRIOR_WEIGHT, self.PRIOR_WEIGHT]
            tally[0] = tally[0] * self.DECAY + hit
            tally[1] = tally[1] * self.DECAY + 1


BACKWARD_PRIOR = (0.27, 0.27, 0.53, 0.67, 0.8)  # by matched length
FORWARD_PRIOR = (0.1, 0.17, 0.09, 0.05, 0.045, 0.015)  # by rank; rank 0 is often the backward guess again


def prior(feature: Feature) -> float:
    """What a kind of guess was worth on 79 greedy answers of the embedded model, none of them a benchmark's."""
    source, rank, match, depth = feature
    if source is Source.BACKWARD:
        return BACKWARD_PRIOR[match]
    if source is Source.FORWARD:
        return FORWARD_PRIOR[rank] if depth == 1 else (0.35, 0.38, 0.3, 0.18, 0.15, 0.1)[rank]
    return 0.1 if depth == 1 else 0.3
