"""Steps of fixed shape for one model: a cache that stays where it is, and a graph for each query count and span.

Serves plain and speculative steps alike. A step that cannot be captured is left to the ordinary way, with one line in
the log. Holds no model, so that one may be let go.
"""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from spectra.errors import SpectraError
from spectra.io.recent import Recent
from spectra.target.attention_metadata import BLOCK
from spectra.target.cache import Layout, SlabCache
from spectra.target.cuda_graphs.capture import Capture, Replay
from spectra.target.cuda_graphs.flash import Kernels, context_kernel
from spectra.target.cuda_graphs.static_pass import Buffers
from spectra.target.cuda_graphs.static_step import StaticStep
from spectra.target.forward_target import ForwardTarget
from spectra.target.hooks import any_hooked
from spectra.target.parameter_state import stored

SPANS = tuple(sorted(size << k for k in range(15) for size in (512, 768)))
"""Slots a cache has: what a session needs, filled up to one of these, so that the next one fits into it too."""
NODES = 1088
"""Rows of the widest step that goes in several passes, and of the deepest chain: whole blocks of BLOCK."""
MAX_GRAPHS = 64
"""CUDA graphs of one model; a step of Llama-7B takes a few MB of the host's and the device's memory each."""

log = logging.getLogger("spectra")


@dataclass(frozen=True, slots=True)
class CapturedStep:
    """A step and its replay, which answers with `buffers.rows`' logits first."""

    buffers: Buffers
    replay: Replay


class StaticSteps:
    """attend: "exact", "masked" or "flash", see `static_attention`. capture: makes a graph. kernels: see `Kernels`.

    cache: the one graphs use; None before the first session. broken: why there are none any more, or "". short: it is
    because memory was, which another time may not be.
    """

    def __init__(
        self, attend: str, capture: Capture, kernels: Kernels = context_kernel, *, max_graphs: int = MAX_GRAPHS
    ) -> None:
        self.attend = attend
        self.cache: SlabCache | None = None
        self.broken = ""
        self.short = False
        self.flashed = 0
        self._capture, self._kernels = capture, kernels
        self._graphs: Recent[tuple[int, int, int], CapturedStep] = Recent(max_graphs)
        self._lent = False
        self._state: tuple[int, ...] = ()
        self._target: ForwardTarget | None = None  # whose pass it is, while there is one

    def lend(self, target: ForwardTarget, capacity: int, layout: Layout) -> SlabCache | None:
        """The cache, empty, of at least `capacity` slots; None where steps go the ordinary way.

        The first session has it; another one over the same model decodes without.
        """
        if self.broken or self._lent or capacity > SPANS[-1] or any_hooked(target.model):
            return None
        state, cache = state_of(target.model), self.cache
        fits = cache is not None and cache.capacity >= capacity and cache.layout == layout
        if not fits or state != self._state:
            self._graphs.clear()
            self.cache = None  # before the next one takes memory
            slots = SPANS[bisect_left(SPANS, capacity)]
            self.cache = SlabCache(int(target.config.num_hidden_layers), slots, layout)
        assert self.cache is not None
        self._state, self._lent = state, True
        self.cache.length = 0
        return self.cache

    def give_back(self) -> None:
        """The session that had the cache is over."""
        self._lent = False

    @torch.inference_mode()
    def prepare(self, target: ForwardTarget, max_rows: int) -> None:
        """Capture every step of up to `max_rows` rows at the present length, so that no answer waits for it."""
        with self._passes_of(target):
            for queries in target.plan.counts:
                if queries <= target.plan.fit(max_rows) and self._fits(target, queries):
                    self._step(target, queries, 0, BLOCK)

    @torch.inference_mode()
    def forward(
        self,
        target: ForwardTarget,
        tokens: Sequence[int],
        chains: Sequence[Sequence[int]],
        rows: Sequence[int],
    ) -> torch.Tensor | None:
        """As `HuggingFaceTarget.forward_pass` over our cache; None where that is to be done the ordinary way."""
        cache = self.cache
        if cache is None or not self._fits(target, len(tokens)):
            return None
        deep = self.attend == "exact" and max(map(len, chains)) > BLOCK
        depth = NODES if deep else BLOCK  # for exact attention alone, which looks ancestors up one by one
        with self._passes_of(target):
            step = self._step(target, len(tokens), cache.written, depth)
            if step is None:
                return None
            step.buffers.fill(cache.length, tokens, chains, rows, written=cache.written)
            return step.replay()[: len(rows)].clone()

    @contextmanager
    def _passes_of(self, target: ForwardTarget) -> Iterator[None]:
        """Passes inside go through this target, and none is held afterwards: they are kept longer than a model."""
        self._target = target
        try:
            yield
        finally:
            self._target = None

    def _run(self, step: StaticStep, buffers: Buffers) -> torch.Tensor:
        assert self._target is not None
        return step.run(self._target, buffers)

    def _fits(self, target: ForwardTarget, queries: int) -> bool:
        """Whether a pass can be captured. A flash kernel gives nothing for an empty context."""
        if self.cache is None or self.broken or queries not in target.plan.counts:
            return False
        filled = self.attend != "flash" or self.cache.length > 0
        return filled and self.cache.length + self.cache.written + queries <= self.cache.capacity

    def _step(self, target: ForwardTarget, queries: int, written: int, depth: int) -> CapturedStep | None:
        """The graph for so many rows at the present length, made now if it has to be; None where it cannot be."""
        assert self.cache is not None
        reach = self.cache.length + written + queries
        span = min(SPANS[bisect_left(SPANS, reach)], self.cache.capacity)
        try:
            return self._graphs.get_or_make(
                (queries, span, depth), lambda: self._make_graph(target, queries, span, depth, written)
            )
        except (RuntimeError, SpectraError) as error:
            if isinstance(error, SpectraError) and error.field not in ("step", "numerics"):
                raise
            first = (str(error).strip().splitlines() or [type(error).__name__])[0]
            self.broken = f"a step cannot be captured ({first[:160]})"
            self.short = isinstance(error, torch.OutOfMemoryError)
            self._graphs.clear()
            log.warning(f"step: eager, because {self.broken}")
            return None

    def _make_graph(self, target: ForwardTarget, queries: int, span: int, depth: int, written: int) -> CapturedStep:
        """Warming up writes where the pass itself will: behind the step's earlier passes, whose rows it reads."""
        assert self.cache is not None
        buffers = Buffers(queries, target.device, nodes=NODES if target.plan.chunk else 0)
        buffers.fill(self.cache.length, [0] * queries, [[0]] * queries, [], written=written)
        step = StaticStep(self.cache, span, self.attend, self._kernels, depth=depth)
        replay = self._capture(partial(self._run, step, buffers))
        self.flashed = step.flashed
        return CapturedStep(buffers, replay)


def state_of(model: Any) -> tuple[int, ...]:
    """Changes when a part of the model is exchanged or moved: a graph would go on reading the old one's memory.

    Parameters that are changed in place are read as they are.
    """
    numbers = [part.data_ptr() for x in (*model.parameters(), *model.buffers()) for part in stored(x)]
    return tuple(numbers + [id(module) for module in model.modules()])
