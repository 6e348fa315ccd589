"""Which numbers a model's weights are kept in: those that were loaded, or codes that the CPU step reads."""

from typing import Any

import torch
from transformers.pytorch_utils import Conv1D

from spectra.errors import SpectraError
from spectra.target.native.codes import Codes, four_bits, int8
from spectra.target.native.library import native_reason

OWN = "own"
"""What `choose_weights` calls the blocks of a model that comes quantised."""


def choose_weights(weights: str, *, quantised: bool, device: torch.device, dtype: str, step: str) -> str:
    """ "bf16", "int8", "q4" or OWN for the choice of a user.

    quantised: the model comes in blocks. Raises SpectraError where codes were asked for and cannot be read.
    """
    if weights == "bf16" or (weights == "auto" and not quantised):
        return "bf16"
    if device.type != "cpu":
        problem = f"only the CPU step reads them, and the device is {device}"
    elif dtype not in ("auto", "bf16"):
        problem = f"they stand for bf16 numbers, and the dtype is {dtype}"
    elif step not in ("auto", "native"):
        problem = f"step {step} does not read them"
    else:
        problem = native_reason() or ""
    if weights == "auto":
        return "bf16" if problem else OWN
    if problem:
        raise SpectraError("weights", f"{weights} cannot be read here ({problem}); give auto or bf16")
    return weights


def quantise(model: Any, weights: str) -> dict[str, Codes]:
    """Round the matrices of a model to nearest, by parameter name. weights: "int8" or "q4".

    Of every linear layer, the head included; in "q4" one that is the embedding too, or whose inputs are no multiple of
    32, is rounded to 8 bits. The model stays as it is.
    """
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    embedding = model.get_input_embeddings().weight
    codes: dict[str, Codes] = {}
    for layer in model.modules():
        if isinstance(layer, torch.nn.Linear | Conv1D) and (name := names[id(layer.weight)]) not in codes:
            weight = layer.weight.T.contiguous() if isinstance(layer, Conv1D) else layer.weight
            four = None if weights == "int8" or layer.weight is embedding else four_bits(weight)
            codes[name] = four or int8(weight)
    return codes
