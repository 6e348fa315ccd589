"""Finds requests by their text: vLLM hands over rows of tokens without a name and moves them between calls.

A request is found by all of its tokens before this step's, exactly, or all but the last few where calls were left out.
Requests with the same text so far may be confused: they know the same. Memory is bounded: the least recently used
requests are dropped, and a request for which there is no space is served without guesses.
"""

from collections.abc import Callable, Sequence
from typing import Any

from numpy.typing import NDArray

from spectra.method import Drafter
from spectra.serving.request import ServedRequest

Row = NDArray[Any]
MISSED = 64
"""Tokens that a request may have got without a call: vLLM makes none while one row nears the longest text."""
FILLED = 0.9
"""Part of the memory that may be full when a request is taken in: those in memory will grow."""


class Requests:
    """make: fresh drafters for a request. max_requests, tokens: requests, and their tokens together, kept in memory.

    context: the last tokens of a prompt that are read. held: tokens in memory now.
    """

    def __init__(self, make: Callable[[], Sequence[Drafter]], *, max_requests: int, tokens: int, context: int) -> None:
        self._make = make
        self.max_requests, self.tokens, self.context = max_requests, tokens, context
        self.held = 0
        self._kept: dict[bytes, list[tuple[int, ServedRequest | None]]] = {}
        """All tokens of a request -> (call it was last seen in, the request, None for one that found no room); least
        recently seen first."""
        self._count = 0
        self._call = 0

    def __len__(self) -> int:
        return self._count

    def begin_call(self) -> None:
        """A new step: requests that were not in the last one may be dropped for others."""
        self._call += 1

    def take(self, row: Row, before: int) -> ServedRequest | None:
        """The request whose text was `row[:before]`, or a new one; None for one that found or finds no room.

        It is out of memory until `keep` puts it back.
        """
        key = self._known(row[:before].tobytes(), row.itemsize)
        if key is not None:
            _, request = self._kept[key].pop()
            if not self._kept[key]:
                del self._kept[key]
            self._forget(request)
            known = len(key) // row.itemsize
            if request is not None and known < before:
                request.accept(row[known:before].tolist())
            return request
        prompt = row[max(0, before - self.context) : before]
        if not self._make_room(len(prompt), FILLED * self.tokens):
            return None
        return ServedRequest(prompt.tolist(), self._make())

    def keep(self, row: Row, length: int, request: ServedRequest | None) -> bool:
        """Remember the request by its text, `row[:length]`; False when there is no room for it.

        One without room stays without to its end: to take it in again would mean to read it all again.
        """
        if request is not None and not self._make_room(len(request), self.tokens):
            request = None
        if self._make_room(0, self.tokens):
            same = self._kept.pop(key := row[:length].tobytes(), [])
            self._kept[key] = [*same, (self._call, request)]
            self._count += 1
            self.held += len(request or ())
        return request is not None

    def clear(self) -> None:
        """Forget all."""
        self._kept.clear()
        self.held = self._count = 0

    def _known(self, text: bytes, size: int) -> bytes | None:
        """The key of a request with this text, else of one with the most of its beginning; size: bytes a token."""
        if text in self._kept:
            return text
        least = max(1, len(text) - size * MISSED)
        return max((key for key in self._kept if len(key) >= least and text.startswith(key)), key=len, default=None)

    def _make_room(self, size: int, limit: float) -> bool:
        """Drop requests until one of `size` tokens fits; False if all that are left were in this step or the last."""
        while self.held + size > limit or self._count >= self.max_requests:
            key = next(iter(self._kept), None)
            if key is None or self._kept[key][0][0] >= self._call - 1:
                return False
            _, request = self._kept[key].pop(0)
            if not self._kept[key]:
                del self._kept[key]
            self._forget(request)
        return True

    def _forget(self, request: ServedRequest | None) -> None:
        self._count -= 1
        self.held -= len(request or ())
