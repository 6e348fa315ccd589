"""Attention of a step's rows in two parts, merged by their log-sum-exp: the committed context, and the step's own rows.

Every row reads the whole committed context, so that part needs no mask and a flash kernel can serve it; the tree's
mask only touches the small second part. No sliding windows: rows of one step have different ones.
Kernels: flash-attn's where it is installed, else torch's own. Both take the length of the context from the device.
"""

from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import torch

Parts = tuple[torch.Tensor, torch.Tensor]
"""(out [parts, n, kv_heads, d], log-sum-exp [parts, n, kv_heads] in fp32 or wider, -inf where a part holds no token)"""
Prefix = Callable[[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, float], Parts]
"""query [n, kv_heads, d], key and value [slots, kv_heads, d], length [1] on the device, scaling -> `Parts`."""

LEAST_PART = 256  # slots: shorter parts cost more to merge than they bring
BLOCKS = 128  # thread blocks that keep a large GPU busy


def flash_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    own: tuple[torch.Tensor, torch.Tensor],
    length: torch.Tensor,
    tree: torch.Tensor,
    scaling: float,
    prefix: Prefix,
) -> torch.Tensor:
    """query [heads, q, d], key and value [kv_heads, slots, d] -> [heads, q, d] in the dtype of `query`.

    own: key and value [kv_heads, q, d] of the step's rows; length [1]: committed tokens, in the first slots; tree
    [q, q] bool: which of the step's rows each row reads, itself among them. Query heads that share a key head go as
    rows of one, so a kernel reads each key once.
    """
    kv_heads, group = len(key), len(query) // len(key)
    flat = query.reshape(kv_heads, -1, query.shape[-1])
    rows = flat.transpose(0, 1).contiguous()
    context = prefix(rows, key.transpose(0, 1), value.transpose(0, 1), length, scaling)
    out = merge(context, dense(flat, *own, tree.repeat(group, 1), scaling))
    return out.to(query.dtype).transpose(0, 1).reshape(query.shape)


def merge(*parts: Parts) -> torch.Tensor:
    """[n, kv_heads, d]: attention over all parts together. A row must have a token in at least one."""
    outs = torch.cat([out.to(lse.dtype) for out, lse in parts])
    lses = torch.cat([lse for _, lse in parts])
    weight = (lses - lses.amax(0)).exp()[..., None]
    return (outs * weight).sum(0) / weight.sum(0)


def dense(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, live: torch.Tensor, scaling: float) -> Parts:
    """query [kv_heads, n, d], key and value [kv_heads, m, d], live [n, m] bool -> one part."""
    work = torch.promote_types(query.dtype, torch.float32)
    score = (query.to(work) * scaling) @ key.to(work).transpose(1, 2)
    score = score.masked_fill(~live, float("-inf"))
    lse = score.logsumexp(-1)
    out = (score - lse[..., None]).exp() @ value.to(work)
    return out.transpose(0, 1)[None], lse.T[None]


def prefix_kernel(query: torch.Tensor, value: torch.Tensor) -> Prefix | None:
    """The flash kernel for these shapes [..., d] on this device; None where there is none."""
    if query.device.type != "cuda" or query.dtype not in (torch.bfloat16, torch.float16):
        return None
    dim = query.shape[-1]
    if dim % 8 or dim > 256 or value.shape[-1] != dim or torch.cuda.get_device_capability(query.device) < (8, 0):
        return None
    if installed := installed_kernel():
        return Installed(installed)
    if torch.backends.cuda.is_flash_attention_available():
        return Builtin(torch.ops.aten._flash_attention_forward)
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
    """`Prefix` by flash-attn's `flash_attn_with_kvcache`, which cuts long contexts into parts itself."""

    def __init__(self, run: Callable[..., Any]) -> None:
        self._run = run

    def __call__(
        self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, length: torch.Tensor, scaling: float
    ) -> Parts:
        out, lse = self._run(
            query[None], key[None], value[None],
            cache_seqlens=length.int(), softmax_scale=scaling, return_softmax_lse=True,
        )  # fmt: skip
        return empty_as_nothing(out, lse.transpose(1, 2), length == 0)


class Builtin:
    """`Prefix` by torch's own flash kernel for sequences of different lengths.

    That kernel does not cut a context into parts, so a few rows would keep a few of the GPU's processors busy. Equal
    parts of the context go in as sequences of their own, each with a copy of the rows.
    """

    def __init__(self, run: Callable[..., Any]) -> None:
        self._run = run

    def __call__(
        self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, length: torch.Tensor, scaling: float
    ) -> Parts:
        n, slots = len(query), len(key)
        parts = max(1, min(slots // LEAST_PART, BLOCKS // key.shape[1]))
        count = torch.arange(parts + 1, device=query.device)
        bounds = (count * length).div(parts, rounding_mode="floor").int()
        out, lse, *_ = self._run(
            query.repeat(parts, 1, 1), key, value, (count * n).int(), bounds, n, -(-slots // parts), 0.0, False, False,
            scale=scaling,
        )  # fmt: skip
        out, lse = out.unflatten(0, (parts, n)), lse.T.unflatten(0, (parts, n))
        return empty_as_nothing(out, lse, bounds[1:] == bounds[:-1])


def empty_as_nothing(out: torch.Tensor, lse: torch.Tensor, empty: torch.Tensor) -> Parts:
    """Parts without a token weigh nothing, whatever the kernel left there (some say +inf). empty [parts] bool."""
    none = empty[:, None, None]
    return out.masked_fill(none[..., None], 0.0), lse.masked_fill(none, float("-inf"))
