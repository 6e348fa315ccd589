"""On a GPU, where there is one: real captures and kernels give what plain steps give. No stand-ins here."""

import random

import pytest
import torch
from batches import alone
from drafting import Scripted, TextMemory, TextStore, decode_by, method_of
from tiny import VOCABULARY, make

from spectra import Limits, Request, Sampling, decode_many
from spectra.methods.presets import METHODS, make_method, redraws
from spectra.methods.resources import Resources
from spectra.target.draft_model import DraftModel
from spectra.target.load import wrap_model

if not torch.cuda.is_available():
    pytest.skip("no CUDA GPU", allow_module_level=True)

PROMPT = [5, 9, 33, 2, 17, 40, 21]
FAMILIES = ("llama", "qwen2", "gemma3", "gpt2")
CHOICES = (Sampling(), Sampling(0.8, seed=3))
FAST = ("graphs", "flash-eager", "flash")
KNOWN = {}


def on_gpu(family, dtype, step, numerics):
    """A target on the GPU, measured once."""
    key = (family, dtype, step, numerics)
    if key not in KNOWN:
        KNOWN[key] = wrap_model(make(family).to("cuda", dtype), numerics=numerics, step=step)
    return KNOWN[key]


def answer(target, method, count=60, sampling=None, prompt=PROMPT):
    steps = decode_by(target, prompt, method, sampling=sampling, limits=Limits(count))
    return [token for step in steps for token in step.tokens]


@pytest.mark.parametrize("sampling", CHOICES, ids=("greedy", "sampled"))
@pytest.mark.parametrize("step", ["eager", "graphs"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
@pytest.mark.parametrize("family", FAMILIES)
def test_exact_steps_write_what_plain_decoding_writes(family, dtype, step, sampling):
    target = on_gpu(family, dtype, step, "exact")
    assert target.plan.exact
    assert target.plan.step == step
    truth = answer(target, "autoregressive", sampling=sampling)
    for kind in ("branches", "almost", "chaos", "deep"):
        drafter = Scripted(kind, truth, len(PROMPT), vocabulary=VOCABULARY)
        assert answer(target, method_of([drafter], 90), sampling=sampling) == truth
    if step == "graphs":
        assert not target.steps.broken
        assert answer(on_gpu(family, dtype, "eager", "exact"), "autoregressive", sampling=sampling) == truth


@pytest.mark.parametrize("step", FAST)
@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_fast_steps_are_taken_on_the_gpu(family, step):
    """bf16: a flash kernel takes nothing wider."""
    target = on_gpu(family, torch.bfloat16, step, "fast")
    assert target.plan.step == step
    truth = answer(target, "autoregressive")
    drafter = Scripted("branches", truth, len(PROMPT), vocabulary=VOCABULARY)
    assert len(answer(target, method_of([drafter], 40))) == len(truth)
    assert not target.steps.broken


@pytest.mark.parametrize("family", FAMILIES)
def test_graphs_in_fp32_write_what_plain_decoding_writes(family):
    target = on_gpu(family, torch.float32, "graphs", "fast")
    truth = answer(target, "autoregressive")
    for kind in ("branches", "chaos"):
        drafter = Scripted(kind, truth, len(PROMPT), vocabulary=VOCABULARY)
        assert answer(target, method_of([drafter], 40)) == truth
    assert not target.steps.broken


@pytest.mark.parametrize("family", FAMILIES)
def test_the_step_by_default_is_exact(family):
    target = on_gpu(family, torch.bfloat16, "auto", "auto")
    assert target.plan.exact
    assert not target.plan.note
    truth = answer(target, "autoregressive")
    assert answer(target, "spectra-paper-core") == truth


def method_by(name, target, sampling, nodes=None):
    """A preset with everything it can draft from, on the GPU too."""
    dice = random.Random(name)
    text = [dice.randrange(VOCABULARY) for _ in range(200)]
    draft = DraftModel(on_gpu("llama", torch.bfloat16, "eager", "exact"))
    resources = Resources([TextStore(text, refined=kind) for kind in (True, False)], [draft], TextMemory(text))
    return make_method(name, target, resources, nodes=nodes, sampling=sampling)


@pytest.mark.parametrize("step", ["eager", "graphs"])
@pytest.mark.parametrize("family", ["qwen2", "gemma3"])
def test_many_at_once_write_what_each_writes_alone(family, step):
    target = on_gpu(family, torch.bfloat16, step, "exact")
    dice = random.Random(f"gpu {family}")

    def requests():
        for number, name in enumerate(METHODS):
            sampling = CHOICES[number % 2]
            prompt = PROMPT * (1 + number % 4 * 5)
            yield Request(prompt, method_by(name, target, sampling, 12), sampling, Limits(10 + number))

    truths = [alone(target, request) for request in requests()]
    got = [[] for _ in truths]
    for number, taken in decode_many(target, requests(), at_once=dice.choice((3, 8))):
        got[number] += taken.tokens
    assert got == truths


@pytest.mark.parametrize("name", METHODS)
def test_every_method_is_exact(name):
    target = on_gpu("qwen2", torch.bfloat16, "graphs", "exact")
    for sampling in CHOICES:
        if not redraws(name, sampling):
            truth = answer(target, "autoregressive", 40, sampling)
            assert answer(target, method_by(name, target, sampling), 40, sampling) == truth
        else:
            assert len(answer(target, method_by(name, target, sampling), 40, sampling)) == 40
