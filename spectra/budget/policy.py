"""Which nodes of the grown tree are worth a query token on this device. No torch.

A step with n guessed tokens costs T(1 + n), measured; it yields 1 + (sum of the chances that each node is accepted).
The best n maximises the ratio, so a step is never wider than it pays, and plain when nothing promises.
"""

from collections.abc import Sequence
from itertools import pairwise

from spectra.budget.estimates import Estimates
from spectra.budget.share import Ranking, share
from spectra.budget.step_cost import StepCost
from spectra.budget.weights import BUILT_IN, Weights
from spectra.guess import Source
from spectra.settings import check_functions, check_nodes, check_number
from spectra.tree import TokenTree


class FixedBudget:
    """The paper's fixed sizes: the first `max_nodes` guessed tokens as they were grown, then pool rows that fit.

    Raises SpectraError for a number out of range.
    """

    def __init__(self, max_nodes: int) -> None:
        check_nodes(max_nodes)
        self.max_nodes = max_nodes

    def choose(self, tree: TokenTree) -> TokenTree:
        """The guesses that fit, each with its path."""
        if len(tree) <= self.max_nodes + 1:
            return tree
        kept: set[int] = set()
        guesses = [node for node in range(1, len(tree)) if set(tree.sources[node]) != {Source.POOL}]
        rows = [leaf for leaf, _ in tree.reads.values()]
        for node in (*guesses, *rows):
            kept = self._with_path(tree, kept, node)
        return tree.subset(kept)

    def observe(self, grown: TokenTree, emitted: Sequence[int]) -> None:
        """Nothing to learn."""

    def _with_path(self, tree: TokenTree, kept: set[int], node: int) -> set[int]:
        """`kept` and the path down to `node`, where that fits."""
        more = kept.union(tree.path(node))
        return more if len(more) <= self.max_nodes else kept


class AdaptiveBudget:
    """Chooses nodes by estimated path probability against the measured step cost.

    Every grown node is judged by what the target went on to write, scored or not, so the estimates need no exploring.
    `temperature`: the answer's. `weights`: what the estimates begin with. Raises SpectraError for a cost that is none,
    and for a number out of range.
    """

    def __init__(
        self,
        cost: StepCost,
        max_nodes: int,
        *,
        temperature: float = 0.0,
        weights: Weights = BUILT_IN,
    ) -> None:
        check_functions("cost", cost, ("seconds",), "`target.cost`")
        check_nodes(max_nodes)
        check_number("temperature", temperature, 0, 100)
        self.max_nodes = max_nodes
        self.estimates = Estimates(temperature, weights)
        self.least = 0.0
        """A chance below which no node of the next tree pays, where a batch knows it before trees are grown; else 0.
        It holds for one step."""
        self._cost = cost
        self._seconds: list[float] = []
        self._cheapest: dict[tuple[int, int], float] = {}

    def inherit(self, other: "AdaptiveBudget") -> None:
        """Go on with the estimates of another one."""
        self.estimates = other.estimates

    def chance(self, tree: TokenTree, node: int) -> float:
        """Of one node, given that its parent was accepted."""
        return self.estimates.chance(tree, node)

    def choose(self, tree: TokenTree) -> TokenTree:
        """The nodes that yield the most tokens a second; fewer than `max_nodes` where more do not pay."""
        # with the last node of the best choice the tokens a second are no fewer than without it, and those are no fewer
        # than a plain step's
        least = 0.0 if tree.reads else self.cheapest_row(1, self.max_nodes) / self.seconds(1)[1]
        return share([self.rank(tree, least)], self.seconds)[0]

    def rank(self, tree: TokenTree, least: float = 0.0) -> Ranking:
        """See `Ranking`. Rows that ride along are kept as far as they fit. least: a chance below which no node pays."""
        chance = self.estimates.path_probabilities(tree, least)
        tree.probability = [None, *chance[1:]]
        # behind a node that cannot be accepted there is no chance
        paying = [n for n in range(1, len(tree)) if chance[n] >= least and chance[n] > 0 and tree.eligible[n]]
        ranked = sorted(paying, key=lambda n: (-chance[n], n))
        kept: set[int] = set()
        for leaf, _ in tree.reads.values():
            path = kept.union(tree.path(leaf))
            kept = path if len(path) <= self.max_nodes else kept
        free = [n for n in ranked if n not in kept][: max(0, self.max_nodes - len(kept))]
        return Ranking(tree, chance, frozenset(kept), free)

    def seconds(self, rows: int) -> Sequence[float]:
        """T of 0 to at least `rows` rows."""
        known = self._seconds
        known += [self._cost.seconds(q) for q in range(len(known), rows + 1)]
        return known

    def cheapest_row(self, rows: int, more: int) -> float:
        """Seconds that the cheapest of `more` rows takes where a pass has `rows` already."""
        found = self._cheapest.get((rows, more))
        if found is None:
            steps = pairwise(self.seconds(rows + more)[rows : rows + more + 1])
            found = max(0.0, min((after - before for before, after in steps), default=0.0))
            self._cheapest[rows, more] = found
        return found

    def observe(self, grown: TokenTree, emitted: Sequence[int]) -> None:
        """Move the estimates towards what happened: emitted is what followed the root of `grown`."""
        self.least = 0.0
        if len(grown) > 1:
            self.estimates.observe(grown, emitted)
