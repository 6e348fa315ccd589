"""What one visitor's tab holds between requests. A run belongs to the place it was asked from, never to the page."""

from dataclasses import dataclass

from visual.race import Race


@dataclass(slots=True)
class Place:
    """running: the run that was last asked for, over or not."""

    running: Race | None = None

    @property
    def busy(self) -> bool:
        """Whether it goes on, or waits to: no other one is begun beside it."""
        return self.running is not None and self.running.goes_on

    def stop(self) -> None:
        """The run tells its own end."""
        if self.running is not None:
            self.running.stop.set()


@dataclass(slots=True)
class Desk(Place):
    """shown: the run on the screen, which one that is still waiting for its turn is not."""

    shown: Race | None = None
