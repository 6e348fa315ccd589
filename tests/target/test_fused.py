"""Fused layers: the stock layer's numbers up to rounding, in every attention, and never in anybody's way."""

import copy

import pytest
import torch
from drafting import decode_by
from tiny import make
from transformers import MistralConfig, MistralForCausalLM

from spectra.settings import Limits
from spectra.target import kernels, preflight
from spectra.target.execution_plan import Plan
from spectra.target.load import wrap_model
from spectra.target.packed.layer import FusedLayer, fusible, in_pairs
from spectra.target.packed.packing import PackedLinear, Packing, packable, swap_out

needs_kernels = pytest.mark.skipif(
    not torch.ops.mkldnn._is_mkldnn_bf16_supported(), reason="this CPU has no bf16 kernels"
)
IDS = torch.tensor([[5, 9, 33, 2, 17, 40, 21, 7, 1, 60, 3, 3, 12]])


def mistral():
    torch.manual_seed(3)
    shape = {"vocab_size": 64, "hidden_size": 48, "intermediate_size": 64, "num_hidden_layers": 2, "head_dim": 16}
    heads = {"num_attention_heads": 6, "num_key_value_heads": 2, "sliding_window": 9, "initializer_range": 0.3}
    return MistralForCausalLM(MistralConfig(**shape, **heads, eos_token_id=None, bos_token_id=None)).eval()


def models():
    return {"llama": make("llama"), "llama-g3": make("llama-g3"), "qwen2": make("qwen2"), "mistral": mistral()}


@needs_kernels
@pytest.mark.parametrize("name", models())
def test_a_fused_model_is_as_near_the_truth_as_the_stock_one(name):
    model = models()[name].eval()
    with torch.inference_mode():
        truth = model(IDS).logits
    model.bfloat16()
    packing = Packing(model)
    with torch.no_grad():
        stock = model(IDS).logits.float()
        there = packing.swap_in(model)
        assert sum(isinstance(module, FusedLayer) for module in model.modules()) == model.config.num_hidden_layers
        fused = model(IDS).logits.float()
        swap_out(model, there)
    assert not torch.equal(fused, stock)
    assert (fused - truth).norm() < 1.3 * (stock - truth).norm()


@needs_kernels
@pytest.mark.parametrize("numerics", ["exact", "fast"])
def test_a_window_counts_and_drafts_change_nothing(numerics):
    target = wrap_model(mistral().bfloat16(), numerics=numerics)
    prompt = IDS[0].tolist()
    plain, guessed = (
        [t for step in decode_by(target, prompt, method, limits=Limits(60)) for t in step.tokens]
        for method in ("autoregressive", "spectra-core")
    )
    assert len(plain) == 60
    if numerics == "exact":
        assert guessed == plain
        free = mistral()
        free.config.sliding_window = None
        other = wrap_model(free.bfloat16(), numerics=numerics)
        assert plain != [
            t for step in decode_by(other, prompt, "autoregressive", limits=Limits(60)) for t in step.tokens
        ]


@needs_kernels
def test_fast_attention_in_one_product_is_as_near_the_truth_as_the_stock_one():
    tokens, chains = [9, 4, 21, 7], [[0], [0, 1], [0, 2], [0, 2, 3]]
    logits = {}
    for name, model, plan in (
        ("truth", mistral(), Plan()),
        ("stock", mistral().bfloat16(), Plan()),
        ("wide", mistral().bfloat16(), Plan(wide=True)),
    ):
        target = wrap_model(model, numerics="fast")
        target.plan = plan
        with preflight.Probe(target, IDS[0].tolist(), 8) as session, torch.inference_mode():
            logits[name] = target.forward(session.cache, tokens, chains, range(4)).float()
    stock, wide = ((logits[name] - logits["truth"]).norm() for name in ("stock", "wide"))
    assert 0 < wide < 1.3 * stock


