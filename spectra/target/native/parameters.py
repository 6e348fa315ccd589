"""Numbers for the parameters of a model that has codes, where torch computes with them."""

from collections.abc import Mapping
from typing import Any

from transformers.pytorch_utils import Conv1D

from spectra.target.native.codes import Codes


def fill_parameters(model: Any, codes: Mapping[str, Codes], *, missing: bool = False) -> None:
    """Give parameters the bf16 numbers that their codes stand for, in the parameter's type, on its device.

    A parameter on the meta device gets its numbers on the CPU. missing: those on the meta device alone.
    """
    turned = {f"{name}.weight" for name, module in model.named_modules() if isinstance(module, Conv1D)}
    for name, parameter in list(model.named_parameters()):
        if name not in codes or (missing and not parameter.is_meta):
            continue
        dense = codes[name].dense().to(parameter.dtype)
        dense = dense.T if name in turned else dense  # kept as [inputs, outputs]
        if parameter.device.type == "meta":
            model.load_state_dict({name: dense}, strict=False, assign=True)
        else:
            parameter.data.copy_(dense)
    model.tie_weights()
