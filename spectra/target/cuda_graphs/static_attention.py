"""The attention of a captured step: over a fixed span of slots, the length of the context read on the device.

Three arithmetics: `exact` (by position, see `fixed_order`), `flash` (the context by a flash kernel, see
flash.py), `masked` (stock scaled-dot-product attention under a mask). Where `flash` does not apply, in layers with a
sliding window or where no kernel takes the shape, `masked` does. Refuses settings it does not know.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from transformers import AttentionInterface
from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

from spectra.errors import SpectraError
from spectra.target.attention import unknown
from spectra.target.cuda_graphs.flash import flash_attention
from spectra.target.cuda_graphs.static_pass import StaticPass
from spectra.target.fixed_order.by_position import attend_by_position
from spectra.target.forward_target import ForwardTarget

NAME = "spectra_static"


def static_attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    sliding_window: int | None = None,
    spectra_metadata: StaticPass | None = None,
    **settings: object,
) -> tuple[torch.Tensor, None]:
    """The function transformers calls: query [1, heads, q, d], key and value [1, kv_heads, span, d].

    Returns ([1, q, heads, d], None). Raises SpectraError for a setting that would change the arithmetic.
    """
    if spectra_metadata is None:
        raise SpectraError("step", "this model does not pass the step to its attention; use eager")
    if odd := unknown(settings):
        raise SpectraError("step", f"captured attention does not know this model's {odd!r}; use eager")
    spectra_metadata.calls += 1
    scaling = query.shape[-1] ** -0.5 if scaling is None else scaling
    if spectra_metadata.attend == "exact":
        rows = attend_by_position(query[0], key[0], value[0], scaling, sliding_window, spectra_metadata.table)
    else:
        free = spectra_metadata.attend == "flash" and sliding_window is None
        context = spectra_metadata.context(query, value) if free else None
        if context is None:
            rows = _masked(query, key, value, scaling, sliding_window, spectra_metadata)
        else:
            spectra_metadata.flashed += 1
            own = spectra_metadata.own(key[0], value[0], query.shape[1] // key.shape[1])
            rows = flash_attention(query[0], key[0], value[0], scaling, context, own)
    return rows.transpose(0, 1).unsqueeze(0).contiguous(), None


def _masked(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    scaling: float,
    window: int | None,
    metadata: StaticPass,
) -> torch.Tensor:
    """query [1, heads, q, d], key and value [1, kv_heads, span, d] -> [heads, q, d].

    Query heads that share a key head go as rows of one: kernels that take a mask do not share keys themselves.
    """
    (heads, count, dim), kv_heads = query.shape[1:], key.shape[1]
    out = torch.nn.functional.scaled_dot_product_attention(
        query.reshape(1, kv_heads, -1, dim),
        key.to(query.dtype),
        value.to(query.dtype),
        attn_mask=metadata.bias(window, query.dtype, heads // kv_heads),
        scale=scaling,
    )
    return out.reshape(heads, count, -1)  # some kernels hand out rows before heads


@contextmanager
def attending(target: ForwardTarget) -> Iterator[None]:
    """The model's attention is ours inside."""
    before = target.config._attn_implementation
    target.model.set_attn_implementation(NAME)
    try:
        yield
    finally:
        target.model.set_attn_implementation(before)


def register() -> None:
    """Tell transformers about the function. Calling it again changes nothing."""
    AttentionInterface.register(NAME, static_attention)
    AttentionMaskInterface.register(NAME, sdpa_mask)
