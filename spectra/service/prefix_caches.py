"""KV caches of conversations, kept from turn to turn: those of the visitors who asked last. No torch."""

from functools import partial

from spectra.io.recent import Recent
from spectra.io.unused_memory import UnusedMemory
from spectra.target.prefix import Prefix

MAX_VISITORS = 64
MAX_BYTES = 1 << 30


class PrefixCaches:
    """max_visitors: conversations whose cache is kept. max_bytes: of all caches; one that an answer has is not
    counted until it is left again.
    """

    def __init__(self, max_visitors: int = MAX_VISITORS, max_bytes: int = MAX_BYTES) -> None:
        self.max_bytes = max_bytes
        self._prefixes: Recent[str, Prefix] = Recent(max_visitors)
        self._unused = UnusedMemory()

    def __len__(self) -> int:
        return len(self._prefixes)

    def of(self, visitor: str) -> Prefix:
        """The prefix of this visitor's conversation, empty for a new one. The oldest ones may be dropped for it."""
        mine = self._prefixes.get_or_make(visitor, partial(Prefix, on_leave=self._left))
        self._trim()
        return mine

    def _left(self) -> None:
        self._trim()
        self._unused.give_back()

    def _trim(self) -> None:
        self._prefixes.trim(lambda prefixes: sum(prefix.size for prefix in prefixes) <= self.max_bytes)

    def copy(self, visitor: str, max_tokens: int) -> Prefix:
        """Its first `max_tokens` tokens with a cache of their own; empty where it was dropped."""
        mine = self._prefixes.peek(visitor)
        return mine.copy(max_tokens) if mine is not None else Prefix()

    def drop(self, visitor: str) -> None:
        """Let it go; one that is being used goes when its answer ends."""
        self._prefixes.drop(visitor)

    def clear(self) -> None:
        self._prefixes.clear()
