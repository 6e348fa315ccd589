"""Whether a model's numbers are those of before."""

import ctypes
from collections.abc import Iterable

import torch

SAMPLES, SAMPLE = 8, 64  # pieces of a parameter; bytes of a piece


def parameter_state(parameters: Iterable[torch.Tensor]) -> tuple[int, ...]:
    """Changes when a parameter is exchanged, moved or changed in place, also through its `data`.

    The last leaves no trace but the numbers themselves, of which `SAMPLES` pieces a parameter are read.
    """
    return tuple(
        number for p in parameters for number in (p.data_ptr(), -1 if p.is_inference() else p._version, _sample(p))
    )


def _sample(parameter: torch.Tensor) -> int:
    if parameter.device.type != "cpu" or not parameter.is_contiguous():
        return 0
    start, size = parameter.data_ptr(), parameter.nbytes
    if size <= SAMPLES * SAMPLE:
        return hash(ctypes.string_at(start, size))
    apart = (size - SAMPLE) // (SAMPLES - 1)
    return hash(b"".join(ctypes.string_at(start + i * apart, SAMPLE) for i in range(SAMPLES)))
