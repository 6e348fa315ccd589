"""The budget: never wider than told, closed under parents, plain where nothing promises, estimates that converge."""

import math
import random

import pytest
from drafting import random_tree
from tiny import COST, FREE

from spectra.budget.estimates import Estimates
from spectra.budget.policy import AdaptiveBudget, FixedBudget
from spectra.budget.share import share
from spectra.budget.step_cost import StepCost
from spectra.budget.weights import Weights
from spectra.guess import Guess, Source
from spectra.tree import ROOT, TokenTree

STEEP = StepCost(((1, 1.0), (2, 3.0), (128, 400.0)))


def test_a_tree_is_cut_to_a_part_that_is_closed_under_parents():
    dice = random.Random(1)
    for _ in range(200):
        tree = random_tree(dice, dice.randrange(1, 60))
        most = dice.choice((0, 1, 7, 64))
        budget = dice.choice((FixedBudget(most), AdaptiveBudget(dice.choice((COST, FREE, STEEP)), most)))
        for _ in range(3):  # learn something odd first
            budget.observe(tree, [dice.randrange(64) for _ in range(3)])
        paths = {tuple(tree.path_tokens(n)) for n in range(len(tree))}
        small = budget.choose(tree)
        assert len(small) - 1 <= most
        for node in range(1, len(small)):
            assert small.parents[node] < node
            assert tuple(small.path_tokens(node)) in paths


def test_fixed_takes_the_first_nodes_as_they_were_grown():
    tree = TokenTree(9)
    tree.insert(Guess((1, 2, 3), Source.FORWARD))
    assert FixedBudget(3).choose(tree) is tree
    assert FixedBudget(2).choose(tree).tokens == [9, 1, 2]
    assert FixedBudget(0).choose(tree).tokens == [9]


def test_fixed_keeps_guesses_and_lets_pool_rows_go():
    tree = TokenTree(9)
    for first in (1, 2):
        leaf = tree.add(tree.add(ROOT, first, Source.POOL, eligible=False), 5, Source.POOL, eligible=False)
        tree.ask(leaf)
    tree.insert(Guess((3, 4), Source.FORWARD))
    tree.insert(Guess((7,), Source.BACKWARD))
    assert FixedBudget(7).choose(tree) is tree
    assert FixedBudget(5).choose(tree).tokens == [9, 1, 5, 3, 4, 7]
    assert FixedBudget(4).choose(tree).tokens == [9, 3, 4, 7]
    assert FixedBudget(1).choose(tree).tokens == [9, 3]


def test_a_step_is_plain_where_guesses_cost_more_than_they_promise():
    tree = random_tree(random.Random(2), 30)
    assert len(AdaptiveBudget(STEEP, 64).choose(tree)) == 1
    assert len(AdaptiveBudget(FREE, 64).choose(tree)) == 30


def test_what_is_taken_has_the_best_ratio_of_all_sizes():
    dice = random.Random(3)
    for _ in range(50):
        tree = random_tree(dice, 40)
        budget = AdaptiveBudget(COST, 64)
        small = budget.choose(tree)
        chances = sorted((p for p in tree.probability[1:]), reverse=True)
        ratios = [(1 + sum(chances[:n])) / COST.seconds(1 + n) for n in range(len(chances) + 1)]
        assert max(ratios) == pytest.approx(ratios[len(small) - 1])


def with_rows(dice, rows, size=30, *, eligible=False):
    """A tree with rows of a pool, two tokens each, that ride along."""
    tree = random_tree(dice, size)
    for row in range(70, 70 + rows):
        leaf = tree.add(tree.add(ROOT, row, Source.POOL, eligible=eligible), 99, Source.POOL, eligible=eligible)
        tree.ask(leaf)
    return tree


def test_rows_that_ride_along_stay_as_far_as_they_fit_and_guesses_pay_beside_them():
    dice = random.Random(7)
    for cost in (COST, STEEP, StepCost(((1, 1.0), (4, 3.0), (128, 20.0)))):
        for rows in (1, 3, 9):
            tree = with_rows(dice, rows)
            small = AdaptiveBudget(cost, 12).choose(tree)
            kept = min(rows, 6)
            assert len(small) <= 13 and len(small.reads) == kept
            chances = sorted((p for p in tree.probability[1:] if p), reverse=True)[: 12 - 2 * kept]
            ratios = [(1 + sum(chances[:n])) / cost.seconds(1 + 2 * kept + n) for n in range(len(chances) + 1)]
            assert max(ratios) == pytest.approx(ratios[len(small) - 1 - 2 * kept])


