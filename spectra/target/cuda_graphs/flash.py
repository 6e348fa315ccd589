"""Attention of a step's rows in two parts: the committed context by a flash kernel, the step's own rows beside it.

Every row reads the whole committed context, so that part needs no mask and a flash kernel can serve it. What comes
back, the log-sum-exp of its scores and their weighted mean, then counts as one more key and value among the step's own
rows, which the tree's mask is for. No sliding windows: rows of one step have different ones.
Kernels: flash-attn's where it is installed, else torch's own. Both read the length of the context on the device.
"""

from collections.abc import Callable
from importlib.metadata import version
from typing import Any, NamedTuple

import torch

Parts = tuple[torch.Tensor, torch.Tensor]
"""(out [parts, n, kv_heads, d], log-sum-exp of the scores [parts, n, kv_heads])"""
Context = Callable[[torch.Tensor, torch.Tensor, torch.Tensor, float], Parts]
"""The context of one pass: query [n, kv_heads, d], key and value [slots, kv_heads, d], scaling -> `Parts`."""
Kernels = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], Context | None]
"""See `context_kernel`."""

LEAST_PART = 1024  # slots: shorter parts cost more to merge than they bring
BLOCKS = 128  # thread blocks that keep a large GPU busy


class Own(NamedTuple):
    """Key and value [kv_heads, q, d] of a step's rows; bias [n, q]: 0 where a query reads one, else -inf."""

    key: torch.Tensor
    value: torch.Tensor
    bias: torch.Tensor


def flash_attention(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scaling: float, context: Context, own: Own | None
) -> torch.Tensor:
    """query [heads, q, d], key and value [kv_heads, slots, d] -> [heads, q, d] in the dtype of `query`.

    own: None where all that is read is in the context. Query heads that share a key head go as rows of one, n of them,
    so that a kernel reads each key once.
    """
    kv_heads, dim = len(key), query.shape[-1]
    flat = query.reshape(kv_heads, -1, dim)
    outs, lses = context(flat.transpose(0, 1).contiguous(), key.transpose(0, 1), value.transpose(0, 1), scaling)
    outs, lses = outs.permute(2, 1, 0, 3), lses.permute(2, 1, 0)  # [kv_heads, n, parts, d] and [kv_heads, n, parts]
    if own is None:
        if lses.shape[-1] == 1:
            return outs.reshape(query.shape)
        return (lses.softmax(-1)[..., None] * outs).sum(2).to(query.dtype).view(query.shape)
    bias = own.bias
    score = torch.baddbmm(bias.expand(kv_heads, -1, -1), flat.to(bias.dtype), own.key.to(bias.dtype).mT, alpha=scaling)
    weight = torch.cat([lses.to(bias.dtype), score], -1).softmax(-1)
    part, rest = weight.split([lses.shape[-1], score.shape[-1]], -1)
    out = torch.baddbmm((part[..., None] * outs).sum(2), rest, own.value.to(bias.dtype))
    return out.to(query.dtype).view(query.shape)


def context_kernel(query: torch.Tensor, value: torch.Tensor, length: torch.Tensor) -> Context | None:
    """The flash kernel for these shapes [..., d] on this device, over the first `length` [1] slots, at least one.

    None where there is none.
    """
    if query.device.type != "cuda" or query.dtype not in (torch.bfloat16, torch.float16):
        return None
    dim = query.shape[-1]
    if dim % 8 or dim > 256 or value.shape[-1] != dim or torch.cuda.get_device_capability(query.device) < (8, 0):
        return None
    if installed := installed_kernel():
        return Installed(installed, length)
    if torch.backends.cuda.is_flash_attention_available():
        return Builtin(torch.ops.aten._flash_attention_forward, length)
    return None


def installed_kernel() -> Callable[..., Any] | None:
    """flash-attn's function for a step on a cache; None where it is not there or was built for another torch."""
    try:
        from flash_attn import flash_attn_with_kvcache
    except ImportError:
        return None
    found: Callable[..., Any] = flash_attn_with_kvcache
    return found


def flash_library() -> str:
    """What has the kernel, and in which version."""
    return f"flash-attn {version('flash_attn')}" if installed_kernel() else f"torch {torch.__version__}"


class Installed:
    """`Context` by flash-attn's `flash_attn_with_kvcache`, which cuts long contexts into parts itself."""

    def __init__(self, run: Callable[..., Any], length: torch.Tensor) -> None:
        self._run, self._length = run, length.int()

    def __call__(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scaling: float) -> Parts:
        out, lse = self._run(
            query[None], key[None], value[None],
            cache_seqlens=self._length, softmax_scale=scaling, return_softmax_lse=True,
        )  # fmt: skip
        return out, lse.transpose(1, 2)


class Builtin:
    """`Context` by torch's own flash kernel for sequences of different lengths.

    That kernel does not cut a context into parts, so a few rows would keep a few of the GPU's processors busy. Equal
    parts of a long context go in as sequences of their own, each with a copy of the rows.
    """

    def __init__(self, run: Callable[..., Any], length: torch.Tensor) -> None:
        self._run, self._length = run, length
        self._bounds: dict[tuple[int, int], tuple[torch.Tensor, torch.Tensor]] = {}

    def __call__(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scaling: float) -> Parts:
        rows, slots = len(query), len(key)
        parts = max(1, min(slots // LEAST_PART, BLOCKS // key.shape[1]))
        starts, bounds = self._starts(parts, rows)
        repeated = query if parts == 1 else query.repeat(parts, 1, 1)
        out, lse, *_ = self._run(
            repeated, key, value, starts, bounds, rows, -(-slots // parts), 0.0, False, False, scale=scaling
        )
        return out.unflatten(0, (parts, rows)), lse.T.unflatten(0, (parts, rows))

    def _starts(self, parts: int, rows: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Where each part's rows and slots start, [parts + 1] int32 each; the same for every layer."""
        if (parts, rows) not in self._bounds:
            count = torch.arange(parts + 1, device=self._length.device)
            bounds = (count * self._length).div(parts, rounding_mode="floor")
            self._bounds[parts, rows] = (count * rows).int(), bounds.int()
        return self._bounds[parts, rows]
