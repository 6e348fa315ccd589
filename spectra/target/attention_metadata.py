"""Where each query row of a pass finds its context: slots by position, and masks by slot. See docs/numerics.md."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

BLOCK = 64
Attend = Callable[..., torch.Tensor]
"""(query [heads, rows, d], key and value [kv_heads, slots, d], scaling, window, metadata) -> [heads, rows, d]."""


class AttentionMetadata:
    """What every layer of one forward pass needs to know; tables are built once a pass, window and device.

    start: committed tokens before this step. ancestors: for each query row of the pass the rows of the step above it,
    from the first down, itself last; a row that fills up repeats another row's. prefill: the rows are a causal run, and
    only the number of entries in `ancestors` counts. attend: computes rows in the place of `attention.aligned`.
    """

    def __init__(
        self,
        start: int,
        ancestors: Sequence[Sequence[int]],
        *,
        prefill: bool = False,
        attend: Attend | None = None,
    ) -> None:
        self.start = start
        self.ancestors = ancestors
        self.prefill = prefill
        self.attend = attend
        self.calls = 0
        self._gathered: dict[tuple[int | None, torch.device], GatheredSlots] = {}
        self._mask: dict[tuple[int | None, torch.device], torch.Tensor] = {}
        self._table: dict[torch.device, RowTable] = {}

    def table(self, device: torch.device) -> "RowTable":
        if device not in self._table:
            self._table[device] = RowTable.of(self.start, self.ancestors, device)
        return self._table[device]

    def gathered(self, window: int | None, device: torch.device) -> "GatheredSlots":
        key = (window, device)
        if key not in self._gathered:
            self._gathered[key] = GatheredSlots.of(self.start, self.ancestors, window, device)
        return self._gathered[key]

    def mask(self, window: int | None, device: torch.device) -> torch.Tensor:
        """[rows, slots] bool: which cache slot each row reads."""
        key = (window, device)
        if key not in self._mask:
            build = run_mask if self.prefill else slot_mask
            self._mask[key] = build(self.start, self.ancestors, window).to(device)
        return self._mask[key]


class RowTable(NamedTuple):
    """Where each row finds its context, int64 on the device: see `fixed_order.by_position`.

    length [1]: committed tokens, in the slots of their positions; live [1]: rows that count, the first ones; positions
    [rows]; own [rows, depth]: each ancestor in the step, itself included, by its slot behind the committed tokens.
    """

    length: torch.Tensor
    live: torch.Tensor
    positions: torch.Tensor
    own: torch.Tensor

    @classmethod
    def of(cls, start: int, ancestors: Sequence[Sequence[int]], device: torch.device) -> "RowTable":
        """In one copy to the device. ancestors: see `AttentionMetadata`."""
        rows, depth = len(ancestors), max(map(len, ancestors))
        own = [[*chain, *[0] * (depth - len(chain))] for chain in ancestors]
        positions = [start + len(chain) - 1 for chain in ancestors]
        numbers = [start, live_rows(ancestors), *positions, *(node for chain in own for node in chain)]
        length, live, where, nodes = torch.tensor(numbers, device=device).split([1, 1, rows, rows * depth])
        return cls(length, live, where, nodes.view(rows, depth))


def live_rows(ancestors: Sequence[Sequence[int]]) -> int:
    """How many rows of a pass count; those behind them repeat the last one, to fill it up."""
    first = ancestors[0][-1]
    return sum(chain[-1] == first + row for row, chain in enumerate(ancestors))


@dataclass(frozen=True, slots=True)
class SequenceRows:
    """Rows of a pass that belong to one sequence. metadata: theirs, which may have more rows, to fill up."""

    rows: int
    metadata: AttentionMetadata


class JointMetadata:
    """What every layer needs to know of a pass over several sequences, whose runs of rows stand side by side.

    read: the keys that a layer was given -> (keys, values) of each run, [1, kv_heads, slots, dim]. chunk: rows of every
    call of attention; 0: as many as the run has. Rows of the pass behind the last run fill it up.
    """

    prefill = False

    def __init__(
        self,
        runs: Sequence[SequenceRows],
        read: Callable[[torch.Tensor], Sequence[tuple[torch.Tensor, torch.Tensor]]],
        chunk: int = 0,
    ) -> None:
        self.runs, self.read, self.chunk = runs, read, chunk
        self.calls = 0


class GatheredSlots:
    """Where each row finds its context. Slots [first, base) are read in place, the rest is gathered by position.

    slot [rows, columns]: cache slot, counted from `base`, of each token on this row's path that is not read in place,
    in the order of positions; the first of them begins a block. live: the column holds a token this row reads.
    shared_live [rows, base - first]: which slots of those read in place this row reads; None: all of them.
    """

    def __init__(
        self,
        first: int,
        base: int,
        slot: torch.Tensor,
        live: torch.Tensor,
        shared_live: torch.Tensor | None,
    ) -> None:
        self.first, self.base = first, base
        self.slot, self.live, self.shared_live = slot, live, shared_live

    @classmethod
    def of(
        cls, start: int, ancestors: Sequence[Sequence[int]], window: int | None, device: torch.device
    ) -> "GatheredSlots":
        position = torch.tensor([start + len(a) - 1 for a in ancestors])
        base = (start + 1) // BLOCK * BLOCK  # the first query row is every row's ancestor
        count = -(-(int(position.max()) + 1 - base) // BLOCK) * BLOCK
        column_position = torch.arange(base, base + count)
        live = column_position <= position[:, None]
        slot = torch.where(column_position < start, column_position - base, 0).repeat(len(ancestors), 1)
        rows, columns, slots = [], [], []
        for row, chain in enumerate(ancestors):
            for depth, node in enumerate(chain):
                if start + depth >= base:
                    rows.append(row)
                    columns.append(start + depth - base)
                    slots.append(start + node - base)
        slot[rows, columns] = torch.tensor(slots, dtype=torch.long)
        first, shared_live = 0, None
        if window is not None:
            live &= column_position > position[:, None] - window
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


def mask_argument(
    config: Any, metadata: AttentionMetadata | None, dtype: torch.dtype, device: torch.device
) -> torch.Tensor | dict[str, torch.Tensor]:
    """4-D masks pass through a model untouched; models with several kinds of layers take one a kind.

    config: of the text model. metadata: who reads what; None: our attention knows it, a mask only has to be there.
    """
    kinds = sorted(set(getattr(config, "layer_types", None) or ()))
    window = getattr(config, "sliding_window", None)

    def one(window: int | None) -> torch.Tensor:
        if metadata is None:
            return torch.ones(1, 1, 1, 1, dtype=torch.bool, device=device)
        mask = metadata.mask(window, device)[None, None]
        if config._attn_implementation == "sdpa":
            return mask
        least = torch.finfo(dtype).min  # eager attention adds its mask and is silently wrong with bool
        return torch.zeros(mask.shape, dtype=dtype, device=device).masked_fill_(~mask, least)

    if kinds == ["full_attention", "sliding_attention"]:
        return {"full_attention": one(None), "sliding_attention": one(window)}
    sliding = kinds == ["sliding_attention"] or (not kinds and getattr(config, "use_sliding_window", True))
    return one(window if sliding else None)
