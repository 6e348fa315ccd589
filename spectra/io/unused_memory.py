"""Memory that was let go, given back to the system.

The allocator of glibc keeps it, a part for every few threads, in pieces: a page whose visitors came and went held half
as much again as what was in use. Other systems have allocators of their own, and nothing is done there.
"""

import ctypes
import time
from collections.abc import Callable
from functools import cached_property

SECONDS = 10.0
"""From one time to the next, at least: it takes 10 to 20 ms."""


class UnusedMemory:
    """Of this process."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last = -SECONDS

    def give_back(self) -> None:
        """What lies unused, if that was not done just now."""
        now = self._clock()
        if now - self._last >= SECONDS:
            self._last = now
            if self._trim is not None:
                self._trim(0)

    @cached_property
    def _trim(self) -> Callable[[int], int] | None:
        try:
            return ctypes.CDLL(None).malloc_trim
        except (AttributeError, OSError, TypeError):  # another C library; on Windows it has to be named
            return None
