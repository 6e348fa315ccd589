"""One model, many visitors: who decodes now, together or alone, and who waits. Knows neither page nor model."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from spectra.errors import SpectraError

UNHEARD = "Stopped, for the connection was lost for a while; start it again."
"""For whom it reaches all the same: a browser does not notice every pause of its connection."""


class Visitors(Protocol):
    """What is known of visitors outside the queue."""

    def address(self, visitor: str) -> str: ...

    def left(self, visitor: str, since: float) -> bool:
        """Whether nobody listens for the visitor's answers any more. since: `time.monotonic()` of the start."""
        ...


@dataclass(slots=True, eq=False)
class Ticket:
    """A place in the queue. since: when it was taken, in seconds of `time.monotonic`. alone: nobody beside it, until
    `AdmissionQueue.share`.
    """

    visitor: str
    address: str
    since: float
    alone: bool = False
    stop: threading.Event | None = None
    """Ends what it is for."""


class AdmissionQueue:
    """max_visitors: those that may be in it, one being served included; more that are served with it are not counted.
    Of one visitor, who may have several tabs open, at most `max_own`, and of one address half of all. visitors: knows
    addresses and who left; None: nobody does. together: how many are served at once now.
    """

    def __init__(
        self,
        max_visitors: int = 16,
        visitors: Visitors | None = None,
        max_own: int = 3,
        together: Callable[[], int] = lambda: 1,
    ) -> None:
        self.max_visitors = max_visitors
        self.max_own = max_own
        self._together = together
        self._visitors = visitors
        self._changed = threading.Condition()
        self._tickets: list[Ticket] = []
        self._closed = False

    @property
    def together(self) -> int:
        """How many are served at once."""
        return max(1, self._together())

    @property
    def served(self) -> int:
        """How many are being served."""
        with self._changed:
            return sum(not self._ahead(ticket) for ticket in self._tickets)

    def join(self, visitor: str = "", *, alone: bool = False) -> Ticket:
        """A ticket for the end of the queue. Raises SpectraError when it is full, or holds enough of this visitor."""
        address = self._visitors.address(visitor) if self._visitors else ""
        ticket = Ticket(visitor, address, time.monotonic(), alone)
        limit = self.max_visitors + self.together - 1
        with self._changed:
            if self._closed:
                raise SpectraError("go", "the server is being stopped; try again later")
            own = sum(bool(visitor) and each.visitor == visitor for each in self._tickets)
            near = sum(bool(address) and each.address == address for each in self._tickets)
            if own >= self.max_own:
                raise SpectraError("go", f"{own} of your runs are going on or waiting; stop one of them first")
            if len(self._tickets) >= limit or near >= max(1, limit // 2):
                others = "1 other is" if len(self._tickets) == 1 else f"{len(self._tickets)} others are"
                raise SpectraError("go", f"{others} waiting; try again in a minute")
            self._tickets.append(ticket)
        return ticket

    def left(self, ticket: Ticket) -> bool:
        """Whether nobody listens for what this ticket is for."""
        return self._visitors is not None and self._visitors.left(ticket.visitor, ticket.since)

    def ahead(self, ticket: Ticket) -> int:
        """How many have to leave first; 0 means that it is this ticket's turn."""
        with self._changed:
            return self._ahead(ticket)

    def _ahead(self, ticket: Ticket) -> int:
        before = self._tickets[: self._tickets.index(ticket)]
        if ticket.alone:
            return len(before)
        first = max((place + 1 for place, each in enumerate(before) if each.alone), default=0)
        return first + max(0, len(before) - first - self.together + 1)

    def wait(self, ticket: Ticket, seconds: float) -> int:
        """`ahead`, as soon as it changes or after so many seconds."""
        with self._changed:
            before = self._ahead(ticket)
            self._changed.wait_for(lambda: self._ahead(ticket) != before, timeout=seconds if before else 0)
            return self._ahead(ticket)

    def waiting(self, ticket: Ticket, stop: threading.Event, seconds: float) -> Iterator[int]:
        """`ahead`, whenever it changes and after so many seconds, until it is this ticket's turn or `stop` is set.

        Sets `stop` where nobody listens any more. `close` sets it too.
        """
        ticket.stop = stop
        ahead = self.ahead(ticket)
        while ahead and not stop.is_set():
            yield ahead
            ahead = self.wait(ticket, seconds)
            if self.left(ticket):
                stop.set()

    def share(self, ticket: Ticket) -> None:
        """From now on others may be served beside this one."""
        with self._changed:
            ticket.alone = False
            self._changed.notify_all()

    @contextmanager
    def turn(self, visitor: str = "") -> Iterator[None]:
        """Wait for one's turn and be served alone inside.

        Raises SpectraError as `join` does, and where nobody listens any more before it is this visitor's turn.
        """
        ticket = self.join(visitor, alone=True)
        stop = threading.Event()
        try:
            for _ in self.waiting(ticket, stop, 1.0):
                continue
            if stop.is_set():
                raise SpectraError("go", UNHEARD)
            yield
        finally:
            self.leave(ticket)

    def close(self, seconds: float) -> None:
        """Give no more tickets, stop all that is for one, and wait so long at most until it has ended: a thread that is
        inside torch when the interpreter ends takes the process with it.
        """
        with self._changed:
            self._closed = True
            for ticket in self._tickets:
                if ticket.stop is not None:
                    ticket.stop.set()
            self._changed.notify_all()
            self._changed.wait_for(lambda: not self._tickets, timeout=seconds)

    def leave(self, ticket: Ticket) -> None:
        """Served, or gone. Safe to call twice."""
        with self._changed:
            if ticket in self._tickets:
                self._tickets.remove(ticket)
                self._changed.notify_all()
