"""A warm start: fewer passes, the same text, and only from answers by the same preset."""

import pytest
from tiny import COST, model_of, target_of

from spectra import Limits, Sampling, decode
from spectra.methods import make_method
from spectra.target.plan import Plan
from spectra.warm import Visits, Warm

PROMPT = [5, 9, 33, 2, 17, 40, 21]


@pytest.fixture
def target():
    return target_of(model_of("llama"), Plan(cost=COST))


def run(target, name, warm=None, sampling=None, prompt=PROMPT):
    method = make_method(name, target, sampling=sampling)
    answers = warm.heat(method) if warm else None
    steps = list(decode(target, prompt, method, sampling=sampling, limits=Limits(60)))
    return [t for step in steps for t in step.tokens], len(steps), answers


@pytest.mark.parametrize("name", ["spectra-core", "spectra-paper-core", "token-recycling"])
@pytest.mark.parametrize("sampling", [Sampling(), Sampling(temperature=0.7, seed=3)], ids=["greedy", "sampled"])
def test_what_was_learned_changes_the_passes_and_not_the_text(target, name, sampling):
    plain, _, _ = run(target, "autoregressive", sampling=sampling)
    warm = Warm()
    first, cold, none = run(target, name, warm, sampling)
    second, heated, one = run(target, name, warm, sampling)
    assert first == second == plain
    assert heated < cold
    assert (none, one) == (0, 1)
    assert run(target, name, sampling=sampling)[1] == cold


def test_another_prompt_is_answered_as_ever(target):
    warm = Warm()
    run(target, "spectra-core", warm)
    other = PROMPT[::-1]
    plain, _, _ = run(target, "autoregressive", prompt=other)
    assert run(target, "spectra-core", warm, prompt=other)[::2] == (plain, 1)


def test_presets_do_not_share(target):
    warm = Warm()
    run(target, "spectra-core", warm)
    assert run(target, "spectra-paper-core", warm)[1:] == (run(target, "spectra-paper-core")[1], 0)


def test_visits_are_apart_bounded_and_forgotten():
    visits = Visits(most=2)
    first = visits.of("a")
    assert visits.of("b") is not first
    assert visits.of("a") is first
    visits.of("c")
    assert visits.of("a") is first
    visits.of("b")
    visits.drop("a")
    assert visits.of("a") is not first
