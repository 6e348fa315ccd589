"""Steps of fixed shape for one model: a cache that stays where it is, and a recording for each query count and span.

Serves plain and speculative steps alike. A step that cannot be recorded is left to the ordinary way, with one line in
the log. Holds no model, so that one may be let go.
"""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from spectra.errors import SpectraError
from spectra.io.recent import Recent
from spectra.target.cache import SlabCache
from spectra.target.cuda_graphs.capture import Capture, Replay
from spectra.target.cuda_graphs.flash import context_kernel
from spectra.target.cuda_graphs.static_attention import Kernels
from spectra.target.cuda_graphs.static_pass import Buffers, StaticStep
from spectra.target.packed.layer import hooked

if TYPE_CHECKING:
    from spectra.target.huggingface import HuggingFaceTarget

SPANS = tuple(sorted(size << k for k in range(15) for size in (512, 768)))
"""Slots a cache has: what a session needs, filled up to one of these, so that the next one finds room in it too."""
MOST = 64
"""Recordings of one model; a step of Llama-7B takes a few MB of the host's and the device's memory each."""

log = logging.getLogger("spectra")


@dataclass(frozen=True, slots=True)
class Recorded:
    """A step and its replay, which answers with `buffers.rows`' logits first."""

    buffers: Buffers
    replay: Replay


class StaticSteps:
    """attend: "wide", "masked" or "flash", see `static_attention`. capture: what records. kernels: see `Kernels`.

    cache: the one recordings read and write; None before the first session. broken: why there are none any more, or "".
    """

    def __init__(self, attend: str, capture: Capture, kernels: Kernels = context_kernel, *, most: int = MOST) -> None:
        self.attend = attend
        self.cache: SlabCache | None = None
        self.broken = ""
        self.flashed = 0
        self._capture, self._kernels = capture, kernels
        self._recorded: Recent[tuple[int, int], Recorded] = Recent(most)
        self._lent = False
        self._state: tuple[int, ...] = ()
        self._layout: dict[str, Any] = {}

    def lend(self, target: HuggingFaceTarget, capacity: int, **layout: Any) -> SlabCache | None:
        """The cache, empty, with room for `capacity` slots; None where steps go the ordinary way.

        layout: as `SlabCache` takes it. The first session has it; another one over the same model decodes without.
        """
        if self.broken or self._lent or capacity > SPANS[-1] or any(map(hooked, target.model.modules())):
            return None
        state, cache = state_of(target.model), self.cache
        fits = cache is not None and cache.capacity >= capacity and self._layout == layout
        if not fits or state != self._state:
            self._recorded.clear()
            self.cache = None  # before the next one takes memory
            room = SPANS[bisect_left(SPANS, capacity)]
            self.cache = SlabCache(int(target.config.num_hidden_layers), room, **layout)
        assert self.cache is not None
        self._state, self._layout, self._lent = state, layout, True
        self.cache.length = 0
        return self.cache

    def give_back(self) -> None:
        """The session that had the cache is over."""
        self._lent = False

    @torch.inference_mode()
    def prepare(self, target: HuggingFaceTarget, widest: int) -> None:
        """Record every step of up to `widest` rows at the present length, so that no answer waits for it."""
        for queries in target.plan.buckets:
            if queries <= widest and self._fits(target, queries):
                self._step(target, queries)

    @torch.inference_mode()
    def forward(
        self, target: HuggingFaceTarget, tokens: Sequence[int], chains: Sequence[Sequence[int]], rows: Sequence[int]
    ) -> torch.Tensor | None:
        """As `HuggingFaceTarget.forward` over our cache; None where that is to be done the ordinary way."""
        if not self._fits(target, len(tokens)) or (step := self._step(target, len(tokens))) is None:
            return None
        assert self.cache is not None
        step.buffers.fill(self.cache.length, tokens, chains, rows)
        return step.replay()[: len(rows)].clone()

    def _fits(self, target: HuggingFaceTarget, queries: int) -> bool:
        """Whether a step can be recorded. A flash kernel says nothing of an empty context."""
        length, room = (0, 0) if self.cache is None else (self.cache.length, self.cache.capacity - self.cache.length)
        filled = self.attend != "flash" or length > 0
        return filled and not self.broken and queries in target.plan.buckets and queries <= room

    def _step(self, target: HuggingFaceTarget, queries: int) -> Recorded | None:
        """The recording for so many rows at the present length, made now if it has to be; None where it cannot be."""
        assert self.cache is not None
        span = min(SPANS[bisect_left(SPANS, self.cache.length + queries)], self.cache.capacity)
        try:
            return self._recorded.get_or_make((queries, span), lambda: self._record(target, queries, span))
        except (RuntimeError, SpectraError) as error:
            if isinstance(error, SpectraError) and error.field != "step":
                raise
            first = (str(error).strip().splitlines() or [type(error).__name__])[0]
            self.broken = f"a step cannot be recorded ({first[:160]})"
            self._recorded.clear()
            log.warning(f"step: eager, because {self.broken}")
            return None

    def _record(self, target: HuggingFaceTarget, queries: int, span: int) -> Recorded:
        assert self.cache is not None
        buffers = Buffers(queries, target.device)
        buffers.fill(self.cache.length, [0] * queries, [[0]] * queries, [])
        step = StaticStep(self.cache, span, self.attend, self._kernels)
        replay = self._capture(partial(step.run, target, buffers))
        self.flashed = step.flashed
        return Recorded(buffers, replay)


def state_of(model: Any) -> tuple[int, ...]:
    """Changes when a part of the model is exchanged or moved: a recording would go on reading the old one's memory.

    Parameters that are changed in place are read as they are.
    """
    numbers = [x.data_ptr() for x in (*model.parameters(), *model.buffers())]
    return tuple(numbers + [id(module) for module in model.modules()])
