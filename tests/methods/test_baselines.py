"""Presets of other methods: their sizes, narrow targets and targets without trees, and that their guesses do hit."""

import pytest
from drafting import TextStore, decode_by
from tiny import FAMILIES, model_of, narrow_target, target_of

from spectra import Limits, Sampling
from spectra.budget.policy import FixedBudget
from spectra.guess import Source
from spectra.methods.baselines import BASELINES
from spectra.methods.presets import make_method
from spectra.methods.resources import Resources
from spectra.target.execution_plan import ExecutionPlan

SIZES = {
    "anpd": 5,
    "lookahead": 119,
    "lookahead-7b": 55,
    "prompt-lookup": 10,
    "token-recycling": 80,
    "suffix-automaton": 16,
}


def test_sizes_of_the_presets():
    assert set(SIZES) == set(BASELINES) - {"rest", "lookahead-rest"}
    for name, size in SIZES.items():
        method = make_method(name, target_of(model_of("llama")))
        assert isinstance(method.budget, FixedBudget)
        assert (method.max_nodes, method.budget.max_nodes) == (size, size)
        assert make_method(name, target_of(model_of("llama")), nodes=3).max_nodes == 3
        narrow = narrow_target(model_of("llama"), 4)
        assert make_method(name, narrow).max_nodes == 3
    assert make_method("lookahead", target_of(model_of("llama"))).drafters[0].window == 15
    assert make_method("lookahead", target_of(model_of("llama")), nodes=63).drafters[0].window == 8


def test_the_union_of_lookahead_and_rest_keeps_their_sizes():
    target = target_of(model_of("llama"))
    resources = Resources([TextStore(range(64), refined=False)])
    method = make_method("lookahead-rest", target, resources)
    window, store = method.drafters
    assert (method.max_nodes, window.window, store.max_nodes) == (119 + 64, 15, 64)
    window, store = make_method("lookahead-rest", target, resources, nodes=63).drafters
    assert (window.window, store.max_nodes) == (5, 23)
    sources = {s for step in decode_by(target, list(range(30)), method, limits=Limits(60)) for s in step.tree.sources}
    assert {(Source.NGRAM,), (Source.RETRIEVAL,), (Source.POOL,)} <= sources


@pytest.mark.parametrize("name", SIZES)
def test_guesses_do_get_accepted(name):
    """The equality tests would pass with a drafter that never guesses."""
    steps = list(decode_by(target_of(model_of("gpt2")), list(range(30)), name, limits=Limits(160)))
    assert sum(len(step.path) for step in steps) >= 5
    assert max(len(step.tree) for step in steps) <= SIZES[name] + 1


@pytest.mark.parametrize("name", SIZES)
def test_a_target_without_trees_gets_chains(name):
    model = model_of("gpt2")
    plain = [t for s in decode_by(target_of(model), [1, 2, 3], "autoregressive", limits=Limits(40)) for t in s.tokens]
    steps = list(decode_by(target_of(model, ExecutionPlan(trees=False)), [1, 2, 3], name, limits=Limits(40)))
    assert [t for s in steps for t in s.tokens] == plain
    assert all(s.tree.parents == tuple(range(-1, len(s.tree) - 1)) for s in steps)


@pytest.mark.parametrize("name", SIZES)
def test_end_of_sequence_is_never_guessed(name):
    target = target_of(model_of("llama"))
    method = make_method(name, target)
    eos = frozenset({3, 7, 11, 20, 31})
    for drafter in method.drafters:
        drafter.banned = eos
    guessed = 0
    for step in decode_by(target, [3, 7, *range(40), 3, 7], method, limits=Limits(60)):
        assert not eos & set(step.tree.tokens[1:])
        guessed += len(step.tree) - 1
    assert guessed > 30


def test_the_families_all_take_part():
    """Every preset on every family, sampled; the random cases cover the rest."""
    for family in FAMILIES:
        for name in SIZES:
            sampling = Sampling(temperature=0.8, seed=4)
            target = target_of(model_of(family))
            both = [
                [t for s in decode_by(target, [1, 2, 1, 2], m, sampling=sampling, limits=Limits(12)) for t in s.tokens]
                for m in ("autoregressive", name)
            ]
            assert both[0] == both[1], (family, name)
