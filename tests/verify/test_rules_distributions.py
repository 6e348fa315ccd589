"""Every rule keeps the target's distribution: summed over all drafts, and in 100,000 draws. Wrong rules are caught."""

from itertools import pairwise

import numpy as np
import pytest
from distributions import PAIRS, distinct, hubbed, independent, output_distribution, plausibility, random_pairs
from naive import Naive

from spectra.verify.rules.chain import Chain
from spectra.verify.rules.draws import sample, softmax, top, without
from spectra.verify.rules.multistep import MultiStep, WithoutReplacement
from spectra.verify.rules.protocol import Verdict, accept
from spectra.verify.rules.spechub import SpecHub

DRAWS = 100_000
UNLIKELY = 1e-4  # seeds are fixed: a right rule passes for good, a wrong one has a p-value of nothing

RULES = {
    "chain": (Chain(), 1, independent),
    "mss": (MultiStep(), 3, lambda q: independent(q, q, q)),
    "rrs": (MultiStep(), 2, lambda q: independent(q, q)),
    "rrsw": (WithoutReplacement(), 2, lambda q: distinct(q, 2)),
    "rrsw-3": (WithoutReplacement(), 3, lambda q: distinct(q, 3)),
    "spechub": (SpecHub(), 2, hubbed),
    "naive": (Naive(), 2, lambda q: independent(q, q)),
}


def outcomes(rule, p, q, drafts, generator):
    """How often each token came out, [V], one output a row of drafts."""
    counts, verdicts = np.zeros(len(p)), {}
    for tokens in map(tuple, drafts.tolist()):
        if tokens not in verdicts:
            verdicts[tokens] = rule.verdict(p, [q] * len(tokens), tokens)
        counts[verdicts[tokens].draw(tokens, generator)[1]] += 1
    return counts


@pytest.mark.parametrize("name", [name for name in RULES if name != "rrsw-3"])
@pytest.mark.parametrize("pair", ["random", "peaked"])
def test_a_hundred_thousand_draws_have_the_targets_distribution(name, pair):
    (rule, k, _), (p, q) = RULES[name], PAIRS[pair]
    generator = np.random.default_rng(7)
    assert plausibility(outcomes(rule, p, q, rule.draft(q, k, generator, DRAWS), generator), p) > UNLIKELY


@pytest.mark.parametrize("name", RULES)
def test_drafts_are_drawn_as_the_rule_says(name):
    rule, k, joint = RULES[name]
    generator = np.random.default_rng(1)
    for p, q in [*PAIRS.values(), *random_pairs(6, 5, seed=3)]:
        expected = joint(q)
        cells = {tokens: i for i, tokens in enumerate(expected)}
        drafts, counts = np.unique(rule.draft(q, k, generator, 10_000), axis=0, return_counts=True)
        found = np.zeros(len(cells))
        found[[cells[tuple(tokens)] for tokens in drafts.tolist()]] = counts
        assert plausibility(found, list(expected.values())) > UNLIKELY, (p, q)


@pytest.mark.parametrize("name", [name for name in RULES if name not in ("mss", "rrsw-3")])
def test_the_distribution_is_exact_on_400_pairs(name, cases):
    rule, k, joint = RULES[name]
    for p, q in random_pairs(400, cases(4, 5)):
        distribution, accepted = output_distribution(rule, p, [q] * k, joint(q))
        assert np.abs(distribution - p).max() < 1e-10, (p, q)
        assert abs(accepted.sum() - rule.acceptance(p, q, k)) < 1e-10, (p, q)


@pytest.mark.parametrize("name", ["mss", "rrsw-3"])
def test_the_distribution_of_three_drafts_is_exact(name):
    rule, k, joint = RULES[name]
    for p, q in random_pairs(40, 4, seed=1):
        distribution, accepted = output_distribution(rule, p, [q] * k, joint(q))
        assert np.abs(distribution - p).max() < 1e-10, (p, q)
        assert abs(accepted.sum() - rule.acceptance(p, q, k)) < 1e-10, (p, q)


def test_drafts_of_several_models_keep_the_distribution():
    pairs = list(random_pairs(60, 4, seed=2))
    for (p, q), (_, other) in pairwise(pairs):
        for rule in (MultiStep(), Naive()):
            distribution, _ = output_distribution(rule, p, [q, other], independent(q, other))
            assert np.abs(distribution - p).max() < 1e-10


def test_a_models_top_k_under_multistep_is_caught():
    p, q = np.array([0.5, 0.5]), np.array([0.6, 0.4])
    distribution, _ = output_distribution(
        MultiStep(), p, [q, q], {(0, 1): 0.5, (1, 0): 0.5}
    )  # both children, in either order
    assert distribution[0] == pytest.approx(5 / 12)
    p, q = PAIRS["random"]
    counts = outcomes(MultiStep(), p, q, np.tile(top(q, 2), (DRAWS, 1)), np.random.default_rng(7))
    assert plausibility(counts, p) < 1e-12


