"""Benchmark prompts from local files in their published formats, or from the hub. No prompt ships with us.

Where each task is published, how a row of it is laid out, and what of a row becomes the prompt stands first.
"""

import gzip
import hashlib
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any

from spectra.datastore.build.hub import hub_rows
from spectra.datastore.sources import digest
from spectra.errors import SpectraError
from spectra.io.bounded import lines_of, open_regular
from spectra.io.json_text import parse_json

Row = Mapping[str, Any]
MT_BENCH = ("writing", "roleplay", "reasoning", "math", "coding", "extraction", "stem", "humanities")


@dataclass(frozen=True, slots=True)
class Format:
    """files: a pattern; JSON lines (.gz too), or one JSON list in a file that ends in .json.

    read: row -> (the user's turns, category). Raises KeyError, TypeError, IndexError or AttributeError for another row.
    hub: the data set on the Hugging Face hub; "" where it is not there in its published form. reference: fields of
    which one holds what a good answer is, where the task has that.
    """

    files: str
    read: Callable[[Row], tuple[list[str], str]]
    hub: str = ""
    reference: tuple[str, ...] = ()


def _turns(row: Row) -> tuple[list[str], str]:
    turns = row.get("turns") or row["prompt"]
    if not isinstance(turns, list) or not turns:
        raise TypeError("turns is not a list of texts")
    return turns, row.get("category", "")


def _spec_bench(row: Row) -> tuple[list[str], str]:
    """MT-Bench's eight categories are one of Spec-Bench's six tasks."""
    turns, category = _turns(row)
    return turns, "mt_bench" if category in MT_BENCH else category


def _gsm8k(row: Row) -> tuple[list[str], str]:
    return [row["question"]], ""


def _humaneval(row: Row) -> tuple[list[str], str]:
    return [f"Complete this Python function.\n\n{row['prompt'].strip()}"], ""


def _mbpp(row: Row) -> tuple[list[str], str]:
    return [row.get("text") or row["prompt"]], ""


def _classeval(row: Row) -> tuple[list[str], str]:
    return [f"Complete the Python class {row['class_name']}.\n\n{row['skeleton'].strip()}"], ""


def _summary(length: str) -> Callable[[Row], tuple[list[str], str]]:
    def read(row: Row) -> tuple[list[str], str]:
        article = row.get("article") or row["document"]
        return [f"Summarize this article in {length}.\n\n{article.strip()}"], ""

    return read


TASKS: dict[str, Format] = {
    "mt-bench": Format("mt_bench_question.jsonl", _turns, "hf:HuggingFaceH4/mt_bench_prompts:train"),
    "gsm8k": Format("gsm8k_test*.jsonl", _gsm8k, "hf:openai/gsm8k:test:main"),
    "humaneval": Format("HumanEval.jsonl.gz", _humaneval, "hf:openai/openai_humaneval:test"),
    "mbpp": Format("mbpp_test*.jsonl", _mbpp, "hf:google-research-datasets/mbpp:test:full"),
    "classeval": Format("ClassEval_data.json", _classeval, "hf:FudanSELab/ClassEval:test"),
    "spec-bench": Format("spec_bench_question.jsonl", _spec_bench),
    "cnndm": Format(
        "cnndm*.jsonl", _summary("a few sentences"), "hf:abisee/cnn_dailymail:test:3.0.0", ("highlights", "summary")
    ),
    "xsum": Format("xsum*.jsonl", _summary("one sentence"), "hf:EdinburghNLP/xsum:test", ("summary", "highlights")),
}

HUB = "hub"
HUB_ROWS = 2000
"""Rows that are read of one data set."""


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

    @property
    def key(self) -> Mapping[str, str]:
        """What rows say of it."""
        return {"task": self.task, "id": self.id}


@dataclass(frozen=True, slots=True)
class PromptOptions:
    """Which prompts. data: a folder with the published files, or "hub". tasks: None is all that are there.

    limit: the most of a task; None is all.
    """

    data: Path
    tasks: tuple[str, ...] | None = None
    limit: int | None = None

    def load(self, among: Sequence[str] = tuple(TASKS)) -> list[Prompt]:
        """See `load_prompts`."""
        return load_prompts(self.tasks, self.data, self.limit, among)


