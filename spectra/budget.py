"""Which nodes of the grown tree are worth a query token on this device. No torch.

A step with n guessed tokens costs T(1 + n), measured; it yields 1 + (sum of the chances that each node is accepted).
The best n maximises the ratio, so a step is never wider than it pays, and plain when nothing promises.
"""

from collections.abc import Sequence
from typing import Protocol

from spectra.estimates import Estimates
from spectra.target.protocol import StepCost
from spectra.tree import TokenTree


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

    def inherit(self, other: "AdaptiveBudget") -> None:
        """Go on with the estimates of another one."""
        self.estimates = other.estimates

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
