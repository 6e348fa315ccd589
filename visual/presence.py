"""Who has a connection to the page open, and who is gone since a while."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice


class Presence:
    """wait: seconds without a connection after which a visitor counts as gone."""

    def __init__(self, wait: float) -> None:
        self.wait = wait
        self.on_gone: Callable[[str], object] | None = None
        """Called, in a thread, with each visitor who is gone and was looked for."""
        self._here: Counter[str] = Counter()
        self._looks: dict[str, asyncio.TimerHandle] = {}

    @property
    def looking(self) -> bool:
        """Whether a look at some visitor is still to come."""
        return bool(self._looks)

    def came(self, visitor: str) -> None:
        """A connection of the visitor's was opened."""
        self._here[visitor] += 1

    def went(self, visitor: str) -> bool:
        """A connection was closed. Returns whether it was the visitor's last one."""
        self._here[visitor] -= 1
        if self._here[visitor]:
            return False
        del self._here[visitor]
        return True

    def look_later(self, visitor: str) -> None:
        """See after `wait` seconds whether the visitor is there."""
        if self.on_gone is None:
            return
        if visitor in self._looks:
            self._looks[visitor].cancel()
        self._looks[visitor] = asyncio.get_running_loop().call_later(self.wait, self._look, visitor)

    def _look(self, visitor: str) -> None:
        del self._looks[visitor]
        if self.on_gone is not None and visitor not in self._here:
            asyncio.get_running_loop().run_in_executor(None, self.on_gone, visitor)


@contextmanager
def one_more(counts: Counter[str], name: str) -> Iterator[None]:
    """Inside, one more of this name is counted; names of which there are none are left out."""
    counts[name] += 1
    try:
        yield
    finally:
        counts[name] -= 1
        if not counts[name]:
            del counts[name]


class OpenPages:
    """Who has a connection open, by address. most: of one address, the first of whom count."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._here: dict[str, Counter[str]] = {}

    @contextmanager
    def opened(self, visitor: str, address: str) -> Iterator[None]:
        """Inside, the visitor has one; "" is nobody."""
        if not visitor:
            yield
            return
        here = self._here.setdefault(address, Counter())
        try:
            with one_more(here, visitor):
                yield
        finally:
            if not here:
                del self._here[address]

    def counts(self, visitor: str) -> bool:
        """Whether the visitor is one of these."""
        return any(visitor in islice(here, self._most) for here in self._here.values())
