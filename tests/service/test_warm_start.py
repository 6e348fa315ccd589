"""A warm start: fewer passes, the same text, and only from answers by the same preset."""

import pytest
from drafting import decode_by
from tiny import COST, model_of, target_of

from spectra import Limits, Sampling
from spectra.io.recent import Recent
from spectra.methods.presets import make_method
from spectra.service.warm_start import WarmStart
from spectra.target.execution_plan import ExecutionPlan

PROMPT = [5, 9, 33, 2, 17, 40, 21]


@pytest.fixture
def target():
    return target_of(model_of("llama"), ExecutionPlan(cost=COST))


def run(target, name, warm=None, sampling=None, prompt=PROMPT):
    method = make_method(name, target, sampling=sampling)
    answers = warm.apply(method) if warm else None
    steps = list(decode_by(target, prompt, method, sampling=sampling, limits=Limits(60)))
    return [t for step in steps for t in step.tokens], len(steps), answers


@pytest.mark.parametrize("name", ["spectra-core", "spectra-paper-core", "token-recycling"])
@pytest.mark.parametrize("temperature", [0.0, 0.7], ids=["greedy", "sampled"])
def test_what_was_learned_changes_the_passes_and_not_the_text(target, name, temperature, cases):
    passes = []
    for seed in range(cases(2, 4) if temperature else 1):
        sampling = Sampling(temperature=temperature, seed=seed)
        plain, _, _ = run(target, "autoregressive", sampling=sampling)
        warm = WarmStart()
        first, cold, none = run(target, name, warm, sampling)
        second, heated, one = run(target, name, warm, sampling)
        assert first == second == plain
        assert (none, one) == (0, 1)
        assert run(target, name, sampling=sampling)[1] == cold
        passes.append((cold, heated))
    assert sum(heated for _, heated in passes) < sum(cold for cold, _ in passes), passes


def test_another_prompt_is_answered_as_ever(target):
    warm = WarmStart()
    run(target, "spectra-core", warm)
    other = PROMPT[::-1]
    plain, _, _ = run(target, "autoregressive", prompt=other)
    assert run(target, "spectra-core", warm, prompt=other)[::2] == (plain, 1)


def test_presets_do_not_share(target):
    warm = WarmStart()
    run(target, "spectra-core", warm)
    assert run(target, "spectra-paper-core", warm)[1:] == (run(target, "spectra-paper-core")[1], 0)


def test_visitors_are_apart_bounded_and_forgotten():
    starts = Recent(2)

    def of(visitor):
        return starts.get_or_make(visitor, WarmStart)

    first = of("a")
    assert of("b") is not first
    assert of("a") is first
    of("c")
    assert of("a") is first
    of("b")
    starts.drop("a")
    assert of("a") is not first
