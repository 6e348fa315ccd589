"""A `SlabCache` as a captured step sees it: written at slots that only the device knows, read over a fixed span."""

import torch
from transformers.cache_utils import Cache, CacheLayerMixin

from spectra.target.cache import SlabCache, SlabLayer


class StaticCache(Cache):
    """What a model takes as `past_key_values`. slots [q] int64: where the pass writes. span: how many it reads."""

    def __init__(self, slab: SlabCache, slots: torch.Tensor, span: int) -> None:
        super().__init__(layers=[StaticLayer(layer, slots, span) for layer in slab.layers])


class StaticLayer(CacheLayerMixin):
    """One layer. It tells no length: a number read on the host would be the same in every replay."""

    is_sliding = False
    is_croppable = False

    def __init__(self, layer: SlabLayer, slots: torch.Tensor, span: int) -> None:
        super().__init__()
        self.layer, self.slots, self.span = layer, slots, span

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        if not self.layer.is_initialized:
            self.layer.lazy_initialization(key_states, value_states)

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: object, **kwargs: object
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """key_states, value_states [1, kv_heads, q, head_dim]; returns [1, kv_heads, span, head_dim] of the slab."""
        self.lazy_initialization(key_states, value_states)
        keys, values = self.layer.keys, self.layer.values
        assert keys is not None and values is not None
        keys.index_copy_(2, self.slots, key_states.to(keys.dtype))
        values.index_copy_(2, self.slots, value_states.to(values.dtype))
        return keys[:, :, : self.span], values[:, :, : self.span]

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self.span, 0

    def get_seq_length(self) -> int:
        return 0

    def get_max_length(self) -> int:
        return self.span
