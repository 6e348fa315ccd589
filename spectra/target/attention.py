"""Attention whose result for a token does not depend on how the token reached the model. See docs/numerics.md.

Two arithmetics, both bitwise equal between a plain step and a tree step: `aligned` (fast: context cut by absolute
position into blocks of 64, one fp32 partial a block, partials merged in float64) and `wide` (float64 throughout, the
reference to test against). A long prefill uses stock scaled-dot-product attention, the same for every method.
Does not handle batches, padding or logit soft-capping: unknown settings are refused.
"""

from collections.abc import Sequence

import torch
from transformers import AttentionInterface
from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

from spectra.errors import SpectraError

BLOCK = 64
LEAST_ROWS = 4  # fp32 matrix kernels treat fewer rows differently
MOST_GATHERED = 1 << 24  # elements of one gathered block of keys: bounds memory at the shapes of large models
NAME = "spectra_exact"
HARMLESS = frozenset({"position_ids", "use_cache", "output_attentions", "is_causal", "cache_position", "dropout"})


class StepPlan:
    """What every layer of one forward pass needs to know; built once a step, lane tables once a window and device.

    start: committed tokens before this pass. ancestors: per query row, from the first row down, its
    ancestor rows (itself last); a padding row repeats another row's. prefill: the rows are a causal run, and only the
    number of entries in `ancestors` counts.
    """

    def __init__(
        self,
        start: int,
        ancestors: Sequence[Sequence[int]],
        *,
        prefill: bool = False,
        wide: bool = False,
    ) -> None:
        self.start = start
        self.ancestors = ancestors
        self.prefill = prefill
        self.wide = wide
        self.calls = 0
        self._lanes: dict[tuple[int | None, torch.device], Lanes] = {}
        self._mask: dict[tuple[int | None, torch.device], torch.Tensor] = {}

    def lanes(self, window: int | None, device: torch.device) -> "Lanes":
        key = (window, device)
        if key not in self._lanes:
            self._lanes[key] = Lanes.of(self.start, self.ancestors, window, device)
        return self._lanes[key]

    def mask(self, window: int | None, device: torch.device) -> torch.Tensor:
        """[rows, slots] bool: which cache slot each row reads."""
        key = (window, device)
        if key not in self._mask:
            build = run_mask if self.prefill else slot_mask
            self._mask[key] = build(self.start, self.ancestors, window).to(device)
        return self._mask[key]


