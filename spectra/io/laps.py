"""A clock with laps: the seconds of a step by part."""

import time


class Laps:
    """Time between `step` and `restart`, the consumer's, is not counted."""

    def __init__(self) -> None:
        self.parts: dict[str, float] = {}
        self.restart()

    def restart(self) -> None:
        self._last = time.perf_counter()

    def lap(self, part: str) -> None:
        """Book the time since the last lap to `part`."""
        now = time.perf_counter()
        self.parts[part] = self.parts.get(part, 0.0) + now - self._last
        self._last = now

    def step(self) -> tuple[float, dict[str, float]]:
        """(seconds of the step, its parts); starts the next one."""
        parts, self.parts = self.parts, {}
        return sum(parts.values()), parts
