"""A forward pass of fixed shape, for a GPU to capture once and replay: what changes between steps is on the device.

Tokens, positions, length of the context and the tree go there in one copy. Nothing in between looks at a number on
the host. Runs on a CPU too, which is how it is tested.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import torch

from spectra.target.attention_metadata import RowTable, live_rows
from spectra.target.cuda_graphs.flash import Context, Kernels, Own

WORD = 64  # bits of the numbers that carry the tree


class Buffers:
    """What a pass of `queries` rows needs on the device: views of one block of int64, filled by one copy.

    length [1]: committed tokens; written [1]: rows of the step that earlier passes have written; live [1]: rows that
    count; tokens, positions [queries]; rows [queries]: whose logits are read; tree [queries, words]: which of the
    step's rows each row reads, a bit each. nodes: rows that a whole step may have.
    """

    def __init__(self, queries: int, device: torch.device, *, nodes: int = 0) -> None:
        words = -(-max(queries, nodes) // WORD)
        sizes = [1, 1, 1, queries, queries, queries, queries * words]
        self._host = torch.zeros(sum(sizes), dtype=torch.long, pin_memory=device.type == "cuda")
        self._numbers = self._host.numpy()
        self._device = torch.zeros(sum(sizes), dtype=torch.long, device=device)
        self.length, self.written, self.live, self.tokens, self.positions, self.rows, tree = self._device.split(sizes)
        self.tree = tree.view(queries, words)
        self._sent = torch.cuda.Event() if device.type == "cuda" else None

    def fill(
        self,
        length: int,
        tokens: Sequence[int],
        chains: Sequence[Sequence[int]],
        rows: Sequence[int],
        *,
        written: int = 0,
    ) -> None:
        """tokens [queries]; chains: each row's ancestors in the step, itself last; rows: up to [queries]."""
        if self._sent is not None:
            self._sent.synchronize()  # the last copy may still be reading
        words = self.tree.shape[1]
        bits = b"".join(sum(1 << node for node in chain).to_bytes(8 * words, "little") for chain in chains)
        positions = [length + len(chain) - 1 for chain in chains]
        self._numbers[: -self.tree.numel()] = [
            length,
            written,
            live_rows(chains),
            *tokens,
            *positions,
            *rows,
            *[0] * (len(tokens) - len(rows)),
        ]
        self._numbers[-self.tree.numel() :] = np.frombuffer(bits, dtype="<i8")
        self._device.copy_(self._host, non_blocking=True)
        if self._sent is not None:
            self._sent.record(torch.cuda.current_stream(self._device.device))


class StaticPass:
    """What the layers of one pass need to know, made on the device once for all of them.

    attend: "exact", "masked" or "flash", see `static_attention`. span: slots that are read, the first of the cache.
    depth: ancestors that a row has in the step, itself included, at most.
    """

    def __init__(self, buffers: Buffers, span: int, attend: str, kernels: Kernels, *, depth: int) -> None:
        self.length, self.positions, self.span, self.depth = buffers.length, buffers.positions, span, depth
        self.live = buffers.live
        self.attend, self.kernels = attend, kernels
        self.calls = self.flashed = 0
        queries, device = len(buffers.tokens), buffers.length.device
        self.slots = self.length + buffers.written + torch.arange(queries, device=device)
        bits = buffers.tree[..., None] >> torch.arange(WORD, device=device)
        self.tree = (bits & 1).flatten(1).bool()
        self._contexts: dict[tuple[torch.dtype, int], Context | None] = {}
        self._masks: dict[int | None, torch.Tensor] = {}
        self._trees: dict[tuple[torch.dtype, int], torch.Tensor] = {}
        self._biases: dict[tuple[int | None, torch.dtype, int], torch.Tensor] = {}

    def context(self, query: torch.Tensor, value: torch.Tensor) -> Context | None:
        """The flash kernel for these, over what all rows read: the context, and a single row's own slot too."""
        key = (query.dtype, query.shape[-1])
        if key not in self._contexts:
            read = self.length + 1 if len(self.slots) == 1 else self.length
            self._contexts[key] = self.kernels(query, value, read)
        return self._contexts[key]

    def own(self, key: torch.Tensor, value: torch.Tensor, group: int) -> Own | None:
        """key, value [kv_heads, span, d] -> what the rows read of each other; None for a single row."""
        if len(self.slots) == 1:
            return None
        work = torch.promote_types(key.dtype, torch.float32)
        if (work, group) not in self._trees:
            tree = self.tree[:, : len(self.slots)].repeat(group, 1)
            self._trees[work, group] = torch.zeros_like(tree, dtype=work).masked_fill(~tree, float("-inf"))
        return Own(key.index_select(1, self.slots), value.index_select(1, self.slots), self._trees[work, group])

    @cached_property
    def table(self) -> RowTable:
        """Where the rows find their context, as `RowTable.of` makes it, by operations on the device."""
        count, nodes = self.tree.shape
        node = torch.arange(nodes, device=self.length.device).expand(count, -1)
        column = torch.where(self.tree, self.tree.cumsum(1) - 1, self.depth)  # ancestors stand in order
        own = torch.zeros(count, self.depth + 1, dtype=torch.long, device=node.device)  # the last is read by none
        own = own.scatter(1, column.clamp(max=self.depth), node)
        return RowTable(self.length, self.live, self.positions, own)

    def mask(self, window: int | None) -> torch.Tensor:
        """[queries, span] bool: which slot each row reads."""
        if window not in self._masks:
            slot = torch.arange(self.span, device=self.length.device)
            own = (slot - self.length).clamp(0, len(self.slots) - 1)
            committed, written = slot < self.length, slot < self.length + len(self.slots)
            mask = committed | (written & self.tree.index_select(1, own))
            if window is not None:
                position = torch.where(committed, slot, self.positions.index_select(0, own))
                mask = mask & (position > self.positions[:, None] - window)
            self._masks[window] = mask
        return self._masks[window]

    def bias(self, window: int | None, dtype: torch.dtype, group: int) -> torch.Tensor:
        """[group * queries, span]: 0 where a row reads a slot, else -inf; the rows come `group` times over."""
        key = (window, dtype, group)
        if key not in self._biases:
            mask = self.mask(window).repeat(group, 1)
            zero = torch.zeros(mask.shape, dtype=dtype, device=mask.device)
            self._biases[key] = zero.masked_fill(~mask, float("-inf"))
        return self._biases[key]