def test_rows_that_may_be_accepted_count_once_and_their_chances_do():
    """What they promise makes a step worth more, so that a guess has to promise more to pay beside them."""
    dice = random.Random(8)
    likely = Weights({(Source.POOL, 0, False): 2.0, (Source.POOL, 0, True): 2.0})
    for cost in (COST, STEEP, StepCost(((1, 1.0), (7, 1.3), (128, 25.0)))):
        for rows in (1, 3):
            tree = with_rows(dice, rows, eligible=True)
            own = {node for leaf, _ in tree.reads.values() for node in tree.path(leaf)}
            small = AdaptiveBudget(cost, 20, weights=likely).choose(tree)
            assert len(small.reads) == rows and len(own) == 2 * rows
            chances = tree.probability
            base = 1 + sum(chances[node] for node in own)
            free = sorted((chances[n] for n in range(1, len(tree)) if n not in own), reverse=True)[: 20 - 2 * rows]
            ratios = [(base + sum(free[:n])) / cost.seconds(1 + 2 * rows + n) for n in range(len(free) + 1)]
            assert max(ratios) == pytest.approx(ratios[len(small) - 1 - 2 * rows])


def test_of_nodes_with_one_chance_the_parent_is_the_first():
    sure = Weights({(Source.FORWARD, 0, later): 100.0 for later in (False, True)})
    tree = TokenTree(9)
    tree.insert(Guess((1, 2, 3), Source.FORWARD))
    budget = AdaptiveBudget(FREE, 2, weights=sure)
    assert budget.choose(tree).tokens == [9, 1, 2]
    assert tree.probability == [None, 1.0, 1.0, 1.0]


def test_what_follows_a_guess_that_cannot_pay_is_not_judged_and_the_choice_is_the_same():
    dice = random.Random(6)
    for cost in (COST, FREE, STEEP, StepCost(((1, 1.0), (8, 1.9), (128, 15.0)))):
        for _ in range(30):
            tree, budget = random_tree(dice, 40), AdaptiveBudget(cost, 64)
            whole = share([budget.rank(tree)], budget.seconds)[0]
            known = sum(1 for p in tree.probability if p)
            assert budget.choose(tree).tokens == whole.tokens
            assert sum(1 for p in tree.probability if p) <= known
    for unit in (1.0, 0.005, 1000.0):  # seconds of a plain step
        budget = AdaptiveBudget(StepCost(((1, unit), (128, 26.4 * unit))), 64)
        tree = TokenTree(9)
        tree.insert(Guess((1, 2, 3), Source.FORWARD))
        budget.choose(tree)
        assert tree.probability[1] > 0 == tree.probability[2]


def test_the_trace_shows_the_estimates():
    small = AdaptiveBudget(FREE, 64).choose(random_tree(random.Random(4), 10))
    assert small.probability[ROOT] is None
    assert all(0 <= p <= 1 for p in small.probability[1:])


@pytest.mark.parametrize("rate", [0.05, 0.5, 0.95])
def test_estimates_converge_to_what_happens(rate):
    dice, estimates = random.Random(5), Estimates()
    for _ in range(2000):
        tree = TokenTree(9)
        tree.insert(Guess((1,), Source.BACKWARD, match=2))
        estimates.observe(tree, [1 if dice.random() < rate else 2])
    assert estimates.chance(tree, 1) == pytest.approx(rate, abs=0.12)


def test_a_node_is_judged_only_where_its_parent_was_written():
    estimates = Estimates()
    tree = TokenTree(9)
    tree.insert(Guess((1, 2), Source.FORWARD))
    before = [estimates.chance(tree, n) for n in (1, 2)]
    estimates.observe(tree, [5, 2])
    after = [estimates.chance(tree, n) for n in (1, 2)]
    assert after[0] < before[0]
    assert after[1] == before[1]