class Lanes:
    """Where each row finds its context. Positions [first, base) are read in place, the rest is gathered by position.

    slot [rows, lanes]: cache slot of the token at position base + lane on this row's path. live: the lane holds a
    token this row reads. shared_live [rows, base - first] or None: the window's edge inside the shared blocks.
    """

    def __init__(
        self, first: int, base: int, slot: torch.Tensor, live: torch.Tensor, shared_live: torch.Tensor | None
    ) -> None:
        self.first, self.base = first, base
        self.slot, self.live, self.shared_live = slot, live, shared_live

    @classmethod
    def of(cls, start: int, ancestors: Sequence[Sequence[int]], window: int | None, device: torch.device) -> "Lanes":
        position = torch.tensor([start + len(a) - 1 for a in ancestors])
        base = (start + 1) // BLOCK * BLOCK  # the first query row is every row's ancestor
        lanes = -(-(int(position.max()) + 1 - base) // BLOCK) * BLOCK
        lane_position = torch.arange(base, base + lanes)
        live = lane_position <= position[:, None]
        slot = torch.where(lane_position < start, lane_position, 0).repeat(len(ancestors), 1)
        rows, columns, slots = [], [], []
        for row, chain in enumerate(ancestors):
            for depth, node in enumerate(chain):
                if start + depth >= base:
                    rows.append(row)
                    columns.append(start + depth - base)
                    slots.append(start + node)
        slot[rows, columns] = torch.tensor(slots, dtype=torch.long)
        first, shared_live = 0, None
        if window is not None:
            live &= lane_position > position[:, None] - window
            first = min(max(0, start - window + 1) // BLOCK * BLOCK, base)
            if first > 0 or int(position.max()) >= window:
                shared_live = (torch.arange(first, base) > position[:, None] - window).to(device)
        return cls(first, base, slot.to(device), live.to(device), shared_live)


def slot_mask(start: int, ancestors: Sequence[Sequence[int]], window: int | None) -> torch.Tensor:
    """[rows, start + rows] bool: row r reads the committed slots and its ancestors', inside the window."""
    rows = len(ancestors)
    mask = torch.zeros(rows, start + rows, dtype=torch.bool)
    mask[:, :start] = True
    at = [(r, start + node) for r, chain in enumerate(ancestors) for node in chain]
    mask[tuple(torch.tensor(at).T)] = True
    if window is not None:
        position = torch.tensor([start + len(a) - 1 for a in ancestors])
        mask[:, :start] &= torch.arange(start) > position[:, None] - window
        for r, chain in enumerate(ancestors):
            for depth, node in enumerate(chain):
                if start + depth <= int(position[r]) - window:
                    mask[r, start + node] = False
    return mask


def run_mask(start: int, rows: Sequence[object], window: int | None) -> torch.Tensor:
    """[rows, start + rows] bool for a causal run of rows."""
    slots = torch.arange(start + len(rows))
    position = torch.arange(start, start + len(rows))[:, None]
    mask = slots <= position
    return mask if window is None else mask & (slots > position - window)


def partials(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scaling: float, live: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """One block: query [..., m >= 4, d], key and value [..., BLOCK, d], fp32 -> max, sum of exponentials, P @ V."""
    score = query @ key.transpose(-1, -2) * scaling
    if live is not None:
        score = score.masked_fill(~live, float("-inf"))
    top = score.amax(-1, keepdim=True)
    weight = (score - top.masked_fill(top == float("-inf"), 0.0)).exp()
    return top, weight.sum(-1, keepdim=True), weight @ value


def pad_rows(rows: torch.Tensor) -> torch.Tensor:
    """[..., m, d] -> at least LEAST_ROWS rows, copies of the first."""
    missing = LEAST_ROWS - rows.shape[-2]
    return rows if missing <= 0 else torch.cat([rows] + [rows[..., :1, :]] * missing, -2)


def aligned(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scaling: float, lanes: Lanes) -> torch.Tensor:
    """query [heads, rows, d], key and value [kv_heads, slots, d] -> [heads, rows, d] in the dtype of `query`.

    Every row's tokens sit in the lane of their position in a block of fixed shape, so each partial is the same sum in
    the same order for every way the cache was filled; an empty lane adds an exact zero.
    """
    (heads, rows, dim), kv_heads = query.shape, key.shape[0]
    group = heads // kv_heads
    grouped = query.view(kv_heads, group, rows, dim).float()
    parts = []
    shared = (lanes.base - lanes.first) // BLOCK
    if shared:
        k = key[:, lanes.first : lanes.base].reshape(kv_heads, shared, BLOCK, dim).float()
        v = value[:, lanes.first : lanes.base].reshape(kv_heads, shared, BLOCK, -1).float()
        flat = pad_rows(grouped.reshape(kv_heads, 1, group * rows, dim))
        live = lanes.shared_live
        if live is not None:
            live = live.view(rows, shared, BLOCK).transpose(0, 1)
            live = live.repeat(1, group, 1)
            live = torch.cat([live] + [live[:, :1]] * (flat.shape[2] - group * rows), 1)
        parts.append([x[:, :, : group * rows].reshape(kv_heads, shared, group, rows, -1)
                      for x in partials(flat, k, v, scaling, live)])  # fmt: skip
    tail = lanes.slot.shape[1] // BLOCK
    if tail:
        own = pad_rows(grouped.transpose(1, 2))[:, :, None].expand(-1, -1, tail, -1, -1)
        chunk = max(1, MOST_GATHERED // (kv_heads * tail * BLOCK * dim))
        pieces = []
        for some in range(0, rows, chunk):
            index = lanes.slot[some : some + chunk].reshape(-1)
            k = key.index_select(1, index).view(kv_heads, -1, tail, BLOCK, dim).float()
            v = value.index_select(1, index).view(kv_heads, -1, tail, BLOCK, value.shape[-1]).float()
            live = lanes.live[some : some + chunk].view(1, -1, tail, 1, BLOCK)
            pieces.append(partials(own[:, some : some + chunk], k, v, scaling, live))
        joined = pieces[0] if len(pieces) == 1 else tuple(torch.cat(x, 1) for x in zip(*pieces, strict=True))
        parts.append([x[:, :, :, :group].permute(0, 2, 3, 1, 4) for x in joined])
    top, total, mixed = (torch.cat(x, 1) for x in zip(*parts, strict=True))
    scale = (top - top.amax(1, keepdim=True)).exp().double()
    out = (scale * mixed.double()).sum(1) / (scale * total.double()).sum(1)
    return out.reshape(heads, rows, -1).to(query.dtype)


def wide(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scaling: float, mask: torch.Tensor
) -> torch.Tensor:
    """The reference: float64 throughout, rounded once. mask [rows, slots]. Shapes as in `aligned`."""
    heads, rows, dim = query.shape
    grouped = query.reshape(key.shape[0], -1, dim).double()
    score = grouped @ key.double().transpose(-1, -2) * scaling
    live = mask.repeat(heads // key.shape[0], 1)
    weight = score.masked_fill(~live, float("-inf")).softmax(-1)
    return (weight @ value.double()).reshape(heads, rows, -1).to(query.dtype)


def exact_attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    sliding_window: int | None = None,
    spectra_plan: StepPlan | None = None,
    **settings: object,
) -> tuple[torch.Tensor, None]:
    """The function transformers calls: query [1, heads, q, d], key and value [1, kv_heads, slots, d].

    Returns ([1, q, heads, d], None). Raises SpectraError for a setting that would change the arithmetic.
    """
    if spectra_plan is None:
        raise SpectraError("numerics", "this model does not pass the step plan to its attention; use numerics fast")
    for name, setting in settings.items():
        if name not in HARMLESS and setting is not None:
            raise SpectraError("numerics", f"exact attention does not know this model's {name!r}; use numerics fast")
    spectra_plan.calls += 1
    scaling = query.shape[-1] ** -0.5 if scaling is None else scaling
    if spectra_plan.prefill:
        mask = spectra_plan.mask(sliding_window, query.device)
        out = torch.nn.functional.scaled_dot_product_attention(
            query, key, value, attn_mask=mask, scale=scaling, enable_gqa=True
        )
        return out.transpose(1, 2).contiguous(), None
    if spectra_plan.wide:
        rows = wide(query[0], key[0], value[0], scaling, spectra_plan.mask(sliding_window, query.device))
    else:
        rows = aligned(query[0], key[0], value[0], scaling, spectra_plan.lanes(sliding_window, query.device))
    return rows.transpose(0, 1).unsqueeze(0).contiguous(), None


def register() -> None:
    """Tell transformers about the function. Calling it again changes nothing."""
    AttentionInterface.register(NAME, exact_attention)
    AttentionMaskInterface.register(NAME, sdpa_mask)
