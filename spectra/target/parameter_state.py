"""Whether the parameters of a model have numbers, the same as before, and none that is NaN or infinite."""

import ctypes
from collections.abc import Iterable, Iterator
from typing import Any

import torch

SAMPLES, SAMPLE = 8, 64  # pieces of a parameter; bytes of a piece


def parameter_state(parameters: Iterable[torch.Tensor]) -> tuple[int, ...]:
    """Changes when a parameter is exchanged, moved or changed in place, also through its `data`.

    The last leaves no trace but the numbers themselves, of which `SAMPLES` pieces a parameter are read.
    """
    return tuple(
        number
        for parameter in parameters
        for p in stored(parameter)
        for number in (p.data_ptr(), -1 if p.is_inference() else p._version, _sample(p))
    )


def odd_numbers(model: Any) -> str:
    """The name of a parameter that holds NaN or infinity, or ""."""
    parts = ((name, part) for name, parameter in model.named_parameters() for part in stored(parameter))
    numbers = ((name, part) for name, part in parts if part.is_floating_point() and not part.is_meta)
    return next((name for name, part in numbers if not bool(part.isfinite().all())), "")


def without_numbers(model: Any) -> str:
    """A parameter that has codes alone, or "". Those that accelerate offloads have numbers, which its hooks bring."""
    offloaded = any(hasattr(module, "_hf_hook") for module in model.modules())
    names = (name for name, parameter in model.named_parameters() if parameter.is_meta)
    return "" if offloaded else next(names, "")


def stored(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    """What is in memory of it: the tensors that one of torchao's is made of, else itself."""
    if not hasattr(tensor, "__tensor_flatten__"):
        yield tensor
        return
    for name in tensor.__tensor_flatten__()[0]:
        if isinstance(part := getattr(tensor, name), torch.Tensor):
            yield from stored(part)


def _sample(parameter: torch.Tensor) -> int:
    if parameter.device.type != "cpu" or not parameter.is_contiguous():
        return 0
    start, size = parameter.data_ptr(), parameter.nbytes
    if size <= SAMPLES * SAMPLE:
        return hash(ctypes.string_at(start, size))
    apart = (size - SAMPLE) // (SAMPLES - 1)
    return hash(b"".join(ctypes.string_at(start + i * apart, SAMPLE) for i in range(SAMPLES)))
