"""`python -m spectra.bench batch`: tokens/s of batches, and whether each text is the one that it is alone.

As many sequences at once as a batch has answer a group of prompts: the next joins when one is done. Stock `generate`
takes batch by batch, each as long as its longest answer. Plain decoding of one after the other is what all are measured
against.

Under `accelerate launch` each process answers its part of the prompts, with a model of its own.
"""

import hashlib
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from pathlib import Path
from statistics import median
from typing import NamedTuple

from spectra.batch.decode_many import decode_many
from spectra.batch.request import Request
from spectra.bench.run.answers import AnswerOptions, check_names, drafted_from, facts_line, turn_ids
from spectra.bench.run.peers import check_whole, run_batch
from spectra.bench.run.rows import ROWS, Row, claimed_rows, grouped, read_rows
from spectra.bench.run.runner import Cell, PromptProgress, resume
from spectra.bench.tasks import Prompt, PromptOptions
from spectra.errors import SpectraError
from spectra.io.files import check_writable_folder, write_text
from spectra.methods.presets import METHODS, PLAIN, redraws
from spectra.service.loading import LoadedModel, ModelOptions
from spectra.settings import Limits, check_number
from spectra.target.choices import STOCK
from spectra.target.distributed import distributed


@dataclass(frozen=True, slots=True)
class BatchOptions:
    """methods: presets, and stock generate. batch: how many prompts are answered together. group: prompts of one
    queue, at least the largest batch; None: so many.

    repeats: how often everything is measured, in turn.
    """

    prompts: PromptOptions
    model: ModelOptions
    answers: AnswerOptions
    out: Path
    methods: tuple[str, ...] = ("spectra", STOCK)
    batch: tuple[int, ...] = (1, 4, 8, 16)
    group: int | None = None
    repeats: int = 1

    def __post_init__(self) -> None:
        check_names("methods", self.methods, [*METHODS, STOCK])
        if not self.batch:
            raise SpectraError("batch", "there is no size; give numbers with commas between them")
        for size in self.batch:
            check_number("batch", size, 1, 4096, whole=True)
        if self.group is not None:
            check_number("group", self.group, max(self.batch), 1 << 20, whole=True)
        check_number("repeats", self.repeats, 1, 1000, whole=True)


@dataclass(frozen=True, slots=True)
class PromptGroup:
    """Prompts of one queue."""

    prompts: tuple[Prompt, ...]

    @property
    def task(self) -> str:
        return ", ".join(dict.fromkeys(prompt.task for prompt in self.prompts))

    @property
    def id(self) -> str:
        return hashlib.sha256(" ".join(prompt.id for prompt in self.prompts).encode()).hexdigest()[:12]

    @property
    def key(self) -> Mapping[str, str]:
        return {"task": self.task, "id": self.id}


def run_batch_sizes(options: BatchOptions) -> int:
    """The subcommand `batch`."""
    check_writable_folder(options.out, "out")
    prompts, size = options.prompts.load(), options.group or max(options.batch)
    groups = groups_of(prompts, size)
    with distributed(options.model.device) as processes:
        mine = groups[processes.rank :: processes.world_size]
        if len(groups) < processes.world_size:
            raise SpectraError(
                "limit", f"{processes.world_size} processes share {len(groups)} groups of prompts; give more prompts"
            )
        folders = [options.out]
        if processes.world_size > 1:
            names = [f"process-{number}-of-{processes.world_size}" for number in range(processes.world_size)]
            folders = [options.out / name for name in names]
        model = replace(options.model, device=processes.device or options.model.device).load()
        model.check_methods([method for method in options.methods if method in METHODS], nodes=options.answers.nodes)
        check_whole(options.methods, model.target)
        processes.wait()  # all measure at the same time
        own = folders[processes.rank]
        run_groups(model, mine, options.methods, options.batch, own, options.answers, options.repeats)
        processes.wait()
        if processes.first:
            rows = _rows_of(folders, groups)
            text = f"{facts_line(model.target)}. {options.answers.max_new_tokens} new tokens at most.\n\n"
            text += f"{_measured(rows, size, len(prompts))}.\n\n"
            if processes.world_size > 1:
                text += f"{processes.world_size} processes side by side, each with its part of the prompts.\n\n"
            write_text(options.out / "report.md", text + markdown(rows), "out")
            print(text + markdown(rows), end="")
    return 0


def groups_of(prompts: Sequence[Prompt], size: int) -> list[PromptGroup]:
    """Whole groups of `size` prompts; what is left over is not measured."""
    groups = [PromptGroup(tuple(prompts[at : at + size])) for at in range(0, len(prompts) - size + 1, size)]
    if not groups:
        raise SpectraError(
            "batch",
            f"{len(prompts)} prompts do not fill a group of {size}; give more prompts, or a smaller batch or group",
        )
    return groups


def _measured(rows: Sequence[Row], size: int, prompts: int) -> str:
    """How many of these prompts the rows are of: groups that do not fit the context and what fills no group are not."""
    measured = len({row["id"] for row in rows}) * size
    rest = f"; {prompts - measured} fill no group of {size} or do not fit" if measured < prompts else ""
    return f"{measured} prompts, {size} in a queue{rest}"


def _rows_of(folders: Sequence[Path], groups: Sequence[PromptGroup]) -> list[Row]:
    """Those that each process has of its part of these groups, with its number."""
    rows: list[Row] = []
    for number, folder in enumerate(folders):
        ids = {group.id for group in groups[number :: len(folders)]}
        rows += [row | {"process": number} for row in read_rows(folder / ROWS) if row["id"] in ids]
    return rows


