"""How a loaded model runs, in a few words each: device, precision and numerics, attention kernel and steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spectra.target.huggingface import HuggingFaceTarget

WIDTHS = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}
STEPS = {"graphs": "CUDA graphs", "flash": "CUDA graphs", "native": "native step"}
"""In words; others launch every kernel by itself."""


def badges_of(target: HuggingFaceTarget) -> list[str]:
    """Three badges: "NVIDIA H100", "bf16, exact" and "sdpa attention, CUDA graphs" for example."""
    from spectra.target.facts import attention_name

    facts = target.facts
    precision = WIDTHS.get(str(facts["dtype"]), str(facts["dtype"]))
    if (weights := facts.get("weights")) and weights != precision:
        precision += f" with {weights}"
    steps = STEPS.get(str(facts.get("step", "eager")), "eager steps")
    kernels = f"{attention_name(target)} attention, {steps}"
    return [_place(target), f"{precision}, {facts['numerics']}", kernels]


def _place(target: HuggingFaceTarget) -> str:
    facts = target.facts
    threads = facts["threads"]
    cores = f"{threads} CPU core" if threads == 1 else f"{threads} CPU cores"
    place = cores if target.device.type == "cpu" else str(facts["processor"])
    return f"{place} and others" if target.spread else place
