"""What may be said of a model to load, by name: data types, numerics, steps, weights, devices. No torch."""

import re

from spectra.errors import SpectraError
from spectra.target.placement import Placement

DTYPES = ("auto", "bf16", "fp16", "fp32")
NUMERICS = ("auto", "exact", "fast")
WEIGHTS = ("auto", "bf16", "int8", "q4")
STEPS = ("auto", "native", "eager", "graphs", "flash", "flash-eager")
GPU_STEPS = STEPS[3:]
FLASH_STEPS = STEPS[4:]
"""Whose attention reads the context by a flash kernel."""
DEVICES = ("cpu", "cuda", "mps", "xpu", "hpu", "mtia", "npu", "xla")
"""Kinds of device that torch computes on; whether one is there is asked when the model is loaded."""


def check_choice(field: str, value: str, choices: tuple[str, ...]) -> None:
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
    if named is None or named[1] not in DEVICES:
        raise SpectraError("device", f"{device!r} is not available; use cpu, or cuda on a machine with a GPU")
