"""Which row counts a matrix kernel serves with the same bits: libraries pick kernels by shape. See docs/numerics.md."""

import functools
from collections.abc import Callable

import torch
from transformers.pytorch_utils import Conv1D

from spectra.target.attention import scores
from spectra.target.attention_metadata import BLOCK
from spectra.target.huggingface import HuggingFaceTarget
from spectra.target.packed.layer import FusedLayer
from spectra.target.packed.matrix import PackedMatrix

LADDER = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 64, 80, 96, 112, 128, 160)


def kernel_of(
    layer: torch.nn.Module, dtype: torch.dtype, *, packed: bool = False
) -> tuple[Callable[[torch.Tensor], torch.Tensor], torch.Tensor]:
    """(rows [q, in] -> [q, out] by the kernel that serves this layer, LADDER[-1] rows to try it on).

    A kernel is chosen by shape, not by numbers, and a different order of adding flips only one bf16 result in ten to
    fifty thousand. So the numbers are ours: half the inputs cancel the other half and rounding is all that is left.
    Weights that are quantised or huge stay as they are. packed: by the kernels of `PackedMatrix`.
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
        matrix = PackedMatrix(stand_in.get("weight", layer.weight), stand_in.get("bias", layer.bias))
        return functools.partial(_all_kernels, matrix), rows

    def function(some: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = torch.func.functional_call(layer, stand_in, (some[None],))[0]
        return out

    return function, rows


def _all_kernels(matrix: PackedMatrix, rows: torch.Tensor) -> torch.Tensor:
    """The product and all that may follow it in the same kernel: rows [q, in] -> [q, 4 * out]."""
    zeros = rows.new_zeros(len(rows), matrix.shape[0])
    return torch.cat([matrix(rows), matrix.silu(rows), matrix.plus(rows, zeros), matrix.times(rows, zeros + 1)], 1)


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


def slots_agree(target: HuggingFaceTarget) -> bool:
    """Whether a token's score is the same in every slot and for every row count, as `wide` attention needs it.

    On numbers of which half cancel the other half, as in `kernel_of`.
    """
    attention = next((m for m in target.model.modules() if hasattr(m, "num_key_value_groups")), None)
    group, dim = int(getattr(attention, "num_key_value_groups", 1)), int(getattr(attention, "head_dim", BLOCK))
    make = torch.Generator(target.device).manual_seed(2)
    work = torch.float64 if target.dtype == torch.float64 else torch.float32
    query, key = (torch.randn(2, n, dim, generator=make, device=target.device, dtype=work) for n in (128, 640))
    query[..., 1::2] = query[..., : dim // 2 * 2 : 2]
    key[..., 1::2] = 1e-4 * key[..., 1::2] - key[..., : dim // 2 * 2 : 2]
    with torch.inference_mode():
        whole = scores(query, key, query.new_zeros(128, 640))
        for rows in {min(128, group * rows) for rows in LADDER}:
            for slots in range(BLOCK, 640, BLOCK):
                for first in (0, 23):
                    some = scores(query[:, :rows], key[:, first : first + slots], query.new_zeros(rows, slots))
                    if not torch.equal(some, whole[:, :rows, first : first + slots]):
                        return False
    return True


def sample_layers(target: HuggingFaceTarget, each: int = 1) -> list[torch.nn.Module]:
    """A few matrix layers of every shape the model has, the head included; layers on disk are left out."""
    found: dict[tuple[int, ...], list[torch.nn.Module]] = {}
    for module in target.model.modules():
        weight = getattr(module, "weight", None)
        if isinstance(module, torch.nn.Linear | Conv1D) and weight is not None and weight.device == target.device:
            found.setdefault(tuple(weight.shape), []).append(module)
    for stand_in in target.packing.layers.values() if target.packing else ():
        if isinstance(stand_in, FusedLayer):
            out, width = stand_in.qkv.shape
            joined = torch.nn.Linear(width, out, bias=stand_in.qkv.bias is not None, dtype=target.dtype)
            found.setdefault((out, width), [joined])
    return [module for modules in found.values() for module in modules[:each]]


def layer_width(layer: torch.nn.Module, *, out: bool = False) -> int:
    """Input (or output) features; GPT-2's Conv1D keeps its weight transposed."""
    return int(layer.weight.shape[out if isinstance(layer, Conv1D) else 1 - out])  # type: ignore[union-attr, index, arg-type]
