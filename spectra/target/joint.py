"""One pass of a model over rows of several sequences: its products see rows only, its attention goes run by run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar, cast
from weakref import proxy

import torch
from transformers.cache_utils import Cache, CacheLayerMixin

from spectra.errors import SpectraError
from spectra.target.attention_metadata import Attend, AttentionMetadata, JointMetadata, SequenceRows
from spectra.target.cache import SlabCache
from spectra.target.forward_target import ForwardTarget
from spectra.verify.picks import Scores

X = TypeVar("X")


@dataclass(frozen=True, slots=True)
class Part:
    """What one sequence has in a step, see `HuggingFaceTarget.forward`."""

    cache: SlabCache
    tokens: Sequence[int]
    chains: Sequence[Sequence[int]]
    rows: Sequence[int]


class PartRun(NamedTuple):
    """Rows [first, end) of a part, the number-th one."""

    number: int
    part: Part
    first: int
    end: int


class JointCache(Cache):
    """Hands rows of a pass on to the caches of their sequences. runs: (cache, rows of the pass) one after the other."""

    def __init__(self, runs: Sequence[tuple[SlabCache, int]]) -> None:
        self.runs = runs
        self.given: torch.Tensor | None = None
        self.views: list[tuple[torch.Tensor, torch.Tensor]] = []
        super().__init__(layers=[JointLayer(self, at) for at in range(len(runs[0][0].layers))])

    def read(self, key: torch.Tensor) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """(keys, values) of each run, for the layer that was updated with `key` last."""
        if key is not self.given:
            raise SpectraError(
                "numerics", "this model's attention does not read what its cache returned; decode one at a time"
            )
        return self.views


class JointLayer(CacheLayerMixin):
    """One layer of a `JointCache`."""

    is_sliding = False
    is_croppable = False

    def __init__(self, cache: JointCache, at: int) -> None:
        super().__init__()
        self.cache = cast("JointCache", proxy(cache))  # it holds its layers, and the caches of the sequences
        self.at = at

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        """The sequences' own layers do that."""

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: object, **kwargs: object
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """key_states, value_states [1, kv_heads, rows, head_dim], returned as they are: see `JointCache.read`."""
        at, views = 0, []
        for cache, rows in self.cache.runs:
            part = slice(at, at + rows)
            views.append(cache.layers[self.at].update(key_states[:, :, part], value_states[:, :, part]))
            at += rows
        self.cache.given, self.cache.views = key_states, views
        return key_states, value_states

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self.get_seq_length() + query_length, 0

    def get_seq_length(self) -> int:
        return max(cache.length for cache, _ in self.cache.runs)

    def get_max_length(self) -> int:
        return max(cache.capacity for cache, _ in self.cache.runs)


@torch.inference_mode()
def joint_forward(
    target: ForwardTarget, parts: Sequence[Part], *, chunk: int = 0, whole: int = 1, attend: Attend | None = None
) -> list[Scores]:
    """Scores of each part, as if it were alone.

    chunk: rows of a pass, and of every call of attention in it; both are filled up. 0: one pass over all rows, filled
    up to a multiple of `whole`. attend: see `AttentionMetadata`.
    """
    total = sum(len(part.tokens) for part in parts)
    size = chunk or -(-total // whole) * whole
    found: list[list[torch.Tensor]] = [[] for _ in parts]
    try:
        for first in range(0, total, size):
            _pass(target, _runs(parts, first, first + size), size, chunk, attend, found)
    finally:
        for part in parts:
            part.cache.written = 0
    return [Scores(torch.cat(logits)) for logits in found]


def _runs(parts: Sequence[Part], first: int, end: int) -> list[PartRun]:
    """What each part has of rows [first, end) of all parts side by side."""
    runs, at = [], 0
    for number, part in enumerate(parts):
        low, high = max(first - at, 0), min(end - at, len(part.tokens))
        if low < high:
            runs.append(PartRun(number, part, low, high))
        at += len(part.tokens)
    return runs


def _pass(
    target: ForwardTarget,
    runs: Sequence[PartRun],
    size: int,
    chunk: int,
    attend: Attend | None,
    found: Sequence[list[torch.Tensor]],
) -> None:
    """Append the logits of these runs to those found."""
    tokens: list[int] = []
    positions: list[int] = []
    asked: list[int] = []
    counts, runs_of_rows = [], []
    for number, part, low, high in runs:
        part.cache.written = low
        rows = [len(tokens) + row - low for row in part.rows if low <= row < high]
        chains = part.chains[low:high]
        runs_of_rows.append(
            SequenceRows(high - low, AttentionMetadata(part.cache.length, _filled(chains, chunk), attend=attend))
        )
        counts.append((number, len(rows)))
        asked += rows
        tokens += part.tokens[low:high]
        positions += [part.cache.length + len(chain) - 1 for chain in chains]
    cache = JointCache([(part.cache, high - low) for _, part, low, high in runs])
    metadata = JointMetadata(runs_of_rows, cache.read, chunk)
    wanted = _filled(asked or [0], chunk)
    device = target.device
    ids, places = (torch.tensor([_filled(x, size)], device=device) for x in (tokens, positions))
    logits = target.call(ids, places, torch.tensor(wanted, device=device), cache, metadata)
    if metadata.calls == 0:
        raise SpectraError("numerics", f"{target.name} does not call the exact attention; use numerics fast")
    at = 0
    for number, count in counts:
        found[number].append(logits[at : at + count])
        at += count


def _filled(rows: Sequence[X], size: int) -> list[X]:
    """At least `size` of them, the last one over and over."""
    return [*rows, *[rows[-1]] * (size - len(rows))]
