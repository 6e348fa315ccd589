"""A model's own numbers inside `torch.autocast`: rows of 16 bits are rounded by how many there are."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch


def without_autocast(model: Any, device: torch.device, *, exact: bool = False) -> AbstractContextManager[object]:
    """Inside, a model computes in its own numbers: for exact steps, and where all of them have over 16 bits. One with
    some of 16 bits beside wider ones may run by autocast only.
    """
    on = torch.is_autocast_enabled(device.type)
    off = on and (exact or all(one.dtype.itemsize > 2 for one in model.parameters() if one.is_floating_point()))
    return torch.autocast(device.type, enabled=False) if off else nullcontext()
