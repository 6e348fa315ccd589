"""The processes that `accelerate launch` started together, or the one there is."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

PATIENCE = timedelta(days=30)
"""The others wait while the first reads the corpus."""


@dataclass(frozen=True)
class Distributed:
    """rank: the number of this process, of `world_size`. device: its own, where there are several."""

    state: Any

    @property
    def rank(self) -> int:
        return int(self.state.process_index)

    @property
    def world_size(self) -> int:
        return int(self.state.num_processes)

    @property
    def first(self) -> bool:
        return self.rank == 0

    @property
    def device(self) -> str | None:
        return str(self.state.device) if self.world_size > 1 else None

    def wait(self) -> None:
        """Until all are here."""
        self.state.wait_for_everyone()


@contextmanager
def distributed(device: str | None) -> Iterator[Distributed]:
    """device: what the user asked for; only "cpu" matters here."""
    from accelerate import PartialState

    state = PartialState(cpu=device == "cpu", timeout=PATIENCE)
    try:
        yield Distributed(state)
    finally:
        state.destroy_process_group()
