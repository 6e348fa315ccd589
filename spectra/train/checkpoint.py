"""Where a training run stands, in one safetensors file: weights, optimizers' state, step. Whole or absent."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor


def save_state(file: Path, model: Any, optimizers: Mapping[str, Any], facts: Mapping[str, Any]) -> None:
    """facts: what else is to be known, as JSON."""
    tensors: dict[str, Tensor] = {f"model.{name}": one.detach() for name, one in model.named_parameters()}
    for name, optimizer in optimizers.items():
        for number, slots in optimizer.state_dict()["state"].items():
            tensors |= {f"{name}.{number}.{slot}": value for slot, value in slots.items()}
    fresh = file.with_suffix(".new")
    save_file({name: one.contiguous() for name, one in tensors.items()}, fresh, {"facts": json.dumps(dict(facts))})
    with fresh.open("rb") as written:
        os.fsync(written.fileno())
    fresh.replace(file)


def load_state(file: Path, model: Any, optimizers: Mapping[str, Any]) -> dict[str, Any]:
    """Put everything back where it was; returns the facts."""
    with safe_open(file, "pt") as opened:
        facts = json.loads(opened.metadata()["facts"])
    tensors = load_file(file)
    for name, one in model.named_parameters():
        one.data.copy_(tensors[f"model.{name}"])
    for name, optimizer in optimizers.items():
        state: dict[int, dict[str, Tensor]] = {}
        for key, value in tensors.items():
            if key.startswith(f"{name}."):
                _, number, slot = key.split(".")
                state.setdefault(int(number), {})[slot] = value
        optimizer.load_state_dict({**optimizer.state_dict(), "state": state})
    return dict(facts)
