"""A model that is changed after it was loaded: steps read what it is now, or say that they cannot."""

import copy

import pytest
import torch
from compiled import needs_native
from tiny import COST, make, target_of
from transformers import AttentionInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.models.llama.modeling_llama import LlamaAttention, LlamaForCausalLM, LlamaMLP

from spectra.errors import SpectraError
from spectra.target.execution_plan import ExecutionPlan
from spectra.target.huggingface import Execution
from spectra.target.native.llama import LlamaStep
from spectra.target.native.parameters import fill_parameters
from spectra.target.native.steps import native_steps
from spectra.target.preflight import Probe, measure_execution
from spectra.target.weights import quantise

PROMPT = [1, 2, 3, 4, 5, 6, 7, 8]


@pytest.fixture(autouse=True)
def native():
    needs_native()


def wrapped(model, codes=None):
    """A target whose steps are native, nothing measured."""
    target = target_of(model, ExecutionPlan("exact", "native", cost=COST))
    target.use(Execution(target.plan, native_steps(target, "native", codes or {}, None)))
    return target


def logits(target):
    with Probe(target, PROMPT, 1) as session, torch.inference_mode():
        return target.forward(session.cache, [PROMPT[-1]], [[0]], [0])


def test_a_model_that_was_asked_for_hidden_states_is_not_hooked():
    """transformers leaves its hooks on it, which do nothing in other passes."""
    model = make("llama")
    target = wrapped(model)
    before = logits(target)
    assert model(torch.tensor([PROMPT]), output_hidden_states=True).hidden_states
    assert any(module._forward_hooks for module in model.modules())
    assert torch.equal(logits(target), before) and wrapped(model).native is not None
    model.lm_head.register_forward_hook(lambda *_: None)
    with pytest.raises(SpectraError, match="hooks"):
        logits(target)


def in_place(weight):
    with torch.no_grad():
        weight.add_(1.0)


def through_data(weight):
    weight.data += 0.5 * torch.ones_like(weight)  # as adapters are merged


def exchanged(weight):
    weight.data = weight.data + 1.0


@pytest.mark.parametrize("weights", ["bf16", "q4", "int8"])
@pytest.mark.parametrize("change", [in_place, through_data, exchanged])
def test_a_changed_weight_is_read_as_it_is(change, weights):
    model = make("llama", hidden_size=96).bfloat16()
    codes = quantise(model, weights) if weights != "bf16" else {}
    fill_parameters(model, codes)
    target = wrapped(model, codes)
    before = logits(target)
    change(model.model.layers[0].mlp.up_proj.weight)
    after = logits(target)
    assert not torch.equal(after, before)
    assert torch.equal(after, logits(wrapped(copy.deepcopy(model))))


def test_codes_without_numbers_are_filled_in_beside_what_was_changed():
    model = make("llama", hidden_size=96).bfloat16()
    codes = quantise(model, "q4")
    fill_parameters(model, codes)
    numbers = copy.deepcopy(model)
    name = "model.layers.0.mlp.up_proj.weight"
    for other in codes.keys() - {name}:
        module = model.get_submodule(other.rpartition(".")[0])
        module.weight = torch.nn.Parameter(module.weight.to("meta"))
    target = wrapped(model, codes)
    assert torch.equal(logits(target), logits(wrapped(numbers)))
    for one in (model, numbers):
        in_place(one.get_parameter(name))
        in_place(one.model.norm.weight)
    assert torch.equal(logits(target), logits(wrapped(numbers)))


def test_a_converted_model_is_read_or_refused():
    model = make("llama", hidden_size=96).bfloat16()
    codes = quantise(model, "q4")
    fill_parameters(model, codes)
    target = wrapped(model, codes)
    whole = copy.deepcopy(model).float()
    model.float()
    assert torch.equal(logits(target), logits(wrapped(whole)))
    for dtype in (torch.float16, torch.float64):
        model.to(dtype)
        with pytest.raises(SpectraError, match=r"the model is in float\d+; wrap it again"):
            logits(target)


def a_tanh(model):
    model.model.layers[1].mlp.act_fn = torch.nn.Tanh()


def a_layer_norm(model):
    model.model.layers[1].input_layernorm = torch.nn.LayerNorm(48)


def a_scaled_embedding(model):
    class Scaled(torch.nn.Embedding):
        def forward(self, ids):
            return 3 * super().forward(ids)

    model.model.embed_tokens = Scaled(64, 48, _weight=model.model.embed_tokens.weight)