def test_testing_a_token_once_that_was_drawn_twice_is_caught():
    p, q = PAIRS["random"]
    distribution = np.zeros(len(p))
    for tokens, chance in independent(q, q).items():
        once = tuple(dict.fromkeys(tokens))
        distribution += chance * output_distribution(MultiStep(), p, [q] * len(once), {once: 1.0})[0]
    assert np.abs(distribution - p).max() > 0.01


def test_a_draw_for_every_child_of_its_own_is_caught():
    """REST's shortcut: each child against a fresh draw of the target."""
    p, _ = PAIRS["peaked"]
    taken = 1 - (1 - p[1]) ** 4  # a token drafted in four rows
    assert plausibility(np.random.default_rng(0).multinomial(DRAWS, [taken, 1 - taken]), [p[1], 1 - p[1]]) < 1e-12


def test_the_inverted_ratio_is_caught():
    p, q = PAIRS["random"]
    distribution = q * np.minimum(1, q / p)
    distribution += (1 - distribution.sum()) * np.maximum(p - q, 0) / np.maximum(p - q, 0).sum()
    assert np.abs(distribution - p).max() > 0.01


@pytest.mark.parametrize("name", RULES)
def test_equal_distributions_accept_nearly_always(name):
    rule, k, _ = RULES[name]
    q = PAIRS["random"][1]
    assert rule.acceptance(q, q, k) == pytest.approx(1.0) or name == "naive"
    tokens = tuple(rule.draft(q, k, np.random.default_rng(0))[0])
    assert np.isfinite(rule.verdict(q, [q] * k, tokens).residual).all()


@pytest.mark.parametrize("name", [name for name in RULES if name != "chain"])
def test_at_temperature_0_the_drafts_are_the_best_and_the_targets_token_is_taken(name):
    rule, k, _ = RULES[name]
    generator = np.random.default_rng(5)
    for scores, wanted in generator.standard_normal((50, 2, 6)):
        q, p, drafts = np.eye(6)[scores.argmax()], np.eye(6)[wanted.argmax()], top(scores, k)
        accepted, token = accept(rule, p, [q] * k, drafts, generator)
        assert token == wanted.argmax()
        assert accepted == (drafts.index(token) if token in drafts else None)


@pytest.mark.parametrize("name", ["rrsw", "rrsw-3", "spechub"])
def test_a_cold_draft_is_the_top(name):
    rule, k, _ = RULES[name]
    scores = np.random.default_rng(4).standard_normal(6)
    assert tuple(rule.draft(softmax(scores, 0.01), k, np.random.default_rng(0))[0]) == top(scores, k)


def test_of_equal_scores_the_lowest_ids_are_the_top():
    scores = np.zeros(1000)
    scores[[700, 30, 400]] = 1.0
    assert top(scores, 5) == (30, 400, 700, 0, 1)


def test_a_draft_that_is_sure_of_one_token_still_gives_others():
    q = np.eye(4)[2]
    for rule in (SpecHub(), WithoutReplacement()):
        pairs, counts = np.unique(rule.draft(q, 2, np.random.default_rng(0), 3000), axis=0, return_counts=True)
        assert pairs.tolist() == [[2, 0], [2, 1], [2, 3]] and counts.min() > 800


def test_without_drafts_the_token_is_the_targets():
    p = PAIRS["random"][0]
    drawn = [accept(SpecHub(), p, [], [], np.random.default_rng(seed)) for seed in range(50)]
    assert {accepted for accepted, _ in drawn} == {None} and len({token for _, token in drawn}) > 3


def test_zero_weights_are_never_drawn_and_full_ones_always():
    class Last:
        def random(self, shape=None):
            return np.full(shape, np.nextafter(1.0, 0)) if shape else np.nextafter(1.0, 0)

    assert sample(np.array([0.2, 0.1 * 3, 0.1, 0.0]), Last(), 2).tolist() == [2, 2]
    assert sample(np.array([0.0, 0.0, 3.0, 0.0]), np.random.default_rng(0), 5).tolist() == [2] * 5
    assert Verdict((0.25, 0.75), np.array([1.0, 0.0])).draw((1, 1), Last()) == (1, 1)


def test_counts_of_drafts_that_a_rule_cannot_serve_are_refused():
    q = PAIRS["random"][1]
    for rule, k in ((Chain(), 2), (SpecHub(), 3)):
        with pytest.raises(ValueError, match="draft"):
            rule.draft(q, k, np.random.default_rng(0))
        with pytest.raises(ValueError, match="draft"):
            rule.verdict(q, [q] * k, [0] * k)
    with pytest.raises(ValueError, match="leave none"):
        without(q[:2], np.array([[0, 1]]))
    with pytest.raises(ValueError, match="likeliest"):
        SpecHub().verdict(q, [q, q], (0, 2))
