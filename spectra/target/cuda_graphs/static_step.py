"""One pass of fixed shape through the model, over the first slots of one cache."""

from __future__ import annotations

import torch

from spectra.errors import SpectraError
from spectra.target.attention_metadata import BLOCK
from spectra.target.cache import SlabCache
from spectra.target.cuda_graphs.flash import Kernels
from spectra.target.cuda_graphs.static_attention import attending
from spectra.target.cuda_graphs.static_cache import StaticCache
from spectra.target.cuda_graphs.static_pass import Buffers, StaticPass
from spectra.target.forward_target import ForwardTarget


class StaticStep:
    """A pass over the first `span` slots of one cache. Fill its buffers, then `run`, or replay what was captured of it.

    attend, kernels: see `static_attention`. depth: see `StaticPass`. flashed: layers of the last run whose context a
    flash kernel read.
    """

    def __init__(self, slab: SlabCache, span: int, attend: str, kernels: Kernels, *, depth: int = BLOCK) -> None:
        self.slab, self.span, self.depth = slab, span, depth
        self.attend, self.kernels = attend, kernels
        self.flashed = 0

    def run(self, target: ForwardTarget, buffers: Buffers) -> torch.Tensor:
        """Logits [queries, vocabulary], those of `buffers.rows` first. Raises SpectraError for a model that cannot."""
        step = StaticPass(buffers, self.span, self.attend, self.kernels, depth=self.depth)
        cache = StaticCache(self.slab, step.slots, self.span)
        with attending(target):
            logits = target.call(buffers.tokens[None], buffers.positions[None], buffers.rows, cache, step)
        if step.calls == 0:
            raise SpectraError("step", f"{target.name} does not call our attention; use eager")
        self.flashed = step.flashed
        return logits
