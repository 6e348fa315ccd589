"""A bar with the time left on stderr: lively on a terminal, twice a minute in a log, absent when a second is enough."""

import sys
from typing import Any

from tqdm import tqdm


def bar(what: str, total: int | None, unit: str, *, hidden: bool = False) -> Any:
    """A context manager with `update(count)` and `n`. total: None when it is not known."""
    pause = 0.2 if sys.stderr.isatty() else 30.0
    return tqdm(total=total, desc=what, unit=unit, unit_scale=True, delay=1, mininterval=pause, disable=hidden)
