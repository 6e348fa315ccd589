"""One model, many visitors: who decodes now and who waits, in order of arrival. Knows neither page nor model."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from spectra.errors import SpectraError


class AdmissionQueue:
    """max_visitors: those that may be in it, the one being served included."""

    def __init__(self, max_visitors: int = 16) -> None:
        self.max_visitors = max_visitors
        self._changed = threading.Condition()
        self._tickets: list[object] = []

    def join(self) -> object:
        """A ticket for the end of the queue. Raises SpectraError when it is full."""
        ticket = object()
        with self._changed:
            if len(self._tickets) >= self.max_visitors:
                raise SpectraError("go", f"{len(self._tickets)} others are waiting; try again in a minute")
            self._tickets.append(ticket)
        return ticket

    def ahead(self, ticket: object) -> int:
        """How many are to be served first; 0 means that it is this ticket's turn."""
        with self._changed:
            return self._tickets.index(ticket)

    def wait(self, ticket: object, seconds: float) -> int:
        """`ahead`, as soon as it changes or after so many seconds."""
        with self._changed:
            before = self._tickets.index(ticket)
            self._changed.wait_for(lambda: self._tickets.index(ticket) != before, timeout=seconds if before else 0)
            return self._tickets.index(ticket)

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Wait for one's turn, however long, and be served inside. Raises SpectraError when the queue is full."""
        ticket = self.join()
        try:
            while self.wait(ticket, 1.0):
                continue
            yield
        finally:
            self.leave(ticket)

    def leave(self, ticket: object) -> None:
        """Served, or gone. Safe to call twice."""
        with self._changed:
            if ticket in self._tickets:
                self._tickets.remove(ticket)
                self._changed.notify_all()
