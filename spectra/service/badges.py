"""How a loaded model runs, in a few words each: device, precision and numerics, attention kernel and steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spectra.target.huggingface import HuggingFaceTarget

WIDTHS = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}
STEPS = {"graphs": "CUDA graphs", "flash": "CUDA graphs", "native": "native step"}
"""In words; others launch every kernel by itself."""


def badges_of(target: HuggingFaceTarget) -> list[str]:
    """Three badges: "NVIDIA H100", "4-bit weights, exact (bf16)" and "sdpa attention, CUDA graphs" for example."""
    from spectra.target.facts import attention_name

    facts = target.facts
    precision, numerics = WIDTHS.get(str(facts["dtype"]), str(facts["dtype"])), str(facts["numerics"])
    if (weights := facts.get("weights")) and weights != precision:
        precision = f"{_weights(str(weights))}, {numerics} ({precision})"
    else:
        precision = f"{precision}, {numerics}"
    steps = STEPS.get(str(facts.get("step", "eager")), "eager steps")
    kernels = f"{attention_name(target)} attention, {steps}"
    return [_place(target), precision, kernels]


def _weights(kinds: str) -> str:
    """ "4/8-bit weights" of "4 bits, 8 bits", "int8 weights by torchao 0.18.0" of "int8, torchao 0.18.0"."""
    bits = [kind.removesuffix(" bits") for kind in kinds.split(", ") if kind.endswith(" bits")]
    if bits:
        return f"{'/'.join(bits)}-bit weights"
    kind, _, library = kinds.partition(", ")
    return f"{kind} weights by {library}" if library else f"{kind} weights"


def _place(target: HuggingFaceTarget) -> str:
    facts = target.facts
    threads = facts["threads"]
    cores = f"{threads} CPU core" if threads == 1 else f"{threads} CPU cores"
    place = cores if target.device.type == "cpu" else str(facts["processor"])
    return f"{place} and others" if target.spread else place
