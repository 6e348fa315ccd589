"""Attention whose result for a token does not depend on how the token reached the model. See docs/numerics.md.

The context is cut by absolute position into blocks of 64, one partial result a block, and partials are merged in one
order: bitwise the same in a plain step and in a tree step. A prefill uses stock scaled-dot-product attention, the
same for every method. Does not handle batches, padding or logit soft-capping: unknown settings are refused.
"""

from collections.abc import Mapping
from typing import Any

import torch
from transformers import AttentionInterface
from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

from spectra.errors import SpectraError
from spectra.target.attention_metadata import BLOCK, AttentionMetadata, GatheredSlots, JointMetadata
from spectra.target.fixed_order.by_position import attend_by_position

LEAST_ROWS = 4  # fp32 matrix kernels treat fewer rows differently
MOST_GATHERED = 1 << 24  # elements of one gathered block of keys: bounds memory at the shapes of large models
NAME = "spectra_exact"
HARMLESS = frozenset({"position_ids", "use_cache", "output_attentions", "is_causal", "cache_position", "dropout"})


def pad_rows(rows: torch.Tensor) -> torch.Tensor:
    """[..., m, d] -> at least LEAST_ROWS rows, copies of the first."""
    missing = LEAST_ROWS - rows.shape[-2]
    return rows if missing <= 0 else torch.cat([rows] + [rows[..., :1, :]] * missing, -2)


def aligned(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scaling: float, gathered: GatheredSlots
) -> torch.Tensor:
    """query [heads, rows, d], key and value [kv_heads, slots, d] -> [heads, rows, d] in the dtype of `query`.

    slots: a multiple of BLOCK; those past the last token hold anything finite. Every row's tokens are weighed in the
    column of their position in a block of fixed shape, so each partial is the same sum in the same order for every way
    the cache was filled; an empty column adds an exact zero. Blocks merge in float64.
    """
    (heads, rows, dim), kv_heads = query.shape, key.shape[0]
    group = heads // kv_heads
    work = torch.float64 if query.dtype == torch.float64 else torch.float32
    key, value = (x[:, gathered.first :].to(work).unflatten(1, (-1, BLOCK)) for x in (key, value))
    flat = pad_rows(query.reshape(kv_heads, group * rows, dim).to(work) * scaling)
    score = flat[:, None] @ key.transpose(-1, -2)  # [kv_heads, blocks, group * rows, BLOCK], in slot order
    shared = (gathered.base - gathered.first) // BLOCK
    tail = gathered.slot.shape[1] // BLOCK
    own = score[:, :shared]
    if gathered.shared_live is not None:
        own = own.masked_fill(~_spread(gathered.shared_live, group, flat.shape[1]), float("-inf"))
    if tail:  # from the order of slots to the order of positions
        late = score[:, shared:, : group * rows].transpose(1, 2).reshape(kv_heads, group, rows, -1)
        late = late.gather(-1, gathered.slot.expand(kv_heads, group, -1, -1))
        late = late.masked_fill(~gathered.live, float("-inf")).unflatten(-1, (tail, BLOCK))
        late = late.permute(0, 3, 1, 2, 4).reshape(kv_heads, tail, group * rows, BLOCK)
        extra = flat.shape[1] - group * rows
        own = torch.cat([own, torch.cat([late, late[:, :, :1].expand(-1, -1, extra, -1)], 2)], 1)
    top = own.amax(-1, keepdim=True)
    weight = (own - top.clamp(min=torch.finfo(work).min)).exp_()
    mixed = [weight[:, :shared] @ value[:, :shared]]
    if tail:
        late = weight[:, shared:, : group * rows].reshape(kv_heads, tail, group, rows, BLOCK).permute(0, 3, 1, 2, 4)
        late = _mix(pad_rows(late), value[:, shared:], gathered.slot)[..., :group, :].permute(0, 2, 3, 1, 4)
        late = late.reshape(kv_heads, tail, group * rows, -1)
        mixed.append(torch.cat([late, late[:, :, :1].expand(-1, -1, extra, -1)], 2))
    scale = (top - top.amax(1, keepdim=True)).exp_().double()
    out = (scale * torch.cat(mixed, 1)).sum(1) / (scale * weight.sum(-1, keepdim=True)).sum(1)
    return out[:, : group * rows].reshape(heads, rows, -1).to(query.dtype)


def _spread(live: torch.Tensor, group: int, rows: int) -> torch.Tensor:
    """[rows, blocks * BLOCK] -> [blocks, group * rows padded to `rows`, BLOCK]."""
    live = live.unflatten(1, (-1, BLOCK)).transpose(0, 1).repeat(1, group, 1)
    return torch.cat([live, live[:, :1].expand(-1, rows - live.shape[1], -1)], 1)


