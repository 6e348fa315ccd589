"""How a loaded model runs, in a few words each: device, precision and numerics, attention kernel and steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spectra.target.huggingface import HuggingFaceTarget

WIDTHS = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}
STEPS = {"eager": "eager steps", "graphs": "CUDA graphs", "flash": "CUDA graphs", "native": "native step"}


def badges_of(target: HuggingFaceTarget) -> list[str]:
    """Three badges: "NVIDIA H100", "bf16, exact" and "sdpa attention, CUDA graphs" for example."""
    from spectra.target.facts import attention_name

    facts = target.facts
    precision = WIDTHS.get(str(facts["dtype"]), str(facts["dtype"]))
    if weights := facts.get("weights"):
        precision += f" with {weights}"
    step = str(facts.get("step", "eager"))
    kernels = f"{attention_name(target)} attention, {STEPS.get(step, step)}"
    return [_place(target), f"{precision}, {facts['numerics']}", kernels]


def _place(target: HuggingFaceTarget) -> str:
    facts = target.facts
    threads = facts["threads"]
    cores = f"{threads} CPU core" if threads == 1 else f"{threads} CPU cores"
    place = cores if target.device.type == "cpu" else str(facts["processor"])
    return f"{place} and others" if target.spread else place
