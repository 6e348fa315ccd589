"""One budget for several trees: the best ratio of all sizes, closed under parents, within the rows of a pass."""

import random

import pytest
from drafting import random_tree
from tiny import COST, FREE

from spectra.budget.policy import AdaptiveBudget
from spectra.budget.share import least_chances, share, worths_at_the_end
from spectra.budget.step_cost import StepCost


def ranked(dice, sizes, cost=COST):
    budgets = [AdaptiveBudget(cost, 64) for _ in sizes]
    return budgets[0], [one.rank(random_tree(dice, size)) for one, size in zip(budgets, sizes, strict=True)]


def test_nodes_of_all_trees_are_ranked_together():
    dice = random.Random(1)
    for _ in range(30):
        trust, others = dice.choice((1.0, 0.6)), dice.choice((0, 2))
        budget, rankings = ranked(dice, [dice.randrange(1, 40) for _ in range(dice.choice((2, 5)))])
        small = share(rankings, budget.seconds, others=others, rows=3 * others, trust=trust)
        chances = sorted((p for one in rankings for p in one.chance[1:]), reverse=True)
        rows, count = 3 * others + len(rankings), others + len(rankings)
        ratios = [(count + trust * sum(chances[:n])) / COST.seconds(rows + n) for n in range(len(chances) + 1)]
        taken = sum(len(tree) - 1 for tree in small)
        assert max(ratios) == pytest.approx(ratios[taken])
        kept = sorted((p for tree in small for p in tree.probability[1:]), reverse=True)
        assert kept == pytest.approx(chances[:taken])


def test_a_pass_has_only_so_many_rows():
    budget, rankings = ranked(random.Random(2), [30, 30, 30], FREE)
    assert sum(map(len, share(rankings, budget.seconds))) == 90
    assert sum(map(len, share(rankings, budget.seconds, max_rows=40))) == 40
    assert sum(map(len, share(rankings, budget.seconds, max_rows=1))) == 3


def test_more_nodes_pay_where_the_pass_takes_long_anyway():
    budget, rankings = ranked(random.Random(4), [30, 30])
    sizes = [sum(map(len, share(rankings, budget.seconds, beyond=beyond))) for beyond in (0.0, 1.0, 1e6)]
    assert sizes[0] < sizes[1] < sizes[2] == 60


def test_trees_shrink_to_none_where_rows_are_dear():
    steep = StepCost(((1, 1.0), (4, 1.1), (64, 60.0)))
    budget, rankings = ranked(random.Random(3), [20] * 8, steep)
    assert [len(tree) for tree in share(rankings, budget.seconds)] == [1] * 8


def test_nodes_are_weighed_by_what_a_token_is_worth():
    dice = random.Random(5)
    for _ in range(30):
        budget, rankings = ranked(dice, [dice.randrange(1, 30) for _ in range(3)])
        worths = worths_at_the_end([dice.randrange(1, 100) for _ in range(3)])
        rankings = [one._replace(worth=worth) for one, worth in zip(rankings, worths, strict=True)]
        small = share(rankings, budget.seconds)
        weighed = sorted((one.worth * p for one in rankings for p in one.chance[1:]), reverse=True)
        ratios = [(sum(worths) + sum(weighed[:n])) / COST.seconds(3 + n) for n in range(len(weighed) + 1)]
        assert max(ratios) == pytest.approx(ratios[sum(len(tree) - 1 for tree in small)])


def test_nodes_that_cannot_pay_are_known_before_trees_are_grown():
    """What is chosen is the same whether they are ranked or not, and there are many of them."""
    dice = random.Random(7)
    judged = 0
    for _ in range(60):
        row, count = dice.choice((0.3, 0.6, 1.0)), dice.choice((2, 4))
        cheap_at = dice.choice((5, 9, 20))  # the first rows, or those after them, are the cheaper ones
        cost = StepCost(
            (
                (1, 1.0),
                (4, 1.0 + 3 * row),
                (cheap_at, 1.0 + (cheap_at - 1) * row),
                (cheap_at + 9, 1.1 + cheap_at * row),
                (300, 300.0),
            )
        )
        worths = worths_at_the_end([dice.randrange(20, 60) for _ in range(count)])
        shared = {"trust": dice.choice((0.7, 1.0)), "beyond": dice.choice((-0.3, 0.0, 0.5))}
        trees = [random_tree(dice, dice.randrange(2, 30)) for _ in range(count)]
        budgets = [AdaptiveBudget(cost, dice.choice((2, 8, 64))) for _ in trees]
        plain = budgets[0].seconds(count)[count]
        row = budgets[0].cheapest_row(count, sum(one.max_nodes for one in budgets))
        least = least_chances(worths, plain + shared["beyond"], row)
        found = []
        for bars in ([0.0] * count, least):
            rankings = [
                budget.rank(tree, bar)._replace(worth=worth)
                for budget, tree, bar, worth in zip(budgets, trees, bars, worths, strict=True)
            ]
            judged += sum(len(one.free) for one in rankings) * (1 if bars is least else -1)
            found.append([tree.tokens for tree in share(rankings, budgets[0].seconds, **shared)])
        assert found[0] == found[1]
    assert judged < -200


def test_at_the_end_of_a_batch_the_last_sequence_has_the_rows():
    assert worths_at_the_end([7, 7, 7]) == [1, 1, 1]
    assert worths_at_the_end([30, 60, 90]) == [0.25, 1, 2.25]
    budget, (one,) = ranked(random.Random(6), [30])
    alike = share([one, one], budget.seconds)
    late = share([one._replace(worth=0.1), one._replace(worth=2.0)], budget.seconds)
    assert len(alike[0]) == len(alike[1]) > 1
    assert len(late[0]) == 1 < len(alike[1]) <= len(late[1])


def test_the_cost_of_one_of_several():
    shared = COST.shared(4)
    assert [shared.seconds(q) for q in (1, 2, 8)] == [COST.seconds(q) for q in (4, 8, 32)]
