"""What may be said of a model to load, by name: data types, numerics, steps, weights, devices. No torch."""

import re

from spectra.errors import SpectraError

DTYPES = ("auto", "bf16", "fp16", "fp32")
NUMERICS = ("auto", "exact", "fast")
STEPS = ("auto", "native", "eager", "graphs", "flash")
WEIGHTS = ("auto", "bf16", "int8", "q4")
DEVICES = ("cpu", "cuda", "mps", "xpu", "hpu", "mtia", "npu", "xla")
"""Kinds of device that torch computes on; whether one is there is asked when the model is loaded."""


def check_choice(field: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise SpectraError(field, f"{value!r} is unknown; choose one of {', '.join(choices)}")


def check_device_name(device: str | None) -> None:
    """Raise SpectraError unless it is the name of a device, such as "cuda:1"; None is the default one."""
    if device is None:
        return
    named = re.fullmatch(r"([a-z]+)(:\d+)?", device)
    if named is None or named[1] not in DEVICES:
        raise SpectraError("device", f"{device!r} is not available; use cpu, or cuda on a machine with a GPU")