def _mix(weight: torch.Tensor, value: torch.Tensor, slot: torch.Tensor) -> torch.Tensor:
    """weight [kv_heads, rows, tail, m, BLOCK] in column order -> weight @ each row's own values, [..., m, d].

    value [kv_heads, blocks, BLOCK, d] from the first gathered slot on; slot [rows, columns]: which of them, see
    `GatheredSlots`.
    Gathered some rows at a time: at the shapes of large models all at once would not fit.
    """
    flat = value.flatten(1, 2)
    kv_heads, dim = flat.shape[0], flat.shape[2]
    chunk = max(1, MOST_GATHERED // (kv_heads * slot.shape[1] * dim))
    parts = []
    for at in range(0, len(slot), chunk):
        index = slot[at : at + chunk].reshape(-1)
        gathered = flat.index_select(1, index).view(kv_heads, -1, slot.shape[1] // BLOCK, BLOCK, dim)
        parts.append(weight[:, at : at + chunk] @ gathered)
    return parts[0] if len(parts) == 1 else torch.cat(parts, 1)


def unknown(settings: Mapping[str, object]) -> str:
    """A setting that would change the arithmetic and that our attention does not know, or ""."""
    return next((name for name, value in settings.items() if name not in HARMLESS and value is not None), "")


def of_ones_own(model: Any) -> str:
    """Why the model's own attention computes something else than ours would, as far as its settings tell, or "".

    A function that a program registered may differ at any length of text. Stock kernels read a window from the config,
    which may have been changed since it was given to the layers.
    """
    config = model.config.get_text_config(decoder=True)
    name = config._attn_implementation
    function = AttentionInterface().get(name) if name else None
    ours = name in (NAME, "eager") or "/" in (name or "")  # kernels of the hub have the arithmetic of flash attention
    if function is not None and not ours and not getattr(function, "__module__", "").startswith("transformers."):
        return f"its attention {name!r} is none of transformers"
    if not (kinds := getattr(config, "layer_types", None)):
        return ""
    windows = {"full_attention": None, "sliding_attention": getattr(config, "sliding_window", None)}
    for module in model.modules():
        own = vars(module)
        at = own.get("layer_idx")
        if "sliding_window" in own and isinstance(at, int) and at < len(kinds) and kinds[at] in windows:
            window = own["sliding_window"] if own.get("is_sliding", True) else None
            if window != windows[kinds[at]]:
                return f"layer {at} has a window of {window}, and its config one of {windows[kinds[at]]}"
    return ""


def attended(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    scaling: float,
    window: int | None,
    metadata: AttentionMetadata,
) -> torch.Tensor:
    """Rows of one sequence: query [heads, rows, d], key and value [kv_heads, slots, d] -> [heads, rows, d]."""
    if metadata.attend is not None:
        return metadata.attend(query, key, value, scaling, window, metadata)
    if query.device.type == "cuda":
        return attend_by_position(query, key, value, scaling, window, metadata.table(query.device))
    return aligned(query, key, value, scaling, metadata.gathered(window, query.device))


def run_by_run(
    query: torch.Tensor, key: torch.Tensor, metadata: JointMetadata, scaling: float, window: int | None
) -> torch.Tensor:
    """Rows of several sequences, query [heads, rows, d] -> [heads, rows, d]; those that fill the pass up are zero."""
    out, at = torch.zeros_like(query), 0
    for run, (keys, values) in zip(metadata.runs, metadata.read(key), strict=True):
        own = query[:, at : at + run.rows]
        missing = max(0, metadata.chunk - run.rows)
        if missing:
            own = torch.cat([own, own[:, -1:].expand(-1, missing, -1)], 1)
        rows = attended(own, keys[0], values[0], scaling, window, run.metadata)
        out[:, at : at + run.rows] = rows[:, : run.rows]
        at += run.rows
    return out


def exact_attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    sliding_window: int | None = None,
    spectra_metadata: AttentionMetadata | JointMetadata | None = None,
    **settings: object,
) -> tuple[torch.Tensor, None]:
    """The function transformers calls: query [1, heads, q, d], key and value [1, kv_heads, slots, d].

    key and value come from a `SlabCache` in blocks of BLOCK, perhaps in a wider dtype that holds the same numbers.

    Returns ([1, q, heads, d], None). Raises SpectraError for a setting that would change the arithmetic.
    """
    if spectra_metadata is None:
        raise SpectraError(
            "numerics",
            "attention was called without its metadata; use numerics fast where the model does not pass it on, or load "
            "a second model where another thread runs this one while it decodes",
        )
    if odd := unknown(settings):
        raise SpectraError("numerics", f"exact attention does not know this model's {odd!r}; use numerics fast")
    spectra_metadata.calls += 1
    scaling = query.shape[-1] ** -0.5 if scaling is None else scaling
    if isinstance(spectra_metadata, JointMetadata):
        rows = run_by_run(query[0], key, spectra_metadata, scaling, sliding_window)
        return rows.transpose(0, 1).unsqueeze(0).contiguous(), None
    if spectra_metadata.prefill:
        mask = spectra_metadata.mask(sliding_window, query.device)
        key, value = (x[:, :, : mask.shape[1]].to(query.dtype) for x in (key, value))
        out = torch.nn.functional.scaled_dot_product_attention(
            query, key, value, attn_mask=mask, scale=scaling, enable_gqa=True
        )
        return out.transpose(1, 2).contiguous(), None
    rows = attended(query[0], key[0], value[0], scaling, sliding_window, spectra_metadata)
    return rows.transpose(0, 1).unsqueeze(0).contiguous(), None


def register() -> None:
    """Tell transformers about the function. Calling it again changes nothing."""
    AttentionInterface.register(NAME, exact_attention)
    AttentionMaskInterface.register(NAME, sdpa_mask)
