"""Exact attention on a GPU: a row's result is a function of its own path, not of the step that it is a row of.

Every row walks its context by position in blocks of BLOCK, each block's softmax in one kernel of one shape; runs of
PART blocks are computed side by side and merged in the order of positions. Library kernels cannot serve here: they are
chosen by shape, and where a block stands in the cache or beside it changes the shape.
"""

from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

import torch

from spectra.errors import SpectraError
from spectra.target.attention_metadata import BLOCK, RowTable

PART = 4  # blocks: at a context of 4,096 tokens a row of a model with 8 key heads keeps 128 processors busy
DTYPES = (torch.bfloat16, torch.float16, torch.float32)


def triton_version() -> str:
    """Of the package that compiles the kernel, or "" where there is none."""
    if find_spec("triton") is None:
        return ""
    for name in ("triton", "pytorch-triton", "triton-windows"):
        try:
            return version(name)
        except PackageNotFoundError:
            continue
    return "unknown"


def obstacle(dtype: torch.dtype) -> str:
    """Why a model of this dtype cannot have it, or ""."""
    if not triton_version():
        return "it takes the package triton"
    return "" if dtype in DTYPES else f"its kernel does not take {str(dtype).removeprefix('torch.')}"


def attend_by_position(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scaling: float, window: int | None, table: RowTable
) -> torch.Tensor:
    """query [heads, rows, d], key and value [kv_heads, slots, d] -> [heads, rows, d] in the dtype of `query`.

    slots: at least one behind the last that is read. Rows that do not count are zero. Raises SpectraError where the
    kernels cannot be compiled or run: Triton takes a C compiler, and a GPU that has what they need.
    """
    try:
        return _attend(query, key, value, scaling, window, table)
    except (SpectraError, torch.OutOfMemoryError):
        raise
    except Exception as error:  # each kind of failure is an exception of its own
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        problem = f"the kernel of exact attention does not run here ({first[:160]})".replace("; ", ", ")
        raise SpectraError("numerics", f"{problem}; use numerics fast") from error


def _attend(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scaling: float, window: int | None, table: RowTable
) -> torch.Tensor:
    from spectra.target.fixed_order.kernels import attend_part, merge_parts

    query, key, value = (x if x.stride(-1) == 1 else x.contiguous() for x in (query, key, value))
    (heads, rows, dim), (kv_heads, slots, width) = query.shape, value.shape
    parts, group = -(-slots // (PART * BLOCK)), heads // kv_heads
    wide = torch.float32 in (query.dtype, key.dtype, value.dtype)
    block = block_size(max(dim, width), 4 if wide else 2)
    mixed = query.new_empty((rows, parts, heads, width), dtype=torch.float32)
    tops, totals = (query.new_empty((rows, parts, heads), dtype=torch.float32) for _ in range(2))
    out = query.new_empty((rows, heads, width))
    with torch.cuda.device_of(query):
        attend_part[parts, rows, kv_heads](
            query, key, value, *table, mixed, tops, totals, scaling, window or 0,
            query.stride(0), query.stride(1), key.stride(0), key.stride(1), value.stride(0), value.stride(1),
            table.own.stride(0), parts,
            group_size=group, heads_full=filled(group), dim=dim, dim_full=filled(dim),
            width=width, width_full=filled(width),
            block_size=block, part_size=PART * BLOCK // block, windowed=window is not None,
            wide=wide, num_warps=4, num_stages=1,
        )  # fmt: skip
        merge_parts[heads, rows](
            mixed, tops, totals, table.live, table.positions, out, window or 0, parts,
            width=width, width_full=filled(width), span=PART * BLOCK, windowed=window is not None, num_warps=4,
        )  # fmt: skip
    return out.transpose(0, 1)


def block_size(dim: int, itemsize: int) -> int:
    """Positions of a block: half as many for the widest heads in fp32, whose keys and values fill a small GPU's fast
    memory. One number for a model, whatever the step."""
    return BLOCK if filled(dim) * itemsize <= 512 else BLOCK // 2


def filled(count: int) -> int:
    """The power of two that a matrix product takes so many numbers as, 16 at least."""
    return max(16, 1 << (count - 1).bit_length())
