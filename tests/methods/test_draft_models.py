"""Presets with draft models: plain decoding's text when greedy, its distribution when sampled, and their sizes.

300 sampled outputs a preset, 100,000 with `--all-cases`.
"""

from collections import Counter

import numpy as np
import pytest
import torch
from distributions import plausibility
from drafting import decode_by
from tables import TableDraft, Tables, TableTarget
from tiny import FAMILIES, make, model_of, narrow_target, target_of

from spectra import Limits, Sampling
from spectra.guess import Source
from spectra.methods.draft_models import DRAFT_MODELS, binary, chain, specinfer
from spectra.methods.preset import Setup
from spectra.methods.presets import make_method, redraws
from spectra.methods.resources import Resources
from spectra.target.draft_model import DraftModel
from spectra.target.execution_plan import ExecutionPlan
from spectra.verify.picks import processors_of
from spectra.verify.rules.multistep import MultiStep
from spectra.verify.rules.spechub import SpecHub

UNLIKELY = 1e-4
TARGET = Tables(1, 3, 3)
NEAR, OTHER = Tables(2, 3, 3, TARGET), Tables(3, 3, 3, TARGET)
DRAWN = [name for name, preset in DRAFT_MODELS.items() if preset.drawn]


def tokens_of(steps):
    return [token for step in steps for token in step.tokens]


def drafts(*families, seed=7, dtype=torch.float64):
    return [DraftModel(target_of(model_of(family, dtype, seed + i))) for i, family in enumerate(families)]


def drafted(family="llama", *others, plan=None, seed=7):
    """(target, resources). seed: 0 gives drafts of the target's own weights."""
    return target_of(model_of(family), plan), Resources(drafts=drafts(*(others or ("llama", "gpt2")), seed=seed))


@pytest.mark.parametrize("name", DRAWN)
def test_sampled_outputs_have_the_targets_distribution(name, cases):
    """Three tokens by the whole loop: grow, score, walk, cut, go on."""
    target, resources = TableTarget(TARGET), Resources(drafts=[TableDraft(NEAR), TableDraft(OTHER)])
    counts = Counter()
    for seed in range(cases(300, 100_000)):
        steps = decode_by(target, [0], name, resources=resources, sampling=Sampling(1.0, seed=seed), limits=Limits(3))
        counts[tuple(tokens_of(steps))] += 1
    seen = np.array([counts[out] for out in TARGET.outputs], dtype=float)
    assert plausibility(seen, TARGET.distribution()) > UNLIKELY


SAMPLINGS = [Sampling(0.8, top_k=5), Sampling(1.3, top_p=0.8, min_p=0.02), Sampling(0.9, repetition_penalty=1.4)]


@pytest.mark.parametrize(
    ("build", "sampling"),
    zip((chain(2), specinfer((2, 1)), binary(SpecHub(), 1)), SAMPLINGS, strict=True),
    ids=["chain", "tree", "pair"],
)
def test_processors_of_the_answer_shape_what_is_written(build, sampling, cases):
    """Real models over eight tokens against the stock model's own distribution of two of them."""
    model, prompt, size = make("llama", vocab_size=8), [3, 1, 4], 8
    target = target_of(model)
    resources = Resources(drafts=[DraftModel(target_of(make(kind, 5, vocab_size=8))) for kind in ("llama", "gpt2")])
    distribution = np.zeros((size, size))
    process = processors_of(sampling)

    def row(tokens):
        with torch.inference_mode():
            scores = process(torch.tensor([tokens]), model(torch.tensor([tokens])).logits[:, -1].float())
        return torch.softmax(scores.double(), -1)[0].numpy()

    for first, chance in enumerate(row(prompt)):
        distribution[first] = chance * row([*prompt, first])
    counts = np.zeros((size, size))
    for seed in range(cases(100, 1000)):
        this = _seeded(sampling, seed)
        steps = decode_by(
            target, prompt, build(Setup("", target, resources, None, this)), sampling=this, limits=Limits(2)
        )
        counts[tuple(tokens_of(steps))] += 1
    assert plausibility(counts.ravel(), distribution.ravel()) > UNLIKELY
    flat = np.full((size, size), 1 / size**2)
    assert plausibility(counts.ravel(), flat.ravel()) < UNLIKELY


def _seeded(sampling, seed):
    return Sampling(
        sampling.temperature, sampling.top_k, sampling.top_p, sampling.min_p, sampling.repetition_penalty, seed
    )


@pytest.mark.parametrize("name", DRAFT_MODELS)
def test_greedy_output_is_plain_decodings(name, cases):
    """Two families each, or all of them; `test_exactness.py` has random pairs."""
    at = list(DRAFT_MODELS).index(name) % len(FAMILIES)
    some = ((FAMILIES[at], FAMILIES[at - 1]), (FAMILIES[at - 2], FAMILIES[at - 2]))
    for family, other in cases(some, [*zip(FAMILIES, (*FAMILIES[1:], "llama"), strict=True), *some]):
        target, resources = drafted(family, other, "llama")
        steps = [
            decode_by(target, [5, 9, 5], m, resources=resources, limits=Limits(14)) for m in ("autoregressive", name)
        ]
        both = list(map(tokens_of, steps))
        assert both[0] == both[1], family


def test_naive_sampling_writes_what_plain_decoding_writes(cases):
    target, resources = drafted()
    for seed in range(cases(4, 40)):
        sampling = Sampling(0.9, top_k=9, seed=seed)
        both = [
            tokens_of(decode_by(target, [5, 9], m, resources=resources, sampling=sampling, limits=Limits(12)))
            for m in ("autoregressive", "specinfer-naive")
        ]
        assert both[0] == both[1]


