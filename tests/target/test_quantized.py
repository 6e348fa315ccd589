"""8 and 4 bits by torchao and bitsandbytes: how they are asked for, what is exact, what is refused. On a CPU."""

import importlib.util

import pytest
import torch
from drafting import decode_by
from tiny import COST, make, target_of

from spectra import Limits, Sampling, load_target
from spectra.errors import SpectraError
from spectra.target import quantized
from spectra.target.execution_plan import ExecutionPlan
from spectra.target.load import load_network, wrap_model
from spectra.target.quantized import LIBRARIES, library, loading_arguments, obstacle_to_exact, quantize, quantized_by

PROMPT = [5, 6, 7, 5, 6, 7, 5]
torchao = pytest.mark.skipif(importlib.util.find_spec("torchao") is None, reason="torchao is not installed")


def installed(monkeypatch, *names):
    monkeypatch.setattr(quantized, "find_spec", lambda name: name in names or None)


class Int8Params(torch.nn.Parameter):
    """As bitsandbytes names the weights of LLM.int8()."""


def test_torchao_goes_first_and_without_either_the_fix_is_named(monkeypatch):
    assert LIBRARIES == ("torchao", "bitsandbytes")
    for there, expected in ((LIBRARIES, "torchao"), (("bitsandbytes",), "bitsandbytes")):
        installed(monkeypatch, *there)
        assert library() == expected
    installed(monkeypatch)
    with pytest.raises(SpectraError, match=r"^weights: .* requirements-gpu.txt"):
        loading_arguments("int8")
    assert loading_arguments("auto") == {}


def test_what_bitsandbytes_is_asked_for(monkeypatch):
    installed(monkeypatch, "bitsandbytes")
    eight, four = (loading_arguments(weights)["quantization_config"] for weights in ("int8", "q4"))
    assert eight.load_in_8bit and not eight.load_in_4bit
    assert four.load_in_4bit and four.bnb_4bit_quant_type == "nf4"
    with pytest.raises(SpectraError, match=r"^weights: a model in memory"):
        quantize(make("llama"), "int8")


def test_rows_of_llm_int8_depend_on_each_other_and_exact_is_refused():
    model = make("llama").float()
    assert obstacle_to_exact(model) == "" and quantized_by(model) == ""
    head = model.lm_head
    head.weight = Int8Params(head.weight.data, requires_grad=False)
    assert "rows beside it" in obstacle_to_exact(model) and quantized_by(model).startswith("int8, bitsandbytes")
    with pytest.raises(SpectraError, match=r"^numerics: exact is not possible: LLM.int8"):
        wrap_model(model, numerics="exact")
    assert wrap_model(model.to(torch.bfloat16), numerics="auto").plan.numerics == "fast"


def test_a_cpu_is_refused_by_name():
    with pytest.raises(SpectraError, match=r"^weights: int8 takes a GPU here"):
        load_network("anything", device="cpu", weights="int8")
    with pytest.raises(SpectraError, match=r"^weights: 'int3' is unknown"):
        load_target("anything", weights="int3")


def written(target, method, sampling):
    steps = decode_by(target, PROMPT, method, sampling=sampling, limits=Limits(24))
    return [token for step in steps for token in step.tokens]


@torchao
@pytest.mark.parametrize("rows", [1, 4, 16])
def test_rows_of_eight_bits_by_torchao_do_not_depend_on_each_other(rows):
    layer = torch.nn.Linear(256, 128, bias=False).to(torch.bfloat16).requires_grad_(False)
    quantize(layer, "int8")
    numbers = torch.randn(rows, 256, dtype=torch.bfloat16)
    alone = layer(numbers)
    order = torch.randperm(rows)
    assert torch.equal(layer(numbers[order]), alone[order])
    other = numbers.clone()
    other[1:] *= 100
    assert torch.equal(layer(other)[0], alone[0])


@torchao
def test_a_model_in_eight_bits_decodes_the_same_tokens_speculatively():
    model = make("llama").float().requires_grad_(False)
    quantize(model, "int8")
    assert quantized_by(model).startswith("int8, torchao")
    target = wrap_model(model, numerics="fast", step="eager")
    assert target.facts["weights"] == quantized_by(model)
    for sampling in (Sampling(), Sampling(0.9, seed=2)):
        plain, ours = (written(target, method, sampling) for method in ("autoregressive", "spectra-paper-core"))
        assert plain == ours and len(plain) == 24


@torchao
def test_eight_bits_by_torchao_are_exact_in_passes_of_one_row_count():
    model = make("llama").to(torch.bfloat16).requires_grad_(False)
    quantize(model, "int8")
    target = target_of(model, ExecutionPlan("exact", "eager", chunk=4, cost=COST))
    for sampling in (Sampling(), Sampling(0.9, seed=2)):
        plain, *ours = (
            written(target, method, sampling) for method in ("autoregressive", "spectra-paper-core", "anpd")
        )
        assert all(tokens == plain for tokens in ours)
