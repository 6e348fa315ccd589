"""One torch thread for a while. A class, not a generator: it is entered several times a step."""

from collections.abc import Callable
from types import TracebackType

import torch


class OneThread:
    """torch has one thread inside, and as many as before behind it. set_threads: of the thread that calls."""

    __slots__ = ("_before", "_set_threads")

    def __init__(self, set_threads: Callable[[int], object]) -> None:
        self._set_threads = set_threads

    def __enter__(self) -> None:
        self._before = torch.get_num_threads()
        self._set_threads(1)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._set_threads(self._before)
