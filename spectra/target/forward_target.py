"""What a step needs to know of a target: its model and the passes through it, nothing of its sessions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import torch

from spectra.target.attention_metadata import Attend
from spectra.target.cache import SlabCache
from spectra.target.execution_plan import ExecutionPlan


class ForwardTarget(Protocol):
    """`HuggingFaceTarget` as its steps see it; see there."""

    model: Any
    config: Any
    name: str
    spread: bool

    @property
    def plan(self) -> ExecutionPlan: ...

    @property
    def device(self) -> torch.device: ...

    @property
    def mixture(self) -> bool: ...

    def forward_pass(
        self,
        cache: SlabCache,
        tokens: Sequence[int],
        chains: Sequence[Sequence[int]],
        rows: Sequence[int],
        *,
        prefill: bool = False,
        attend: Attend | None = None,
    ) -> torch.Tensor: ...

    def call(
        self,
        ids: torch.Tensor,
        positions: torch.Tensor,
        rows: torch.Tensor,
        cache: Any,
        metadata: object = None,
        mask: Any = None,
    ) -> torch.Tensor: ...
