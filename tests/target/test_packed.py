"""Packed weights: the same numbers, swapped in for a session only, never stale, never for what does not pay."""

import pytest
import torch
from drafting import decode_by
from tiny import make

from spectra.settings import Limits
from spectra.target.load import wrap_model
from spectra.target.packed import packing as packed
from spectra.target.packed.packing import PackedLinear, Packing, pays, swap_out

HAS_KERNELS = torch.ops.mkldnn._is_mkldnn_bf16_supported()
needs_kernels = pytest.mark.skipif(not HAS_KERNELS, reason="this CPU has no bf16 kernels")


def layer_of(inputs=48, outputs=80, bias=True):
    torch.manual_seed(1)
    return torch.nn.Linear(inputs, outputs, bias=bias).bfloat16()


def answer(target, tokens=12):
    return [t for step in decode_by(target, [1, 2, 3], "spectra-core", limits=Limits(tokens)) for t in step.tokens]


@needs_kernels
@pytest.mark.parametrize("rows", [1, 2, 7, 33, 130])
@pytest.mark.parametrize("bias", [False, True])
def test_a_packed_layer_gives_the_product(rows, bias):
    layer = layer_of(bias=bias)
    x = torch.randn(1, rows, 48).bfloat16()
    with torch.inference_mode():
        got, want = PackedLinear(layer)(x), layer(x)
    assert got.shape == want.shape
    torch.testing.assert_close(got, want, rtol=0.02, atol=0.02)


@needs_kernels
def test_changed_weights_are_packed_again():
    layer = layer_of()
    model = torch.nn.Sequential(layer)
    packing = Packing(model)
    x = torch.randn(4, 48).bfloat16()
    with torch.no_grad():
        layer.weight.mul_(2)
    for change in (lambda: None, lambda: setattr(layer, "weight", torch.nn.Parameter(layer.weight * 3))):
        change()
        there = packing.swap_in(model)
        with torch.inference_mode():
            got = model(x)
        swap_out(model, there)
        torch.testing.assert_close(got, layer(x), rtol=0.02, atol=0.05)


@needs_kernels
def test_the_model_is_as_it_was_after_a_session():
    model = make("llama").bfloat16()
    before = dict(model.named_modules())
    target = wrap_model(model)
    assert target.facts["packed"]
    steps = decode_by(target, [1, 2, 3], "spectra-core", limits=Limits(8))
    next(steps)
    assert any(isinstance(module, PackedLinear) for module in model.modules())
    steps.close()
    assert dict(model.named_modules()) == before


@needs_kernels
def test_weights_changed_between_two_answers_count():
    model = make("llama").bfloat16()
    first = answer(wrap_model(model))
    with torch.no_grad():
        for layer in model.model.layers:
            layer.mlp.down_proj.weight.mul_(-3)
    changed = answer(wrap_model(model))
    assert changed == answer(wrap_model(model))
    assert changed != first


def test_only_bf16_that_fits_the_memory_is_packed(monkeypatch):
    model = make("llama")
    assert not pays(model)
    monkeypatch.setattr(packed, "_memory", lambda: 1000)
    assert not pays(model.bfloat16())
