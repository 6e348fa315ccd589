"""Optimal transport is a bound no test passes; SpecHub reaches it for its own pairs, and accepts the hub with p(a)."""

import sys
from itertools import chain, combinations, product

import numpy as np
import pytest
from distributions import PAIRS, distinct, hubbed, independent, output_distribution, random_pairs
from scipy.optimize import linprog

from spectra.errors import SpectraError
from spectra.verify.rules.multistep import MultiStep, WithoutReplacement
from spectra.verify.rules.protocol import Verdict
from spectra.verify.rules.spechub import SpecHub
from spectra.verify.rules.transport import Transport, solve

EXACTLY = {"presolve": False, "primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}


def table(distribution, size):
    joint = np.zeros((size, size))
    for pair, chance in distribution.items():
        joint[pair] = chance
    return joint


def full_transport(p, joint):
    """The program before it is reduced: couplings of all pairs with all tokens, cost 1 for a token not in the pair."""
    size = len(p)
    cells = list(product(range(size), repeat=3))
    cost = [float(y not in (a, b)) for a, b, y in cells]
    equal = np.zeros((size * size + size, len(cells)))
    for column, (a, b, y) in enumerate(cells):
        equal[a * size + b, column] = equal[size * size + y, column] = 1.0
    found = linprog(cost, A_eq=equal, b_eq=np.concatenate([joint.ravel(), p]), method="highs", options=EXACTLY)
    return 1.0 - found.fun


def smallest_cut(p, joint):
    """The same value without a program: the dual, over all sets of tokens."""
    tokens = range(len(p))
    sets = [list(s) for s in chain.from_iterable(combinations(tokens, n) for n in range(len(p) + 1))]
    return min(p[s].sum() + 1.0 - joint[np.ix_(s, s)].sum() for s in sets)


@pytest.mark.parametrize("distribution", [hubbed, lambda q: independent(q, q), lambda q: distinct(q, 2)])
def test_the_reduced_program_equals_optimal_transport(distribution):
    for p, q in random_pairs(40, 4, seed=5):
        joint = table(distribution(q), 4)
        reduced = solve(p, joint).value
        assert abs(reduced - full_transport(p, joint)) < 1e-8, (p, q)
        assert abs(reduced - smallest_cut(p, joint)) < 1e-8, (p, q)


def test_spechub_reaches_the_optimum_of_its_pairs():
    for p, q in random_pairs(100, 6, seed=6):
        assert abs(SpecHub().acceptance(p, q, 2) - smallest_cut(p, table(hubbed(q), 6))) < 1e-10, (p, q)
    for p, q in random_pairs(20, 5, seed=7):
        assert abs(SpecHub().acceptance(p, q, 2) - solve(p, table(hubbed(q), 5)).value) < 1e-8, (p, q)


def test_the_hub_is_accepted_as_often_as_the_target_wants_it():
    for p, q in random_pairs(400, 6, seed=8):
        hub, taken = int(np.argmax(q)), 0.0
        for tokens, chance in hubbed(q).items():
            taken += chance * SpecHub().verdict(p, [q, q], tokens).chances[tokens.index(hub)]
        assert abs(taken - p[hub]) < 1e-10, (p, q)


def test_a_shortcut_for_a_sure_target_is_caught():
    """Taking the hub outright where p is above 0.999 is nearly right, and not right."""

    class Hasty(SpecHub):
        def verdict(self, p, qs, tokens):
            hub = np.argmax(qs[0])
            return Verdict(tuple(float(token == hub) for token in tokens), p)

    p, q = np.array([0.9992, 0.0006, 0.0002]), np.array([0.6, 0.3, 0.1])
    assert np.abs(output_distribution(SpecHub(), p, [q, q], hubbed(q))[0] - p).max() < 1e-12
    assert np.abs(output_distribution(Hasty(), p, [q, q], hubbed(q))[0] - p).max() > 5e-4


def test_no_test_beats_transport():
    for p, q in random_pairs(60, 5, seed=9):
        best, best_distinct = Transport(replace=True).acceptance(p, q), Transport(replace=False).acceptance(p, q)
        assert MultiStep().acceptance(p, q, 2) <= best + 1e-8
        assert WithoutReplacement().acceptance(p, q, 2) <= best_distinct + 1e-8


@pytest.mark.parametrize(
    ("replace", "distribution"), [(True, lambda q: independent(q, q)), (False, lambda q: distinct(q, 2))]
)
def test_transport_keeps_the_targets_distribution(replace, distribution):
    rule = Transport(replace=replace)
    for p, q in random_pairs(12, 4, seed=10):
        assert np.allclose(rule.joint(q), table(distribution(q), 4), atol=1e-14)
        out, accepted = output_distribution(rule, p, [q, q], distribution(q))
        assert np.abs(out - p).max() < 1e-8, (p, q)
        assert abs(accepted.sum() - rule.acceptance(p, q)) < 1e-8
    drafts = rule.draft(PAIRS["peaked"][1], 2, np.random.default_rng(0), 1000)
    assert (drafts[:, 0] == drafts[:, 1]).any() == replace


def test_transport_without_scipy_says_what_to_do(monkeypatch):
    monkeypatch.setitem(sys.modules, "scipy.optimize", None)
    with pytest.raises(SpectraError, match="pip install scipy"):
        Transport(replace=True).acceptance(*PAIRS["random"])


def test_transport_tests_pairs_only():
    with pytest.raises(ValueError, match="2 drafts"):
        Transport(replace=True).draft(PAIRS["random"][1], 3, np.random.default_rng(0))