def load_prompts(
    tasks: Sequence[str] | None, folder: Path, limit: int | None = None, among: Sequence[str] = tuple(TASKS)
) -> list[Prompt]:
    """Prompts of `tasks`, at most `limit` each, spread evenly over categories.

    tasks: None is all of `among` whose files are there.

    folder: "hub", where no folder has that name, is the Hugging Face hub. All matching files in name order, equal
    prompts once. Raises SpectraError naming the task that holds no prompt, or the file and line that is malformed.
    """
    if limit is not None and limit < 1:
        raise SpectraError("limit", f"{limit} is out of range; give 1 or more")
    if tasks is not None and not tasks:
        raise SpectraError("tasks", f"there is none; choose from {', '.join(TASKS)}")
    hub = folder == Path(HUB) and not folder.is_dir()
    if tasks is None and hub:
        tasks = [task for task in among if TASKS[task].hub]
    if tasks is None:
        tasks = [task for task in among if any(folder.glob(TASKS[task].files))]
        if not tasks:
            names = ", ".join(TASKS[task].files for task in among)
            raise SpectraError("data", f"no task's file in {folder}; put some of {names} there")
    return [prompt for task in dict.fromkeys(tasks) for prompt in _spread(_load(task, None if hub else folder), limit)]


def prompt_hashes(prompts: Iterable[Prompt]) -> list[str]:
    """sha256 of every normalised turn, and of what a turn asks about: what follows its first blank line.

    With them a datastore can be checked for benchmark prompts without any prompt being kept.
    """
    return sorted({digest(text).hex() for prompt in prompts for turn in prompt.turns for text in _parts(turn)})


def _parts(turn: str) -> Iterator[str]:
    yield turn
    inner = turn.partition("\n\n")[2]
    if inner.strip():
        yield inner


def _load(task: str, folder: Path | None) -> list[Prompt]:
    if task not in TASKS:
        raise SpectraError("tasks", f"{task!r} is unknown; choose from {', '.join(TASKS)}")
    layout = TASKS[task]
    unique: dict[str, Prompt] = {}
    for where, row in _hub_rows(task) if folder is None else _folder_rows(layout.files, folder):
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


def _hub_rows(task: str) -> Iterator[tuple[str, Any]]:
    """(where, row) of a task. Raises SpectraError where it is not on the hub or cannot be reached."""
    place = TASKS[task].hub
    if not place:
        raise SpectraError("data", f"{task} is not on the hub; put its published file into a folder and give that")
    try:
        yield from islice(hub_rows(place), HUB_ROWS)
    except SpectraError as error:
        raise SpectraError("data", str(error).removeprefix(f"{error.field}: ")) from error


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
        return parse_json(text)
    except ValueError as error:
        where = f"{file.name} line {lines_before + getattr(error, 'lineno', 1)}"
        raise SpectraError("data", f"{where} is not JSON ({error}); use the published file") from error


def _lines(file: Path) -> Iterator[tuple[int, str]]:
    """(number, line). A line is decoded by itself, so that one that is not UTF-8 gets its own number."""
    at = 1
    try:
        with open_regular(file) as raw, gzip.open(raw) if file.suffix == ".gz" else raw as lines:
            for line in lines_of(lines):
                yield at, line.decode("utf-8-sig" if at == 1 else "utf-8").rstrip("\r\n")
                at += 1
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise SpectraError("data", f"{file.name} line {at} cannot be read ({error}); use the published file") from error


def _spread(prompts: Sequence[Prompt], limit: int | None) -> list[Prompt]:
    """The first `limit` prompts, taken from the categories in turn."""
    groups: dict[str, list[Prompt]] = {}
    for prompt in prompts:
        groups.setdefault(prompt.category, []).append(prompt)
    rounds = zip_longest(*groups.values())
    return [prompt for one in rounds for prompt in one if prompt is not None][:limit]
