"""What one visitor's tab holds between requests. A run belongs to the tab it was started in, never to the page."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from spectra.errors import SpectraError
from visual.run.run import Run


@dataclass(slots=True)
class TabState:
    """latest: the run that was started last, over or not."""

    latest: Run | None = None

    @property
    def busy(self) -> bool:
        """Whether that run goes on or waits for its turn: no other one is started beside it."""
        return self.latest is not None and self.latest.active

    @contextmanager
    def holding(self, run: Run) -> Iterator[None]:
        """It is `latest`, and not active any more when its handler ends, be it cancelled before anything was asked of
        the queue.
        """
        self.latest = run
        try:
            yield
        finally:
            run.stop.set()

    def stop(self) -> None:
        """End it; the run's own messages tell the browser."""
        if self.latest is not None:
            self.latest.stop.set()


def let_go() -> SpectraError:
    """What to say of a run that the browser shows and that went here: those of so many tabs are kept and no more."""
    return SpectraError("go", "this is not kept any more, for many others came since; start a new one")


@dataclass(slots=True)
class ShownTabState(TabState):
    """shown: the run on the screen; one that still waits for its turn is not."""

    shown: Run | None = None
