"""Benchmark rows on disk, one JSON object a line, each written as soon as it is known so that a run can be resumed."""

import json
import sys
from pathlib import Path
from typing import Any


class Rows:
    """The rows of one file: `all` holds what was there and what was added."""

    def __init__(self, folder: Path, name: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.file = folder / name
        lines = self.file.read_text(encoding="utf-8").splitlines() if self.file.exists() else []
        self.all: list[dict[str, Any]] = [json.loads(line) for line in lines]

    def add(self, row: dict[str, Any]) -> None:
        self.all.append(row)
        with self.file.open("a", encoding="utf-8") as lines:
            lines.write(json.dumps(row) + "\n")


def show_progress(number: int, of: int) -> None:
    """One line on stderr, rewritten; the last call ends it."""
    print(f"\r{number}/{of} prompts", end="\n" if number == of else "", file=sys.stderr, flush=True)
