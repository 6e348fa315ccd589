"""The processes that `accelerate launch` started together, or the one there is."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from spectra.errors import SpectraError

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

    def anywhere(self, here: bool) -> bool:
        """Whether it is so in any process. Waits for all."""
        if self.world_size == 1:
            return here
        import torch

        found = torch.tensor(int(here), device=self.state.device)
        torch.distributed.all_reduce(found, torch.distributed.ReduceOp.MAX)
        return bool(found)

    @contextmanager
    def all_of_it(self) -> Iterator[None]:
        """What all processes do before any goes on. Where it fails in one, it ends in SpectraError in all of them: no
        process waits for one that is gone."""
        problem: Exception | None = None
        try:
            yield
        except Exception as error:  # noqa: BLE001 - it is raised below
            problem = error
        failed = self.anywhere(problem is not None)
        if problem is not None:
            raise problem
        if failed:
            raise SpectraError("process", f"another of the {self.world_size} failed and says why; mend that")


@contextmanager
def distributed(device: str | None) -> Iterator[Distributed]:
    """device: what the user asked for; only "cpu" matters here."""
    from accelerate import PartialState

    state = PartialState(cpu=device == "cpu", timeout=PATIENCE)
    try:
        yield Distributed(state)
    finally:
        state.destroy_process_group()
