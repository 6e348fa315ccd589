"""SPECTRA's two dictionaries over n-grams (paper 4.1). They store and look up; what goes in is decided elsewhere."""

from collections import OrderedDict
from collections.abc import Sequence


class ForwardDictionary:
    """token -> continuations of up to `order - 1` tokens: newest first, at most `capacity`, the oldest goes out."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.lists: dict[int, OrderedDict[tuple[int, ...], None]] = {}
        self.size = 0
        """Continuations of all tokens together."""

    def put(self, token: int, continuation: Sequence[int]) -> None:
        """Insert, or move to the front."""
        kept = self.lists.setdefault(token, OrderedDict())
        key = tuple(continuation)
        self.size -= len(kept)
        kept[key] = None
        kept.move_to_end(key)
        if len(kept) > self.capacity:
            kept.popitem(last=False)
        self.size += len(kept)

    def get(self, token: int) -> list[tuple[int, ...]]:
        """Continuations, newest first."""
        return list(reversed(self.lists.get(token, ())))


class BackwardDictionary:
    """1 to `order - 1` tokens -> the token that followed last. At most `limit` entries, the oldest written goes out."""

    def __init__(self, order: int, limit: int = 500_000) -> None:
        self.order = order
        self.limit = limit
        self.entries: OrderedDict[tuple[int, ...], int] = OrderedDict()

    def put(self, context: Sequence[int], token: int) -> None:
        key = tuple(context)
        self.entries[key] = token
        self.entries.move_to_end(key)
        if len(self.entries) > self.limit:
            self.entries.popitem(last=False)

    def get(self, context: Sequence[int]) -> tuple[int, int] | None:
        """(next token, matched length) for the longest known suffix of `context`; None on a miss."""
        for length in range(min(self.order - 1, len(context)), 0, -1):
            token = self.entries.get(tuple(context[-length:]))
            if token is not None:
                return token, length
        return None
