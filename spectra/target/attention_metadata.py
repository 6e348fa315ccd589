"""Where each query row of a step finds its context: slots by position, and masks by slot. See docs/numerics.md."""

from collections.abc import Sequence

import torch

BLOCK = 64


class StepPlan:
    """What every layer of one forward pass needs to know; built once a step, lane tables once a window and device.

    start: committed tokens before this pass. ancestors: per query row, from the first row down, its
    ancestor rows (itself last); a padding row repeats another row's. prefill: the rows are a causal run, and only the
    number of entries in `ancestors` counts. wide, sums: see `attention.wide`.
    """

    def __init__(
        self,
        start: int,
        ancestors: Sequence[Sequence[int]],
        *,
        prefill: bool = False,
        wide: bool = False,
        sums: torch.dtype = torch.float64,
    ) -> None:
        self.start = start
        self.ancestors = ancestors
        self.prefill = prefill
        self.wide = wide
        self.sums = sums
        self.calls = 0
        self._lanes: dict[tuple[int | None, torch.device], Lanes] = {}
        self._mask: dict[tuple[int | None, torch.device], torch.Tensor] = {}
        self._bias: dict[tuple[int | None, torch.device], torch.Tensor] = {}

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

    def bias(
        self, window: int | None, device: torch.device, slots: int, dtype: torch.dtype, group: int
    ) -> torch.Tensor:
        """[group * rows, slots]: 0 where a row reads a slot, -inf elsewhere; slots past the last token are not read.

        group: how often the rows come, one after the other: once a query head that shares the key head.
        """
        key = (window, device)
        if key not in self._bias:
            mask = self.mask(window, device)
            live = torch.nn.functional.pad(mask, (0, slots - mask.shape[1])).repeat(group, 1)
            self._bias[key] = torch.zeros(live.shape, dtype=dtype, device=device).masked_fill_(~live, float("-inf"))
        return self._bias[key]


class Lanes:
    """Where each row finds its context. Positions [first, base) are read in place, the rest is gathered by position.

    slot [rows, lanes]: cache slot, counted from base, of the token at position base + lane on this row's path. live:
    the lane holds a token this row reads. shared_live [rows, base - first] or None: the window's edge in shared blocks.
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
        slot = torch.where(lane_position < start, lane_position - base, 0).repeat(len(ancestors), 1)
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
