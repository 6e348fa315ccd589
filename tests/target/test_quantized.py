"""8 and 4 bits by torchao and bitsandbytes: how they are asked for, what is exact, what is refused. On a CPU."""

import importlib
import importlib.util

import pytest
import torch
from drafting import decode_by
from tiny import COST, make, target_of
from words import tokenizer

from spectra import Limits, Sampling, load_target
from spectra.errors import SpectraError
from spectra.target import quantized
from spectra.target.bandwidth import stored_bytes
from spectra.target.execution_plan import ExecutionPlan
from spectra.target.load import load_network, wrap_model
from spectra.target.parameter_state import parameter_state
from spectra.target.quantized import (
    LIBRARIES,
    group_size,
    library,
    loading_arguments,
    obstacle_to_exact,
    quantize,
    quantized_by,
)

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
    with pytest.raises(SpectraError, match=r"^weights: .* pip install torchao$"):
        loading_arguments("int8", make("llama"))


def test_what_bitsandbytes_is_asked_for(monkeypatch):
    installed(monkeypatch, "bitsandbytes")
    eight, four = (loading_arguments(weights, make("llama"))["quantization_config"] for weights in ("int8", "q4"))
    assert eight.load_in_8bit and not eight.load_in_4bit
    assert four.load_in_4bit and four.bnb_4bit_quant_type == "nf4"
    loading_arguments("q4", make("llama"), {"model": 0, "lm_head": "cuda:1"})
    for other in ("cpu", "disk"):
        with pytest.raises(SpectraError, match=rf"^weights: bits.* names {other} too; give such a map"):
            loading_arguments("q4", make("llama"), {"model": 0, "lm_head": other})
    with pytest.raises(SpectraError, match=r"^weights: a model in memory"):
        quantize(make("llama"), "int8")


@pytest.mark.parametrize(("weights", "bits"), [("int8", 8), ("q4", 4)])
def test_a_computed_map_that_leaves_gpus_is_refused_with_what_helps(monkeypatch, tmp_path, weights, bits):
    """By transformers' own check of the map, which speaks of its own arguments and of the CPU in 32 bits."""
    installed(monkeypatch, "bitsandbytes")
    make("llama").save_pretrained(tmp_path)
    tokenizer().save_pretrained(tmp_path)
    module = importlib.import_module(f"transformers.quantizers.quantizer_bnb_{bits}bit")
    monkeypatch.setattr(module, "is_bitsandbytes_available", lambda: True)
    monkeypatch.setattr("transformers.integrations.validate_bnb_backend_availability", lambda **_: True)
    monkeypatch.setattr("spectra.target.load.check_device", lambda _: torch.device("cuda"))

    def computed(_, quantization_config, device_map, **__):
        assert device_map == "auto"
        quantizer = getattr(module, f"Bnb{bits}BitHfQuantizer")(quantization_config, pre_quantized=False)
        quantizer.validate_environment(device_map={"model": 0, "lm_head": "cpu"})

    monkeypatch.setattr("transformers.AutoModelForCausalLM.from_pretrained", computed)
    with pytest.raises(SpectraError, match=r"^weights: bitsandbytes takes GPUs alone, and by the computed device map"):
        load_network(tmp_path, weights=weights, dtype="bf16", device_map="auto")


def test_rows_of_llm_int8_depend_on_each_other_and_exact_is_refused():
    model = make("llama").float()
    assert obstacle_to_exact(model) == "" and quantized_by(model) == ""
    head = model.lm_head
    head.weight = Int8Params(head.weight.data, requires_grad=False)
    assert "rows beside it" in obstacle_to_exact(model) and quantized_by(model).startswith("int8, bitsandbytes")
    with pytest.raises(SpectraError, match=r"^numerics: exact is not possible: LLM.int8"):
        wrap_model(model, numerics="exact")
    assert wrap_model(model.to(torch.bfloat16), numerics="auto").plan.numerics == "fast"


def test_exact_numerics_that_bitsandbytes_rules_out_are_refused_before_a_model_is_loaded(monkeypatch):
    monkeypatch.setattr("spectra.target.load.check_device", lambda _: torch.device("cuda"))
    monkeypatch.setattr("spectra.target.load.load_coded_network", lambda *_, **__: pytest.fail("it was loaded"))
    installed(monkeypatch, "bitsandbytes")
    with pytest.raises(SpectraError, match=r"^numerics: exact is not possible: LLM.int8.*; use auto or fast$"):
        load_target(weights="int8", numerics="exact")


class Params4bit(torch.nn.Parameter):
    """As bitsandbytes names the weights of NF4."""


def test_a_model_that_fails_by_itself_is_told_so_with_its_weights():
    """As bitsandbytes does in 4 bits on a CPU, for widths that are no multiples of 64; our cache is not at fault."""
    model = make("llama").float()

    def broken(*_):
        raise RuntimeError("shape '[96, 0]' is invalid for input of size 72")

    model.model.layers[0].mlp.register_forward_pre_hook(broken)
    with pytest.raises(
        SpectraError, match=r"^model: .* cannot run by itself \(RuntimeError: shape .*transformers runs here"
    ):
        wrap_model(model)
    head = model.lm_head
    head.weight = Params4bit(head.weight.data, requires_grad=False)
    with pytest.raises(
        SpectraError, match=r"^model: .* by itself with its weights in q4, bitsandbytes.*; load it in other"
    ):
        wrap_model(model)


def test_a_cpu_is_refused_by_name():
    with pytest.raises(SpectraError, match=r"^weights: int8 takes a GPU here"):
        load_network("anything", device="cpu", weights="int8")
    with pytest.raises(SpectraError, match=r"^weights: 'int3' is unknown"):
        load_target("anything", weights="int3")


def test_four_bits_take_a_group_that_every_layer_can_be_cut_into():
    """torchao leaves a layer of other widths in 16 bits and says nothing: 576 inputs are those of SmolLM2-135M."""
    for widths, size in (((4096, 14336), 128), ((576, 1536), 64), ((96, 128), 32)):
        assert group_size(torch.nn.ModuleList(torch.nn.Linear(width, 1) for width in widths)) == size
    with pytest.raises(SpectraError, match=r"^weights: q4 takes layers of multiples of 32 inputs"):
        group_size(make("llama"))


class Packed(torch.Tensor):
    """A parameter as torchao makes them: it stands for 16-bit numbers and has no memory of its own."""

    def __new__(cls, numbers):
        return torch.Tensor._make_wrapper_subclass(cls, (len(numbers),), dtype=torch.bfloat16)

    def __init__(self, numbers):
        self.qdata, self.nothing = numbers, None

    def __tensor_flatten__(self):
        return ["qdata", "nothing"], {}

    def __torch_dispatch__(self, *_):
        raise NotImplementedError


def test_the_bytes_and_the_state_of_a_quantised_weight_are_those_of_what_it_holds():
    packed = Packed(torch.arange(40, dtype=torch.int8))
    assert packed.nbytes == 80 and stored_bytes(packed) == 40
    before = parameter_state([packed])
    packed.qdata.data[0] = 1
    assert before[0] == packed.qdata.data_ptr() and parameter_state([packed]) != before


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
