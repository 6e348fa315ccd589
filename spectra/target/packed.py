"""Weights laid out once for the CPU's matrix kernels, in place of a new layout on every call.

A one-token step is bound by reading weights, and stock linear layers hand theirs over in a layout that the kernels for
few rows read at half speed. `Packing` holds a second copy of every bf16 linear weight in the library's own layout and
swaps the layers in while a session is open; the user's model is as it was afterwards. CPU only.
"""

import os
from typing import Any

import torch

ROWS = 8  # the kernel's layout is the same for every small row count
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
        self._packed = torch.ops.mkldnn._reorder_linear_weight(self.weight.detach(), ROWS)

    def _state(self) -> tuple[int, ...]:
        held = [p for p in (self.weight, self.bias) if p is not None]
        return tuple(x for p in held for x in (p.data_ptr(), 0 if p.is_inference() else p._version))

    @property
    def stale(self) -> bool:
        """The parameters were changed after packing."""
        return self._seen != self._state()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = torch.ops.mkldnn._linear_pointwise(x, self._packed, self.bias, "none", [], "")
        return out


class Packing:
    """Packed layers of one model, by qualified name; holds its parameters, never the model."""

    def __init__(self, model: Any) -> None:
        self.layers = {name: PackedLinear(layer) for name, layer in _plain_layers(model)}

    def swap_in(self, model: Any) -> dict[str, torch.nn.Module]:
        """Put the packed layers in place; returns the ones that were there, for `swap_out`."""
        there = {name: model.get_submodule(name) for name in self.layers}
        for name, layer in self.layers.items():
            now = there[name]
            if layer.weight is not now.weight or layer.bias is not now.bias:
                layer = self.layers[name] = PackedLinear(now)  # the model was given other parameters
            elif layer.stale:
                layer.pack()
            _put(model, name, layer)
        return there


def swap_out(model: Any, there: dict[str, torch.nn.Module]) -> None:
    """Undo `Packing.swap_in`."""
    for name, layer in there.items():
        _put(model, name, layer)


def pays(model: Any) -> bool:
    """Whether packing is to be had: bf16 on a CPU with kernels for it, and memory for the copies."""
    layers = [layer for _, layer in _plain_layers(model)]
    if not layers or not torch.backends.mkldnn.is_available() or not torch.ops.mkldnn._is_mkldnn_bf16_supported():
        return False
    return sum(layer.weight.nbytes for layer in layers) <= MOST * _memory()


def _plain_layers(model: Any) -> list[tuple[str, torch.nn.Linear]]:
    """Linear layers as torch has them, in bf16 on the CPU; what accelerate moves about is left alone."""
    return [
        (name, module)
        for name, module in model.named_modules()
        if type(module) is torch.nn.Linear
        and module.weight.device.type == "cpu"
        and module.weight.dtype == torch.bfloat16
        and not hasattr(module, "_hf_hook")
    ]


def _put(model: Any, name: str, layer: torch.nn.Module) -> None:
    parent, _, child = name.rpartition(".")
    model.get_submodule(parent)._modules[child] = layer


def _memory() -> int:
    """Bytes of memory this machine has; 0 where the system does not tell."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 0
