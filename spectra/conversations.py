"""KV caches of conversations, kept from turn to turn: a few of them, those that went on last. No torch."""

import threading
from collections import OrderedDict

from spectra.target.prefix import Prefix

MOST = 8
ROOM = 1 << 30


class Conversations:
    """most: conversations whose cache is kept. room: bytes of all caches, looked at whenever a conversation goes on."""

    def __init__(self, most: int = MOST, room: int = ROOM) -> None:
        self.most, self.room = most, room
        self._kept: OrderedDict[str, Prefix] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._kept)

    def prefix(self, key: str) -> Prefix:
        """The prefix of this conversation, empty for a new one. The longest unused ones may be let go for it."""
        with self._lock:
            mine = self._kept.setdefault(key, Prefix())
            self._kept.move_to_end(key)
            while len(self._kept) > 1 and (len(self._kept) > self.most or self._size > self.room):
                self._kept.popitem(last=False)
            return mine

    def copy(self, key: str, most: int) -> Prefix:
        """The first `most` tokens of it, with a cache of their own; empty where it was let go."""
        with self._lock:
            mine = self._kept.get(key)
        return mine.copy(most) if mine is not None else Prefix()

    def drop(self, key: str) -> None:
        """Let it go; one that is being used goes when its answer ends."""
        with self._lock:
            self._kept.pop(key, None)

    def clear(self) -> None:
        with self._lock:
            self._kept.clear()

    @property
    def _size(self) -> int:
        return sum(prefix.size for prefix in self._kept.values())