def test_each_token_that_was_written_judges_the_guesses_after_the_one_before():
    """The right guess, the wrong one beside it, what follows the right one; nothing after a wrong guess or the end."""
    tree = TokenTree(9)
    tree.insert(Guess((1, 2, 3, 4), Source.FORWARD))
    tree.insert(Guess((1, 7, 8), Source.BACKWARD))
    tree.add(ROOT, 1, Source.POOL, eligible=False)
    nodes = {node: tuple(tree.path_tokens(node)) for node in range(1, len(tree))}
    judged = [(nodes[node], hit) for node, hit in tree.reached([1, 2, 3])]
    assert judged == [((1,), True), ((1, 2), True), ((1, 2, 3), True), ((1, 7), False)]
    assert [hit for _, hit in tree.reached([1, 7])] == [True, False, True]


def test_a_budget_learns_from_the_tree_as_it_was_grown():
    """Of each tree by its own guesses, also where it judged another one in between."""
    first, second = TokenTree(9), TokenTree(9)
    first.insert(Guess((1,), Source.FORWARD))
    second.insert(Guess((1,), Source.BACKWARD, match=2))
    budget = AdaptiveBudget(FREE, 8)
    before = [budget.chance(tree, 1) for tree in (first, second)]
    for tree in (first, second):
        budget.choose(tree)
    budget.observe(first, [1])
    after = [budget.chance(tree, 1) for tree in (first, second)]
    assert after[0] > before[0] and after[1] == before[1]
    assert budget.choose(first).probability[1] == after[0]


def test_path_probabilities_multiply():
    estimates = Estimates()
    tree = TokenTree(9)
    leaf = tree.insert(Guess((1, 2, 3), Source.FORWARD))
    tree.add(ROOT, 8, Source.POOL, eligible=False)
    chance = estimates.path_probabilities(tree)
    one = [estimates.chance(tree, n) for n in range(1, leaf + 1)]
    assert chance[leaf] == pytest.approx(one[0] * one[1] * one[2])
    assert chance[-1] == 0.0


def test_what_hangs_on_a_node_that_cannot_be_accepted_is_not_scored():
    """Where T fell it was, without its parent, and the tree could not be cut."""
    tree = TokenTree(0)
    pool = tree.add(ROOT, 3, Source.POOL, eligible=False)
    tree.add(pool, 5, Source.FORWARD)
    tree.add(ROOT, 9, Source.FORWARD)
    falls = AdaptiveBudget(StepCost(((1, 2.0), (8, 1.0))), 8)
    assert falls.choose(tree).tokens == [0, 9]


NONE = (
    (),
    ((2, 1.0), (2, 2.0)),
    *(((count, 1.0),) for count in (0, 1.5, math.inf, math.nan, 10**400)),
    *(None, 1, "text", ((1,),), ((1, "2"),)),
    *(((1, each),) for each in (0.0, -1.0, math.inf, math.nan, 1e-160)),
)


@pytest.mark.parametrize("table", NONE)
def test_a_table_that_no_device_has_is_refused(table):
    with pytest.raises(ValueError, match="step"):
        StepCost(table)


def test_a_table_that_falls_or_rises_far_serves_batches_too():
    assert StepCost(zip((1, 2), (1.0, 2.0), strict=True)).table == ((1, 1.0), (2, 2.0))
    falls, rises = StepCost(((1, 1e5), (2, 1e-12))), StepCost(((1, 1e-12), (2, 1e12)))
    assert falls.seconds(2) == 1e-12
    assert rises.shared(4).table == ((1, 1e12), (2, 1e12))


def test_step_cost_is_linear_between_and_goes_on_past_the_end():
    cost = StepCost(((1, 1.0), (3, 2.0), (5, 6.0)))
    assert [cost.seconds(q) for q in (0, 1, 2, 3, 4, 5, 7)] == [1.0, 1.0, 1.5, 2.0, 4.0, 6.0, 10.0]
    assert StepCost(((1, 3.0), (4, 2.0))).seconds(9) == 2.0  # a machine's unrest is no slope
    assert StepCost(((1, 3.0),)).seconds(9) == 3.0
    rows = [[1, 1.0], [3, 2.0], [5, 6.0]]  # as JSON has them
    assert [StepCost(rows).seconds(q) for q in range(9)] == [cost.seconds(q) for q in range(9)]
    for table in ((), ((2, 1.0), (1, 1.0)), ((1, 1.0), (1, 2.0))):
        with pytest.raises(ValueError, match="rising"):
            StepCost(table)


