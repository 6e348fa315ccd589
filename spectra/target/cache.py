"""A KV cache allocated once and written in place; an accepted branch is moved, never recomputed.

Every layer holds keys and values [1, kv_heads, capacity, head_dim] on the device where that layer runs. Layers of one
shape on one device share a slab, so compaction is one gather a slab. It keeps full length for sliding-window layers
too (a rolling buffer could not be taken back).
"""

from dataclasses import dataclass
from typing import cast
from weakref import WeakSet, proxy

import torch
from transformers.cache_utils import Cache, CacheLayerMixin

from spectra.errors import SpectraError


@dataclass(frozen=True, slots=True)
class Layout:
    """How keys and values lie in a cache.

    block: what `SlabLayer.update` returns is filled up to a multiple of this many slots (past the last token: anything
    finite). dtype: of stored keys and values, one that holds every number of the model's (None: as they come). shared:
    whole runs of this many positions may be read from another sequence's cache (0: each has its own).
    """

    block: int = 1
    dtype: torch.dtype | None = None
    shared: int = 0


class SlabCache(Cache):
    """A transformers cache of `layers` layers with `capacity` slots each.

    length: committed positions, from 0 on. shared: how many of them, the first ones, stand in `others`, whose slots up
    to there nobody may write while it `is_read`. written: slots behind the committed ones that a step which goes in
    several passes has filled so far.
    """

    def __init__(self, layers: int, capacity: int, layout: Layout = Layout(), *, one_device: bool = True) -> None:
        self.layout = layout
        self.capacity = self.whole(capacity)
        self.length = self.written = self.shared = 0
        self.others: SlabCache | None = None
        self._readers: WeakSet[SlabCache] = WeakSet()
        self.slabs: list[torch.Tensor] = []  # each [layers, 1, kv_heads, capacity, head_dim], of keys or of values
        self._free: dict[tuple[str, torch.device, torch.dtype, int, int], list[torch.Tensor]] = {}
        self._reserved: tuple[torch.Tensor, torch.Tensor] | None = None
        self._layers_a_slab = layers if one_device else 1
        super().__init__(layers=[SlabLayer(self) for _ in range(layers)])

    def slots_for(self, kind: str, states: torch.Tensor) -> torch.Tensor:
        """[1, kv_heads, capacity, head_dim] for the "keys" or "values" of one more layer, states [1, kv_heads, *, dim].

        Raises SpectraError where memory is short.
        """
        heads, dim = states.shape[1], states.shape[3]
        dtype = self.layout.dtype or states.dtype
        free = self._free.setdefault((kind, states.device, dtype, heads, dim), [])
        if not free:
            shape = (self._layers_a_slab, 1, heads, self.capacity, dim)
            try:
                slab = torch.zeros(shape, dtype=dtype, device=states.device)
            except (RuntimeError, MemoryError) as error:  # torch raises RuntimeError on the CPU, a subclass on a GPU
                need = dtype.itemsize * torch.Size(shape).numel()
                raise SpectraError(
                    "max_new_tokens",
                    f"no memory for {need:,} more bytes of KV cache ({self.capacity} positions) on {states.device}; "
                    "ask for fewer tokens or a shorter prompt",
                ) from error
            self.slabs.append(slab)
            free.extend(slab.unbind(0)[::-1])
        return free.pop()

    def reserve(self, kv_heads: int, head_dim: int, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
        """(keys, values) of all layers, [layers, kv_heads, capacity, head_dim]. The layout names the dtype."""
        if self._reserved is None:
            if len(self.slabs) < 2:
                sample = torch.empty(1, kv_heads, 0, head_dim, dtype=self.layout.dtype, device=device)
                for layer in self.layers:
                    layer.lazy_initialization(sample, sample)
            keys, values = self.slabs
            self._reserved = keys[:, 0], values[:, 0]
        return self._reserved

    def whole(self, slots: int) -> int:
        """`slots` filled up to whole blocks."""
        return -(-slots // self.layout.block) * self.layout.block

    def keep(self, rows: list[int]) -> None:
        """Commit these rows of the last forward pass (0 is its first query token), in this order."""
        start = self.length - self.shared
        self.length += len(rows)
        if rows == list(range(len(rows))):
            return
        self._move(start, rows)

    @torch.inference_mode()
    def _move(self, start: int, rows: list[int]) -> None:
        same = 0
        while rows[same] == same:
            same += 1
        for slab in self.slabs:
            index = torch.tensor([start + row for row in rows[same:]], device=slab.device)
            slab[..., start + same : start + len(rows), :] = slab.index_select(-2, index)

    @property
    def is_read(self) -> bool:
        """Whether another cache shares positions of this one."""
        return bool(self._readers)

    @torch.inference_mode()
    def copy(self, length: int, capacity: int) -> "SlabCache":
        """Another one of `capacity` slots, the first `length` of them as here. Raises SpectraError like `slots_for`."""
        other = self._like(capacity)
        other.take(self, length)
        return other

    @torch.inference_mode()
    def continued(self, length: int, capacity: int) -> "SlabCache":
        """Another one for `capacity` positions, the first `length` as here; of these, whole runs that the layout names
        are shared. Raises SpectraError like `slots_for`."""
        first = self if self.others is None else self.others
        shared = self.shareable(length)
        other = self._like(capacity - shared)
        if shared:
            other.others, other.shared = first, shared
            first._readers.add(other)
        other.take(self if length > self.shared else first, length)
        return other

    def shareable(self, length: int) -> int:
        """How many of the first `length` positions `continued` would share."""
        if not self.layout.shared:
            return 0
        most = length if self.others is None else min(length, self.shared)
        return most - most % self.layout.shared

    def _like(self, capacity: int) -> "SlabCache":
        whole = self._layers_a_slab == len(self.layers)
        return SlabCache(len(self.layers), capacity, self.layout, one_device=whole)

    @torch.inference_mode()
    def take(self, other: "SlabCache", length: int) -> None:
        """Hold the first `length` positions of `other`, which has the same layers and shares none that are not shared
        here. Raises SpectraError like `slots_for`."""
        assert other.shared in (0, self.shared)
        mine, its = slice(length - self.shared), slice(self.shared - other.shared, length - other.shared)
        for layer, source in zip(self.layers, other.layers, strict=True):
            if source.is_initialized and length > self.shared:
                if not layer.is_initialized:
                    layer.lazy_initialization(source.keys, source.values)
                layer.keys[..., mine, :] = source.keys[..., its, :]
                layer.values[..., mine, :] = source.values[..., its, :]
        self.length = length


class SlabLayer(CacheLayerMixin):
    """One layer's view of the slab. `update` writes behind the committed tokens and does not advance them."""

    is_sliding = False
    is_croppable = False
    keys: torch.Tensor | None
    values: torch.Tensor | None

    def __init__(self, cache: SlabCache) -> None:
        super().__init__()
        # the cache holds its layers: in a cycle its memory would wait for the garbage collector
        self.cache = cast("SlabCache", proxy(cache))

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        keys = self.keys  # there are some where there was no memory for the values last time
        self.keys = self.cache.slots_for("keys", key_states) if keys is None else keys
        self.values = self.cache.slots_for("values", value_states)
        self.dtype, self.device = self.keys.dtype, key_states.device
        self.is_initialized = True

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: object, **kwargs: object
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """key_states, value_states [1, kv_heads, q, head_dim]; returns views of length + q slots, in whole blocks."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        assert self.keys is not None and self.values is not None
        start = self.cache.length + self.cache.written
        end = start + key_states.shape[-2]
        self.keys[..., start:end, :] = key_states
        self.values[..., start:end, :] = value_states
        end = self.cache.whole(end)
        return self.keys[..., :end, :], self.values[..., :end, :]

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self.get_seq_length() + query_length, 0

    def get_seq_length(self) -> int:
        return self.cache.length + self.cache.written

    def get_max_length(self) -> int:
        return self.cache.capacity
