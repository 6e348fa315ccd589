"""Weights laid out once for the CPU's matrix kernels, in place of a new layout on every call.

A one-token step is bound by reading weights, and stock linear layers hand theirs over in a layout that the kernels for
few rows read at half speed. `Packing` holds a second copy of every bf16 linear weight in the library's own layout and
swaps layers that use it in while a session is open; the user's model is as it was afterwards. CPU only.
"""

import os
from typing import Any

import torch

from spectra.target.packed.layer import FusedLayer, Rotation, fusible, hooked
from spectra.target.packed.matrix import PackedMatrix, parameter_state

MOST = 0.25  # of the machine's memory that copies may take


class PackedLinear(torch.nn.Module):
    """A linear layer over the same parameters whose weight is read from a packed copy. x [..., in] -> [..., out]."""

    def __init__(self, layer: torch.nn.Linear) -> None:
        super().__init__()
        self.weight, self.bias = layer.weight, layer.bias
        self.in_features, self.out_features = layer.in_features, layer.out_features
        self.pack()

    def pack(self) -> None:
        self._seen = self._state()
        self._matrix = PackedMatrix(self.weight, self.bias)

    def _state(self) -> tuple[int, ...]:
        return parameter_state(p for p in (self.weight, self.bias) if p is not None)

    @property
    def stale(self) -> bool:
        """The parameters were changed after packing."""
        return self._seen != self._state()

    def stands_for(self, module: torch.nn.Module) -> bool:
        return self.weight is module.weight and self.bias is module.bias

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self._matrix(x)


class Packing:
    """Stand-ins for the layers of one model, by qualified name; holds its layers and parameters, never the model."""

    def __init__(self, model: Any) -> None:
        self._rotation: Rotation | None = None
        self.layers = {name: self._stand_in(module) for name, module in packable(model).items()}

    def _stand_in(self, module: Any) -> PackedLinear | FusedLayer:
        if not fusible(module):
            return PackedLinear(module)
        self._rotation = self._rotation or Rotation(module.self_attn.scaling)
        return FusedLayer(module, self._rotation)

    def swap_in(self, model: Any) -> dict[str, torch.nn.Module]:
        """Put the stand-ins in place; returns the layers that were there, for `swap_out`."""
        there = packable(model)
        if there.keys() != self.layers.keys():  # a part was replaced by something else, or somebody hooked in
            self.layers = {name: self.layers.get(name) or self._stand_in(module) for name, module in there.items()}
        for name, now in there.items():
            layer = self.layers[name]
            if not layer.stands_for(now):
                layer = self.layers[name] = self._stand_in(now)
            elif layer.stale:
                layer.pack()
            _put(model, name, layer)
        return there


def swap_out(model: Any, there: dict[str, torch.nn.Module]) -> None:
    """Undo `Packing.swap_in`."""
    for name, layer in there.items():
        _put(model, name, layer)


def packable(model: Any) -> dict[str, torch.nn.Module]:
    """Layers that can be computed from packed weights: whole ones where `fusible`, else linear ones in bf16 on a CPU.

    What accelerate moves about and what somebody hooked into is left alone.
    """
    found: dict[str, torch.nn.Module] = {}
    whole = ""
    for name, module in model.named_modules():
        if whole and name.startswith(whole):
            continue
        if fusible(module):
            found[name], whole = module, f"{name}."
        elif (
            type(module) is torch.nn.Linear
            and module.weight.device.type == "cpu"
            and module.weight.dtype == torch.bfloat16
            and not hooked(module)
        ):
            found[name] = module
    return found


def pays(model: Any) -> bool:
    """Whether packing is to be had: bf16 on a CPU with kernels for it, and memory for the copies."""
    layers = packable(model).values()
    if not layers or not torch.backends.mkldnn.is_available() or not torch.ops.mkldnn._is_mkldnn_bf16_supported():
        return False
    return sum(p.nbytes for layer in layers for p in layer.parameters()) <= MOST * _memory()


def _put(model: Any, name: str, layer: torch.nn.Module) -> None:
    parent, _, child = name.rpartition(".")
    model.get_submodule(parent)._modules[child] = layer


def _memory() -> int:
    """Bytes of memory this machine has; 0 where the system does not tell."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 0
