"""One line on stderr, rewritten: how far a benchmark is and how long the rest will take."""

import sys
import time

from spectra.bench.tasks import Prompt
from spectra.errors import SpectraError


class Progress:
    """`step` after each prompt. What was there already from an earlier run does not count for the time left."""

    def __init__(self, total: int) -> None:
        self.total, self.done, self._ran, self._left_out = total, 0, 0, 0
        self._began = time.monotonic()

    def step(self, *, ran: bool = True) -> None:
        """ran: False when nothing of the prompt had to be run."""
        self.done += 1
        self._ran += ran
        text = f"\r{self.done}/{self.total} prompts"
        if self._ran and self.done < self.total:
            each = (time.monotonic() - self._began) / self._ran
            text += f", {clock((self.total - self.done) * each)} left"
        print(f"{text:<40}", end="\n" if self.done == self.total else "", file=sys.stderr, flush=True)

    def leave_out(self, prompt: Prompt, error: SpectraError) -> None:
        """Say on a line of its own that a prompt does not fit. Raises any other error, and one when no prompt is left.

        `step` counts it all the same.
        """
        if error.field != "prompt":
            raise error
        text = f"{prompt.task} {prompt.id} is left out: {error}"
        print(f"\r{text:<40}", file=sys.stderr, flush=True)
        self._left_out += 1
        if self._left_out == self.total:
            raise SpectraError("max_new_tokens", "no prompt and answer fit the model's context; ask for fewer")


def clock(seconds: float) -> str:
    """90 -> 1:30, 3700 -> 1:01:40."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
