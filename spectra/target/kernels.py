"""Which row counts a matrix kernel serves with the same bits: libraries pick kernels by shape. See docs/numerics.md."""

from collections.abc import Callable

import torch
from transformers.pytorch_utils import Conv1D

from spectra.target.huggingface import HuggingFaceTarget
from spectra.target.packed import PackedLinear

LADDER = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 64, 80, 96, 112, 128, 160)


def kernel_of(
    layer: torch.nn.Module, dtype: torch.dtype, *, packed: bool = False
) -> tuple[Callable[[torch.Tensor], torch.Tensor], torch.Tensor]:
    """(rows [q, in] -> [q, out] by the kernel that serves this layer, LADDER[-1] rows to try it on).

    A kernel is chosen by shape, not by numbers, and a different order of adding flips only one bf16 result in ten to
    fifty thousand. So the numbers are ours: half the inputs cancel the other half and rounding is all that is left.
    Weights that are quantised or huge stay as they are. packed: by the kernel of `PackedLinear`.
    """
    weight, device = layer.get_parameter("weight"), layer.get_parameter("weight").device
    make = torch.Generator(device).manual_seed(1)
    width, half = layer_width(layer), layer_width(layer) // 2
    rows = torch.randn(LADDER[-1], width, generator=make, device=device).to(dtype)
    stand_in = {}
    if weight.dtype == dtype and weight.nbytes <= 1 << 30:
        one, other = torch.randperm(width, generator=make, device=device)[: 2 * half].chunk(2)
        columns = torch.zeros(layer_width(layer, out=True), width, dtype=dtype, device=device)
        columns[:, one] = torch.randn(len(columns), half, generator=make, device=device).to(dtype)
        columns[:, other] = -columns[:, one]
        rows[:, other] = rows[:, one]
        stand_in["weight"] = columns.T.contiguous() if isinstance(layer, Conv1D) else columns
        if layer.bias is not None:
            stand_in["bias"] = torch.zeros(len(columns), dtype=dtype, device=device)

    if packed and type(layer) is torch.nn.Linear:
        twin = torch.nn.Linear(width, layer.out_features, bias=layer.bias is not None, device="meta")
        twin.weight = torch.nn.Parameter(stand_in.get("weight", layer.weight), requires_grad=False)
        if layer.bias is not None:
            twin.bias = torch.nn.Parameter(stand_in.get("bias", layer.bias), requires_grad=False)
        layer, stand_in = PackedLinear(twin), {}

    def function(some: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = torch.func.functional_call(layer, stand_in, (some[None],))[0]
        return out

    return function, rows


def equal_pairs(
    function: Callable[[torch.Tensor], torch.Tensor], rows: torch.Tensor, covered: int
) -> set[tuple[int, int]]:
    """Pairs of row counts that give the same bits: `rows` cut into runs of each count until `covered` are done."""
    results = {}
    for size in LADDER:
        count = min(len(rows) // size, -(-covered // size)) * size
        results[size] = torch.cat([function(rows[at : at + size]) for at in range(0, count, size)])
    return {
        (a, b)
        for a in LADDER
        for b in LADDER
        if a <= b and torch.equal(*(results[x][: min(len(results[a]), len(results[b]))] for x in (a, b)))
    }


def sample_layers(target: HuggingFaceTarget, each: int = 1) -> list[torch.nn.Module]:
    """A few matrix layers of every shape the model has, the head included; layers on disk are left out."""
    found: dict[tuple[int, ...], list[torch.nn.Module]] = {}
    for module in target.model.modules():
        weight = getattr(module, "weight", None)
        if isinstance(module, torch.nn.Linear | Conv1D) and weight is not None and weight.device == target.device:
            found.setdefault(tuple(weight.shape), []).append(module)
    return [module for modules in found.values() for module in modules[:each]]


def layer_width(layer: torch.nn.Module, *, out: bool = False) -> int:
    """Input (or output) features; GPT-2's Conv1D keeps its weight transposed."""
    return int(layer.weight.shape[out if isinstance(layer, Conv1D) else 1 - out])  # type: ignore[union-attr, index, arg-type]