def test_which_layers_may_be_fused():
    layers = {name: model.bfloat16().model.layers[0] for name, model in models().items()}
    assert all(fusible(layer) for layer in layers.values())
    assert not any(fusible(module) for module in make("gemma3").bfloat16().modules())
    assert not fusible(make("llama").model.layers[0])
    assert not fusible(make("llama", hidden_act="gelu").bfloat16().model.layers[0])
    adapted = layers["llama"]
    adapted.mlp.up_proj = torch.nn.Sequential(adapted.mlp.up_proj)
    assert not fusible(adapted)


@needs_kernels
def test_a_hook_is_heard_and_its_layer_left_alone():
    model = make("llama").bfloat16()
    target = wrap_model(model)
    heard = []
    handle = model.model.layers[1].mlp.register_forward_hook(lambda *_: heard.append(1))
    list(decode_by(target, [1, 2, 3], "autoregressive", limits=Limits(4)))
    assert heard
    kinds = {name: type(layer) for name, layer in target.packing.layers.items()}
    assert kinds["model.layers.0"] is FusedLayer
    assert kinds["model.layers.1.self_attn.q_proj"] is PackedLinear
    handle.remove()
    list(decode_by(target, [1, 2, 3], "autoregressive", limits=Limits(4)))
    assert "model.layers.1" in target.packing.layers


def test_parts_of_a_whole_are_not_packed_twice():
    names = set(packable(make("llama").bfloat16()))
    assert names == {"model.layers.0", "model.layers.1", "lm_head"}


def test_heads_in_pairs_give_the_same_products():
    torch.manual_seed(0)
    q, k, x = torch.randn(32, 8), torch.randn(32, 8), torch.randn(8)
    assert torch.equal(
        in_pairs(torch.arange(16.0), 8), torch.tensor([0, 4, 1, 5, 2, 6, 3, 7, 8, 12, 9, 13, 10, 14, 11, 15.0])
    )
    for a, b in ((q, k),):
        want = ((a @ x).view(2, 16) * (b @ x).view(2, 16)).sum(1)
        got = ((in_pairs(a, 16) @ x).view(2, 16) * (in_pairs(b, 16) @ x).view(2, 16)).sum(1)
        torch.testing.assert_close(got, want)


def test_row_counts_slower_than_a_larger_one_are_dropped(monkeypatch):
    seconds = {2: 1.0, 3: 0.9, 4: 0.8, 8: 0.79, 16: 2.0}
    monkeypatch.setattr(preflight, "time_sizes", lambda target, sizes: {size: seconds[size] for size in sizes})
    assert preflight.worthwhile(None, (2, 3, 4, 8, 16, 64)) == (4, 8, 16, 64)


def test_scores_that_depend_on_the_slot_are_found_out(monkeypatch):
    target = wrap_model(make("llama").bfloat16(), numerics="fast")
    assert kernels.slots_agree(target)
    honest = kernels.scores

    def panels(query, key, bias):
        """Every third slot is summed from the other end."""
        out = honest(query, key, bias)
        out[..., ::3] = honest(query.flip(-1).contiguous(), key.flip(-1).contiguous(), bias)[..., ::3]
        return out

    monkeypatch.setattr(kernels, "scores", panels)
    assert not kernels.slots_agree(target)


@needs_kernels
def test_a_copy_of_the_model_is_fused_on_its_own():
    model = make("llama").bfloat16()
    first = wrap_model(model)
    second = wrap_model(copy.deepcopy(model))
    steps = decode_by(first, [1, 2, 3], "autoregressive", limits=Limits(8))
    next(steps)
    other = [t for step in decode_by(second, [1, 2, 3], "autoregressive", limits=Limits(8)) for t in step.tokens]
    assert len(other) == 8
    steps.close()
    assert first.packing is not second.packing


def test_fast_steps_are_filled_up_where_that_is_faster():
    plan = Plan("fast", (4, 6))
    assert [plan.fit(rows) for rows in (1, 4, 5, 7, 400)] == [4, 4, 6, 7, 400]
    target = wrap_model(make("llama"), numerics="fast")

    def answer(method, buckets):
        target.plan = Plan("fast", buckets)
        return [t for step in decode_by(target, [5, 9, 33], method, limits=Limits(40)) for t in step.tokens]

    first, *others = (answer(m, b) for m in ("autoregressive", "spectra-core") for b in ((), (4, 6)))
    assert others == [first] * 3