@pytest.mark.parametrize("name", DRAFT_MODELS)
def test_the_same_seed_gives_the_same_text(name):
    target, resources = drafted()
    texts = [
        tokens_of(
            decode_by(target, [5, 9], name, resources=resources, sampling=Sampling(1.5, seed=seed), limits=Limits(16))
        )
        for seed in (1, 1, 2)
    ]
    assert texts[0] == texts[1] != texts[2]


@pytest.mark.parametrize("name", DRAFT_MODELS)
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_draft_that_is_the_target_is_accepted_to_the_end(name, temperature):
    """And what it wrote carries the draft model's name."""
    target, resources = drafted("llama", "llama", seed=0)
    sampling = Sampling(temperature, seed=3)
    steps = list(decode_by(target, [5, 9], name, resources=resources, sampling=sampling, limits=Limits(30)))
    accepted = sum(len(step.path) for step in steps)
    if name == "specinfer-naive" and temperature:
        assert accepted > 0
    else:
        assert {len(step.path) for step in steps[:-1]} == {8 if name.startswith("specinfer") else 4}
    sources = [source for step in steps for source in step.sources]
    assert sources.count(Source.DRAFT) == accepted


def test_two_draft_models_grow_one_tree():
    target, resources = drafted()
    for temperature in (0.0, 1.2):
        sampling = Sampling(temperature, seed=3)
        steps = list(decode_by(target, [5, 9], "specinfer", resources=resources, sampling=sampling, limits=Limits(20)))
        assert {Source.DRAFT, Source.SECOND} <= {s for step in steps for node in step.tree.sources for s in node}
        assert max(len(step.tree) for step in steps) <= 41
        for step in steps:
            places = list(zip(step.tree.parents, step.tree.tokens, strict=True))
            assert len(set(places)) == len(places)


SIZES = {"draft-model": 4, "specinfer": 40, "specinfer-naive": 40, "spechub": 30, "rrs": 30, "rrsw": 30}


def test_sizes_of_the_presets():
    assert set(SIZES) == set(DRAFT_MODELS)
    target, resources = drafted()
    narrow = narrow_target(model_of("llama"), 8)
    for name, size in SIZES.items():
        assert make_method(name, target, resources).max_nodes == size
        assert make_method(name, target, resources, nodes=5).max_nodes <= 5
        assert make_method(name, narrow, resources).max_nodes <= 7
    assert make_method("spechub", target, resources, nodes=1).max_nodes == 0  # a pair does not fit
    setup = Setup("", target, resources)
    assert chain(2)(setup).max_nodes == 2
    assert binary(SpecHub(), 5)(setup).max_nodes == 62
    assert specinfer((2,))(setup).max_nodes == 4
    lean = binary(MultiStep(), 3, (0.7, 0.1))(setup).drafters[0].shape
    assert (len(lean), max(map(len, lean))) == (7, 6)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_an_unbalanced_tree_is_walked_like_any_other(temperature):
    target, resources = drafted("llama", "llama", seed=0)
    setup = Setup("", target, resources, None, Sampling(temperature, seed=5))
    method = binary(SpecHub(), 3, (0.8, 0.15))(setup)
    steps = list(decode_by(target, [5, 9], method, sampling=Sampling(temperature, seed=5), limits=Limits(24)))
    assert max(len(step.path) for step in steps) > 4
    assert max(len(step.tree) for step in steps) <= 15


@pytest.mark.parametrize("name", DRAFT_MODELS)
def test_a_target_without_trees_gets_chains(name):
    target, resources = drafted(plan=ExecutionPlan(trees=False))
    for temperature in (0.0, 1.0):
        sampling = Sampling(temperature, seed=4)
        steps = list(decode_by(target, [5, 9], name, resources=resources, sampling=sampling, limits=Limits(10)))
        assert all(step.tree.parents == tuple(range(-1, len(step.tree) - 1)) for step in steps)
        if not redraws(name, sampling):
            assert tokens_of(steps) == tokens_of(
                decode_by(target, [5, 9], "autoregressive", sampling=sampling, limits=Limits(10))
            )


@pytest.mark.parametrize("name", ["draft-model", "specinfer"])
def test_answers_end_where_they_are_told_to(name):
    """At an end-of-sequence id in the middle of an accepted run, and at the length."""
    target, resources = drafted("llama", "llama", seed=0)
    sampling = Sampling(1.0, seed=8)
    whole = tokens_of(decode_by(target, [5, 9], name, resources=resources, sampling=sampling, limits=Limits(11)))
    assert len(whole) == 11
    stop = whole[6]
    limits = Limits(11, frozenset({stop}))
    cut = list(decode_by(target, [5, 9], name, resources=resources, sampling=sampling, limits=limits))
    assert tokens_of(cut) == whole[: whole.index(stop) + 1]
    assert cut[-1].finish == "eos"


def test_a_text_that_outgrows_the_draft_model_goes_on_without_it():
    target = target_of(model_of("llama"))
    resources = Resources(drafts=[DraftModel(target_of(make("llama", max_position_embeddings=24)))])
    for temperature in (0.0, 1.0):
        sampling = Sampling(temperature)
        steps = decode_by(target, [5] * 12, "draft-model", resources=resources, sampling=sampling, limits=Limits(20))
        steps = list(steps)
        assert [len(step.tree) > 1 for step in steps] == sorted((len(step.tree) > 1 for step in steps), reverse=True)
        assert len(steps[0].tree) > 1 == len(steps[-1].tree)
        assert len(tokens_of(steps)) == 20