@pytest.mark.parametrize("replace", [a_tanh, a_layer_norm, a_scaled_embedding])
def test_a_model_with_a_part_of_another_kind_computes_with_it(replace):
    model = make("llama")
    target = wrapped(model)
    assert LlamaStep.of(target.native.library, model) is not None
    replace(model)
    with torch.inference_mode():
        want = model(torch.tensor([PROMPT])).logits[0, -1]
    assert LlamaStep.of(target.native.library, model) is None
    assert torch.allclose(logits(target)[0], want, atol=1e-3)


def other_epsilons(model):
    for module in model.modules():
        if hasattr(module, "variance_epsilon"):
            module.variance_epsilon = 0.5


def other_scalings(model):
    for layer in model.model.layers:
        layer.self_attn.scaling *= 4


def other_angles(model):
    model.model.rotary_emb.attention_scaling = 2.0


def a_function(model):
    for layer in model.model.layers:
        del layer.mlp.act_fn
        layer.mlp.act_fn = torch.relu


@pytest.mark.parametrize("change", [other_epsilons, other_scalings, other_angles, a_function])
def test_numbers_and_functions_of_modules_are_read_as_they_are(change):
    """The text of the model before the change was written once its first step was made."""
    model = make("llama")
    target = wrapped(model)
    before = logits(target)
    change(model)
    with torch.inference_mode():
        want = model(torch.tensor([PROMPT])).logits[0, -1]
    assert not torch.allclose(before[0], want, atol=1e-3)
    assert torch.allclose(logits(target)[0], want, atol=1e-3)


def narrower(model):
    """As a program prunes a layer: its config tells the width before."""
    mlp = model.model.layers[1].mlp
    mlp.gate_proj, mlp.up_proj = torch.nn.Linear(48, 32, bias=False), torch.nn.Linear(48, 32, bias=False)
    mlp.down_proj = torch.nn.Linear(32, 48, bias=False)


def fewer_heads(model):
    for layer in model.model.layers:
        attention = layer.self_attn
        attention.q_proj, attention.o_proj = torch.nn.Linear(48, 64, bias=False), torch.nn.Linear(64, 48, bias=False)
        attention.k_proj, attention.v_proj = torch.nn.Linear(48, 32, bias=False), torch.nn.Linear(48, 32, bias=False)


def fewer_layers(model):
    model.config.num_hidden_layers = 1


@pytest.mark.parametrize("change", [narrower, fewer_heads, fewer_layers])
def test_a_model_that_is_smaller_than_its_step_computes_with_what_it_has(change):
    """The step read and wrote past the end of what was there."""
    model = make("llama")
    target = wrapped(model)
    logits(target)
    change(model)
    assert LlamaStep.of(target.native.library, model) is None
    with torch.inference_mode():
        want = model(torch.tensor([PROMPT])).logits[0, -1]
    assert torch.allclose(logits(target)[0], want, atol=1e-3)


@pytest.mark.parametrize("part", [LlamaAttention, LlamaMLP, LlamaForCausalLM])
def test_a_forward_that_a_program_put_into_a_class_is_the_models_own(part, monkeypatch):
    own = part.forward

    def patched(self, *args, **options):
        return own(self, *args, **options)

    model = make("llama")
    target = wrapped(model)
    assert LlamaStep.of(target.native.library, model) is not None
    monkeypatch.setattr(part, "forward", patched)
    assert LlamaStep.of(target.native.library, model) is None
    logits(target)
    assert not target.native.whole


@pytest.mark.parametrize("family", ["qwen2", "gemma3"])
def test_a_window_changed_in_the_config_alone_is_left_to_the_model(family):
    """Its masks follow the config, and the windows of its layers do not."""
    model = make(family)
    target = wrapped(model)
    logits(target)
    model.config.sliding_window = 5
    with pytest.raises(SpectraError, match=r"a window of [79], and its config one of 5"):
        logits(target)
    assert native_steps(target, "auto", {}, None) is None
    with pytest.raises(SpectraError, match=r"exact is not possible: layer [01] has a window"):
        measure_execution(target_of(model), "exact")


def test_attention_that_a_program_registered_is_left_to_the_model():
    """It may differ from ours where a text is longer than what is compared."""

    def attention(*args, **options):
        return sdpa_attention_forward(*args, **options)

    AttentionInterface.register("a_programs_own", attention)
    model = make("llama")
    model.set_attn_implementation("a_programs_own")
    target = target_of(model)
    assert native_steps(target, "auto", {}, None) is None
    with pytest.raises(SpectraError, match="its attention 'a_programs_own' is none of transformers"):
        measure_execution(target, "exact")
