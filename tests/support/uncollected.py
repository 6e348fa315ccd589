"""What is let go without the garbage collector, which may come minutes later: a GPU's memory does not wait for it."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


class Held:
    """Stands for a model or a cache: weak references can be made of it."""


@contextmanager
def uncollected() -> Iterator[None]:
    """Nothing is collected inside."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
