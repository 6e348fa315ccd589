"""What may be said of a model to load, by name: data types, numerics, steps, weights, devices. No torch."""

import os
import re
from typing import TypeVar

from spectra.errors import SpectraError
from spectra.target.placement import DEVICES, Placement

Model = TypeVar("Model", bound=str | os.PathLike[str])
EMBEDDED = "embedded"
"""What stands for the model that comes along, as no model does."""
GGUF_MAGIC = b"GGUF"
"""How a GGUF file begins."""
STOCK = "hf-generate"
"""What a model is compared with that runs as transformers runs it."""
DTYPES = ("auto", "bf16", "fp16", "fp32")
NUMERICS = ("auto", "exact", "fast")
WEIGHTS = ("auto", "bf16", "int8", "q4")
STEPS = ("auto", "native", "eager", "graphs", "flash", "flash-eager")
GPU_STEPS = STEPS[3:]
FLASH_STEPS = STEPS[4:]
"""Whose attention reads the context by a flash kernel."""
QUANTISED = ("int8", "q4")
CACHES = ("cache", "past_key_values")
"""What a model's forward calls its KV cache: transformers from 5.24 on, and before."""


def unless_embedded(model: Model | None) -> Model | None:
    """The model; None for the embedded one, which has a name or is what no name stands for."""
    return None if model == EMBEDDED else model


def check_choice(field: str, value: str, choices: tuple[str, ...]) -> None:
    """Raise SpectraError, naming the field and the choices, for a value that is none of them."""
    if value not in choices:
        raise SpectraError(field, f"{value!r} is unknown; choose one of {', '.join(choices)}")


def check_device_name(device: str | None, placement: Placement | None = None) -> None:
    """Raise SpectraError unless it is the name of a device, such as "cuda:1"; None is the default one.

    placement: of a model that is spread over devices, which are not named then.
    """
    if device is None:
        return
    if placement:
        raise SpectraError("device", "the device map says where the model goes; give one of them")
    named = re.fullmatch(r"([a-z]+)(:\d+)?", device)
    if named is None or named[1] not in DEVICES or (named[1] == "cpu" and named[2] not in (None, ":0")):
        raise SpectraError("device", f"{device!r} is not available; use cpu, or cuda on a machine with a GPU")


def check_choices(
    *,
    device: str | None,
    dtype: str,
    weights: str,
    numerics: str = "auto",
    step: str = "auto",
    placement: Placement | None = None,
) -> None:
    """Raise SpectraError for a name that is unknown, and for choices that exclude each other on every machine."""
    check_choice("dtype", dtype, DTYPES)
    check_choice("weights", weights, WEIGHTS)
    check_choice("numerics", numerics, NUMERICS)
    check_choice("step", step, STEPS)
    kind = (device or "").partition(":")[0]
    kinds = {kind} if kind else placement.kinds if placement is not None else set()
    where = f"the device is {device}" if kind else f"the device map names {', '.join(sorted(kinds))}"
    if step in FLASH_STEPS and numerics == "exact":
        raise SpectraError("step", "flash attention is not exact; use graphs, or numerics fast")
    if step in GPU_STEPS and placement is not None and placement.several:
        raise SpectraError("step", f"{step} takes a model on one GPU, and the device map names several; use auto")
    if step in GPU_STEPS and kinds - {"cuda"}:
        raise SpectraError("step", f"{step} takes a CUDA GPU, and {where}; use auto or eager")
    if step == "native" and kinds - {"cpu"}:
        raise SpectraError("step", f"native steps run on a CPU, and {where}; use auto or eager")
    if step == "native" and placement is not None and placement.several:
        raise SpectraError(
            "step",
            "native steps take a model that is whole on the CPU, and the device map names "
            "several places; use auto or eager",
        )
    if step == "native" and dtype == "fp16":
        raise SpectraError("step", "native steps compute in bf16 and fp32, and the dtype is fp16; use auto or eager")
    if weights not in QUANTISED:
        return
    if dtype == "fp32" or (dtype == "fp16" and (weights == "q4" or kind == "cpu")):
        raise SpectraError("weights", f"{weights} stands for numbers of 16 bits, and the dtype is {dtype}; use bf16")
    if kind == "cpu" and step == "eager":
        raise SpectraError("weights", f"{weights} is read by native steps on a CPU; use step auto, or weights bf16")
    if step == "native" and placement:
        raise SpectraError("weights", f"{weights} over a device map is not read by native steps; use step auto")
