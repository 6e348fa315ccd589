"""Benchmark prompts from local files in their published formats, or from the hub. No prompt ships with us."""

import gzip
import hashlib
import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spectra.bench.formats import TASKS
from spectra.bench.hub import HUB, PLACES, task_rows
from spectra.errors import SpectraError


@dataclass(frozen=True, slots=True)
class Prompt:
    """One benchmark prompt. turns: what the user says, one after the other; the answers between are decoded.

    id: the first 12 hex digits of the sha256 of all turns. reference: a good answer, where the task has one.
    """

    task: str
    turns: tuple[str, ...]
    category: str = ""
    reference: str = ""

    @property
    def text(self) -> str:
        """The first turn."""
        return self.turns[0]

    @property
    def id(self) -> str:
        return hashlib.sha256("\n".join(self.turns).encode()).hexdigest()[:12]


def load_prompts(tasks: list[str] | None, folder: Path, limit: int | None = None) -> list[Prompt]:
    """Prompts of `tasks` (None: all whose files are there), at most `limit` each, spread evenly over categories.

    folder: "hub", where no folder has that name, is the Hugging Face hub. All matching files in name order, equal
    prompts once. Raises SpectraError naming the task that holds no prompt, or the file and line that is malformed.
    """
    if limit is not None and limit < 1:
        raise SpectraError("limit", f"{limit} is out of range; give 1 or more")
    if tasks is not None and not tasks:
        raise SpectraError("tasks", f"there is none; choose from {', '.join(TASKS)}")
    hub = folder == Path(HUB) and not folder.is_dir()
    if tasks is None and hub:
        tasks = list(PLACES)
    if tasks is None:
        tasks = [task for task, layout in TASKS.items() if any(folder.glob(layout.files))]
        if not tasks:
            names = ", ".join(layout.files for layout in TASKS.values())
            raise SpectraError("data", f"no task's file in {folder}; put some of {names} there")
    return [prompt for task in dict.fromkeys(tasks) for prompt in _spread(_load(task, None if hub else folder), limit)]


def _load(task: str, folder: Path | None) -> list[Prompt]:
    if task not in TASKS:
        raise SpectraError("tasks", f"{task!r} is unknown; choose from {', '.join(TASKS)}")
    layout = TASKS[task]
    unique: dict[str, Prompt] = {}
    for where, row in task_rows(task) if folder is None else _folder_rows(layout.files, folder):
        try:
            turns, category = layout.read(row)
            reference = next((row[name] for name in layout.reference if row.get(name)), "")
            prompt = Prompt(task, tuple(turn.strip() for turn in turns), str(category), str(reference))
            "\n".join((*prompt.turns, prompt.category, prompt.reference)).encode()
        except UnicodeEncodeError as error:
            raise SpectraError("data", f"{where} is not valid Unicode; use the published file") from error
        except (KeyError, TypeError, IndexError, AttributeError) as error:
            raise SpectraError("data", f"{where} is not a {task} row ({error!r}); use the published file") from error
        if not all(prompt.turns):
            raise SpectraError("data", f"{where} holds a blank prompt; use the published file")
        unique.setdefault(prompt.id, prompt)
    if not unique:
        place = HUB if folder is None else f"{layout.files} in {folder}"
        raise SpectraError("data", f"{place} holds no {task} prompt; use the published file")
    return list(unique.values())


def _folder_rows(pattern: str, folder: Path) -> Iterator[tuple[str, Any]]:
    """(where it stands, row) of all matching files in name order."""
    files = sorted(folder.glob(pattern))
    if not files:
        raise SpectraError("data", f"no {pattern} in {folder}; put the published file there")
    for file in files:
        yield from _rows(file)


def _rows(file: Path) -> Iterator[tuple[str, Any]]:
    """(where it stands, row) of JSON lines, or of one JSON list."""
    if file.suffix == ".json":
        whole = _parse("\n".join(text for _, text in _lines(file)), file, 0)
        if not isinstance(whole, list):
            raise SpectraError("data", f"{file.name} line 1 is not a JSON list; use the published file")
        yield from ((f"{file.name} entry {number}", row) for number, row in enumerate(whole, 1))
        return
    for number, text in _lines(file):
        if text.strip():
            yield f"{file.name} line {number}", _parse(text, file, number - 1)


def _parse(text: str, file: Path, lines_before: int) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        where = f"{file.name} line {lines_before + error.lineno}"
        raise SpectraError("data", f"{where} is not JSON ({error.msg}); use the published file") from error


def _lines(file: Path) -> Iterator[tuple[int, str]]:
    """(number, line). A line is decoded by itself, so that one that is not UTF-8 gets its own number."""
    at = 1
    try:
        with gzip.open(file) if file.suffix == ".gz" else file.open("rb") as lines:
            for line in lines:
                yield at, line.decode("utf-8-sig" if at == 1 else "utf-8").rstrip("\r\n")
                at += 1
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise SpectraError("data", f"{file.name} line {at} cannot be read ({error}); use the published file") from error


def _spread(prompts: list[Prompt], limit: int | None) -> list[Prompt]:
    """The first `limit` prompts, taken from the categories in turn."""
    groups: dict[str, list[Prompt]] = {}
    for prompt in prompts:
        groups.setdefault(prompt.category, []).append(prompt)
    ranked = [(place, order, p) for order, group in enumerate(groups.values()) for place, p in enumerate(group)]
    return [p for _, _, p in sorted(ranked, key=lambda row: row[:2])][:limit]
