"""Benchmark prompts from local files in their published formats. Nothing is downloaded, no prompt ships with us."""

import gzip
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spectra.errors import SpectraError


@dataclass(frozen=True, slots=True)
class Prompt:
    """One benchmark prompt. id: the first 12 hex digits of its text's sha256."""

    task: str
    text: str
    category: str = ""

    @property
    def id(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()[:12]


def _mt_bench(row: Mapping[str, Any]) -> tuple[str, str]:
    return row["turns"][0], row.get("category", "")


def _humaneval(row: Mapping[str, Any]) -> tuple[str, str]:
    return f"Complete this Python function.\n\n{row['prompt'].strip()}", ""


TASKS: dict[str, tuple[str, Callable[[Mapping[str, Any]], tuple[str, str]]]] = {
    "mt-bench": ("mt_bench_question.jsonl", _mt_bench),
    "gsm8k": ("gsm8k_test*.jsonl", lambda row: (row["question"], "")),
    "humaneval": ("HumanEval.jsonl.gz", _humaneval),
    "mbpp": ("mbpp_test*.jsonl", lambda row: (row.get("text") or row["prompt"], "")),
}
"""Task -> (files, row -> (prompt text, category)). MT-Bench: the first turn."""


def load_prompts(tasks: list[str], folder: Path, limit: int | None = None) -> list[Prompt]:
    """Prompts of `tasks`, at most `limit` each, spread evenly over categories; equal prompts once.

    Raises SpectraError naming the task, or the file and line that is malformed.
    """
    found: list[Prompt] = []
    for task in tasks:
        if task not in TASKS:
            raise SpectraError("tasks", f"{task!r} is unknown; choose from {', '.join(TASKS)}")
        pattern, read = TASKS[task]
        files = sorted(folder.glob(pattern))
        if not files:
            raise SpectraError("data", f"no {pattern} in {folder}; put the published file there")
        unique: dict[str, Prompt] = {}
        for where, row in (line for file in files for line in _lines(file)):
            try:
                text, category = read(row)
                prompt = Prompt(task, text.strip(), str(category))
            except (KeyError, TypeError, IndexError, AttributeError) as error:
                raise SpectraError(
                    "data", f"{where} is not a {task} row ({error!r}); use the published file"
                ) from error
            unique.setdefault(prompt.id, prompt)
        found += _spread(list(unique.values()), limit)
    return found


def _lines(file: Path) -> Iterator[tuple[str, Any]]:
    opener = gzip.open if file.suffix == ".gz" else open
    with opener(file, "rt", encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            if line.strip():
                try:
                    yield f"{file.name} line {number}", json.loads(line)
                except json.JSONDecodeError as error:
                    raise SpectraError("data", f"{file.name} line {number} is not JSON ({error.msg})") from error


def _spread(prompts: list[Prompt], limit: int | None) -> list[Prompt]:
    """The first `limit` prompts, taken from the categories in turn."""
    groups: dict[str, list[Prompt]] = {}
    for prompt in prompts:
        groups.setdefault(prompt.category, []).append(prompt)
    ranked = [(place, order, p) for order, group in enumerate(groups.values()) for place, p in enumerate(group)]
    return [p for _, _, p in sorted(ranked, key=lambda row: row[:2])][:limit]
