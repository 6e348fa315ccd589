"""A bar with the time left on stderr: lively on a terminal, twice a minute in a log, absent when a second is enough."""

import sys
from types import TracebackType
from typing import Protocol

from tqdm import tqdm


class Progress(Protocol):
    """Progress of some work. n: how much is done."""

    n: int

    def __enter__(self) -> "Progress": ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None: ...

    def update(self, count: int) -> object: ...


class Bar(tqdm):
    """`Progress` as a bar on stderr. The time left is estimated from the mean speed of this run."""

    def skip(self, count: int = 1) -> None:
        """What an earlier run did: it counts as done, not for the time left."""
        self.initial += count
        self.update(count)

    def note(self, line: str) -> None:
        """Print a line above the bar."""
        self.write(line, file=sys.stderr)
        self.delay = 0  # it stands there now, and its line has to end with it


def bar(what: str, total: int | None, unit: str, *, hidden: bool = False) -> Bar:
    """A bar to be used in a `with`. total: None when it is not known."""
    pause = 0.2 if sys.stderr.isatty() else 30.0
    return Bar(
        total=total, desc=what, unit=unit, unit_scale=True, delay=1, mininterval=pause, smoothing=0, disable=hidden
    )