def test_the_properties_of_a_node():
    """Its first source with its grade, the others, its confidence; a source that nobody knows has one grade."""
    tree = TokenTree(9)
    parent = tree.add(ROOT, 1, Source("mine"), rank=7)
    node = tree.add(parent, 2, Source.NGRAM, match=9, confidence=3)
    tree.add(parent, 2, Source.RETRIEVAL)
    tree.add(parent, 2, Source.RECYCLED, rank=2)
    assert Estimates.features(tree, parent) == [(Source("mine"), 0, False)]
    others = [("and", Source.RETRIEVAL), ("and", Source.RECYCLED)]
    assert Estimates.features(tree, node) == [(Source.NGRAM, 5, True), *others, ("confidence", 3)]
    ranked = tree.add(ROOT, 3, Source.FORWARD, rank=2, match=4)
    assert Estimates.features(tree, ranked) == [(Source.FORWARD, 2, False)]


class TestKnownNoise:
    """A node's chance once the noise of its token is known."""

    @pytest.mark.parametrize(("temperature", "flat"), [(0.5, 0.5), (1.0, 1.0), (1.5, 1.5), (40.0, 1.5)])
    def test_what_it_is_worth_grows_with_the_square_of_the_temperature(self, temperature, flat):
        """g counts up to 6, and the flattest temperature is 1.5."""
        estimates = Estimates(temperature, Weights({(Source.BACKWARD, 2, False): -1.0}, drawn=-0.5, luck=0.25))
        for noise, luck in ((1.0, -0.5772), (0.1, -math.log(0.1) - 0.5772), (1e-7, 6.0), (0.0, 6.0)):
            score = -1.0 - 0.5 * flat + 0.25 * flat**2 * luck
            assert estimates.chance(guessed(noise), 1) == pytest.approx(1 / (1 + math.exp(-score)))

    def test_the_budget_takes_the_node_that_the_noise_favours(self):
        noise = [9.0] * 64
        noise[5] = 0.001
        tree = TokenTree(9, noise=lambda depth: noise)
        for rank, token in enumerate((3, 4, 5)):
            tree.add(ROOT, token, Source.RECYCLED, rank=rank)
        budget = AdaptiveBudget(FREE, 64, temperature=1.0)
        part = budget.choose(tree.subset([1, 2, 3]))
        assert max(range(1, 4), key=lambda node: part.probability[node]) == 3
        tree.noise = lambda depth: None
        assert max(range(1, 4), key=lambda node: budget.choose(tree).probability[node]) == 1

    @pytest.mark.parametrize("chance", [0.1, 0.4, 0.8])
    def test_estimates_learn_how_much_the_noise_says(self, chance):
        """A token of known chance against all others: the estimate follows exp(-e (1 - q) / q), the chance given e."""
        dice, estimates = random.Random(8), Estimates(1.0)
        for _ in range(4000):
            own, other = dice.expovariate(1), dice.expovariate(1) / (1 - chance)
            tree = guessed(own)
            estimates.observe(tree, [1 if own / chance < other else 2])
        for own in (0.05, 0.3, 1.0, 2.5):
            truth = math.exp(-own * (1 - chance) / chance)
            assert estimates.chance(guessed(own), 1) == pytest.approx(truth, abs=0.2)

    def test_without_noise_nothing_of_it_is_learned(self):
        one, other = Estimates(1.0), Estimates(0.0)
        for estimates in (one, other):
            tree = TokenTree(9)
            tree.insert(Guess((1,), Source.BACKWARD, match=2))
            estimates.observe(tree, [1])
        assert one.chance(tree, 1) == other.chance(tree, 1)


def guessed(noise):
    """A tree of one guess, token 1, of which the noise is this."""
    tree = TokenTree(9, noise=lambda depth: [0.0, noise])
    tree.insert(Guess((1,), Source.BACKWARD, match=2))
    return tree