def run_groups(
    model: LoadedModel,
    groups: Sequence[PromptGroup],
    methods: Sequence[str],
    sizes: Sequence[int],
    out: Path,
    answers: AnswerOptions,
    repeats: int = 1,
) -> list[Row]:
    """Rows of `out`, new ones appended as they finish. Plain decoding always runs, one after the other first."""
    methods = list(dict.fromkeys([PLAIN, *methods]))
    settings = {
        "max_new_tokens": answers.max_new_tokens, "temperature": answers.temperature, "top_p": answers.top_p,
        "seed": answers.seed, "nodes": answers.nodes, "joins": True, **model.target.facts,
        **drafted_from(model, methods),
    }  # fmt: skip
    rows = claimed_rows(out, settings)
    alone = {row["id"]: row["output"] for row in rows.all if "output" in row}
    timing = _BatchTiming(model, answers, alone)
    sizes = sorted({1, *sizes})
    cells: list[Cell] = [
        {"method": method, "batch": size, "repeat": repeat}
        for repeat in range(repeats)
        for size in sizes
        for method in methods
    ]
    return resume(rows, groups, cells, timing.measure, PromptProgress(len(groups), len(groups[0].prompts)))


class _Answers(NamedTuple):
    """texts: the new ids of each prompt."""

    texts: list[list[int]]
    prefill_seconds: float | None


@dataclass(slots=True)
class _BatchTiming:
    """alone: what plain decoding answered to each prompt by itself, by group."""

    model: LoadedModel
    answers: AnswerOptions
    alone: dict[str, list[list[int]]]
    cold: bool = True

    def measure(self, group: PromptGroup, cells: Sequence[Cell]) -> Iterator[Row]:
        ids = [turn_ids(self.model.target.tokenizer, prompt) for prompt in group.prompts]
        if self.cold:
            for method, size in dict.fromkeys((cell["method"], cell["batch"]) for cell in cells):
                self._answer(method, ids[:size], size, 8)
            self.cold = False
        for cell in cells:
            method, size = cell["method"], cell["batch"]
            began = time.perf_counter()
            said, reading = self._answer(method, ids, size, self.answers.max_new_tokens)
            seconds = time.perf_counter() - began
            alone = self.alone.setdefault(group.id, said)
            sampling = self.answers.sampling
            same = sum(text == own for text, own in zip(said, alone, strict=True))
            comparable = sampling.greedy or not (method == STOCK or redraws(method, sampling))
            row: Row = {
                "sequences": len(said), "new_tokens": sum(map(len, said)), "seconds": seconds,
                "prefill_seconds": reading, "identical": same if comparable else None,
            }  # fmt: skip
            yield row | {"output": said} if (method, size, cell["repeat"]) == (PLAIN, 1, 0) else row

    def _answer(self, method: str, prompts: Sequence[list[int]], size: int, max_new_tokens: int) -> _Answers:
        """`size` of them at a time."""
        target, sampling = self.model.target, self.answers.sampling
        said: list[list[int]] = [[] for _ in prompts]
        if method == STOCK:
            for at in range(0, len(prompts), size):
                batch = prompts[at : at + size]
                said[at : at + size] = run_batch(target, batch, sampling=sampling, max_new_tokens=max_new_tokens)
            return _Answers(said, None)
        limits = Limits(max_new_tokens, target.eos)
        together = size if target.joins else 1
        requests = []
        for prompt in prompts:
            made = self.model.method(method, nodes=self.answers.nodes, sampling=sampling, together=together)
            requests.append(Request(prompt, made, sampling, limits))
        reading = 0.0
        for number, step in decode_many(target, requests, at_once=size):
            said[number] += step.tokens
            reading += step.prefill_seconds
        return _Answers(said, reading)


def markdown(rows: Sequence[Row]) -> str:
    """A line for each size and method.

    Tokens/s, of the whole calls and without the seconds in which prompts were read; how many times plain decoding of
    one after the other; the median of how many times the plain batch, group by group and repeat by repeat; equal texts.
    Rows of several processes: all tokens over the seconds of the slowest.
    """
    cells = grouped(rows, itemgetter("batch", "method"))
    one_by_one = _rate(cells[1, PLAIN])
    plain = {_which(row): _rate([row]) for row in rows if row["method"] == PLAIN}
    heads = (
        "batch", "method", "tokens/s", "without reading prompts", "against one after the other",
        "against the plain batch", "texts as alone",
    )  # fmt: skip
    lines = [f"| {' | '.join(heads)} |", "|---:|---|---:|---:|---:|---:|---:|"]
    for (size, method), some in sorted(cells.items(), key=lambda one: one[0][0]):
        paired = median(_rate([row]) / plain[_which(row)] for row in some)
        compared = [row for row in some if row["identical"] is not None]
        same = ""
        if compared:
            same = f"{sum(row['identical'] for row in compared)} of {sum(row['sequences'] for row in compared)}"
        steps = "" if method == STOCK else f"{_rate(some, reading=False):.1f}"
        rate = _rate(some)
        lines.append(f"| {size} | {method} | {rate:.1f} | {steps} | {rate / one_by_one:.2f} | {paired:.2f} | {same} |")
    return "\n".join(lines) + "\n"


def _which(row: Row) -> tuple[object, ...]:
    return row["id"], row["batch"], row["repeat"]


def _rate(rows: Sequence[Row], *, reading: bool = True) -> float:
    """Tokens a second. reading: with the seconds in which prompts were read."""
    seconds: dict[int, float] = defaultdict(float)
    for row in rows:
        seconds[row.get("process", 0)] += row["seconds"] - (0.0 if reading else row["prefill_seconds"])
    return float(sum(row["new_tokens"] for row in rows) / max(seconds.values()))
