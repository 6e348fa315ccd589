"""A few values by key: when there are too many, the one that was used least recently goes first."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class Recent(Generic[Key, Value]):
    """At most `max_entries` values. Safe from several threads.

    on_drop: called with every value that leaves, however it leaves.
    """

    def __init__(self, max_entries: int, on_drop: Callable[[Value], object] | None = None) -> None:
        self.max_entries = max_entries
        self._on_drop = on_drop
        self._values: OrderedDict[Key, Value] = OrderedDict()
        self._lock = threading.RLock()

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, key: Key) -> bool:
        return key in self._values

    def get(self, key: Key) -> Value | None:
        """What is kept under `key`, which counts as a use; None where there is nothing."""
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
            return self._values.get(key)

    def peek(self, key: Key) -> Value | None:
        """The same, not counted as a use."""
        with self._lock:
            return self._values.get(key)

    def get_or_make(self, key: Key, make: Callable[[], Value]) -> Value:
        """What is kept under `key`, made now where there is nothing. Other threads wait while it is made."""
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
                return self._values[key]
            made = make()
            self.put(key, made)
            return made

    def put(self, key: Key, value: Value) -> None:
        """Keep a value in the place of the last one of this key."""
        with self._lock:
            dropped = [self._values.pop(key)] if key in self._values else []
            self._values[key] = value
            while len(self._values) > self.max_entries:
                dropped.append(self._pop_oldest())
        self._tell(dropped)

    def trim(self, fits: Callable[[Collection[Value]], bool]) -> None:
        """Drop the oldest until the rest fits. The one used last always stays."""
        dropped = []
        with self._lock:
            while len(self._values) > 1 and not fits(self._values.values()):
                dropped.append(self._pop_oldest())
        self._tell(dropped)

    def drop(self, key: Key) -> None:
        """Let a value go, if it is there."""
        with self._lock:
            dropped = [self._values.pop(key)] if key in self._values else []
        self._tell(dropped)

    def clear(self) -> None:
        with self._lock:
            dropped = list(self._values.values())
            self._values.clear()
        self._tell(dropped)

    def _pop_oldest(self) -> Value:
        _, value = self._values.popitem(last=False)
        return value

    def _tell(self, dropped: Collection[Value]) -> None:
        """Outside the lock: what it calls may take its time."""
        if self._on_drop is not None:
            for value in dropped:
                self._on_drop(value)
