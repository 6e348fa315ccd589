"""stdout and stderr as any command can write to them: where one is closed, and in whatever encoding."""

import io
import os
import sys


def open_streams() -> None:
    """Where one is closed, what is written to it goes nowhere; what its encoding lacks is written as an escape."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123, SIM115
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
