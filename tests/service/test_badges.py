"""What the page says of how a model runs, in every combination of device, precision, numerics, kernel and steps."""

from types import SimpleNamespace

import pytest
import torch
from tiny import make, target_of

from spectra.service.badges import badges_of
from spectra.target import facts
from spectra.target.execution_plan import ExecutionPlan
from spectra.target.load import wrap_model

CPU = {"threads": 2, "processor": "a CPU"}
GPU = {"threads": 8, "processor": "NVIDIA H100"}


def target(device, own, *, dtype="bfloat16", numerics="fast", step="eager", spread=False, weights=None):
    known = {**own, "dtype": dtype, "numerics": numerics, "step": step}
    return SimpleNamespace(
        facts=known | ({"weights": weights} if weights else {}),
        device=torch.device(device),
        spread=spread,
        plan=ExecutionPlan(numerics, step),
        config=SimpleNamespace(_attn_implementation="sdpa"),
    )


@pytest.mark.parametrize(
    ("device", "own", "settings", "badges"),
    [
        ("cpu", CPU, {"step": "native", "numerics": "exact", "weights": "4 bits, 8 bits"},
         ["2 CPU cores", "4/8-bit weights, exact (bf16)", "exact attention, native step"]),
        ("cpu", CPU, {"numerics": "exact", "weights": "4 bits"},
         ["2 CPU cores", "4-bit weights, exact (bf16)", "exact attention, eager steps"]),
        ("cpu", CPU | {"threads": 1}, {"dtype": "float32"},
         ["1 CPU core", "fp32, fast", "sdpa attention, eager steps"]),
        ("cuda", GPU, {"step": "graphs"}, ["NVIDIA H100", "bf16, fast", "sdpa attention, CUDA graphs"]),
        ("cuda", GPU, {"step": "graphs", "numerics": "exact", "dtype": "float16"},
         ["NVIDIA H100", "fp16, exact", "exact attention, CUDA graphs"]),
        ("cuda", GPU, {"step": "flash"}, ["NVIDIA H100", "bf16, fast", "torch flash attention, CUDA graphs"]),
        ("cuda", GPU, {"step": "flash-eager"}, ["NVIDIA H100", "bf16, fast", "torch flash attention, eager steps"]),
        ("cuda", GPU, {"spread": True, "weights": "int8, torchao 0.18.0", "numerics": "exact"},
         ["NVIDIA H100 and others", "int8 weights by torchao 0.18.0, exact (bf16)", "exact attention, eager steps"]),
    ],
)  # fmt: skip
def test_device_precision_numerics_kernel_and_steps(monkeypatch, device, own, settings, badges):
    monkeypatch.setattr(facts, "flash_library", lambda: "torch 2.13.0")
    assert badges_of(target(device, own, **settings)) == badges


def test_of_a_real_target():
    loaded = wrap_model(make("llama").to(torch.bfloat16), numerics="exact", step="eager")
    place, precision, kernel = badges_of(loaded)
    assert "CPU core" in place and (precision, kernel) == ("bf16, exact", "exact attention, eager steps")


def test_what_was_measured_of_a_whole_model_is_not_taken_for_a_split_one(tmp_path):
    """T(q) of a model with a part on disk is that of reading the part."""
    folder = tmp_path / "tiny"
    make("llama").save_pretrained(folder)
    here = ("model.embed_tokens", "model.norm", "model.rotary_emb", "lm_head", "model.layers.0")
    places = dict.fromkeys(here, "cpu") | {"model.layers.1": "disk"}
    model = type(make("llama")).from_pretrained(folder, device_map=places, offload_folder=tmp_path / "offload")
    split, whole = target_of(model), target_of(make("llama"))
    assert split.spread and not whole.spread
    assert facts.plan_path(split, "fast") != facts.plan_path(whole, "fast")
