"""`python -m spectra.bench batch`: tokens/s of batches, and whether each text is the one that it is alone.

As many sequences at once as a batch has answer a group of prompts: the next joins when one is done. Stock `generate`
takes batch by batch, each as long as its longest answer. Plain decoding of one after the other is what all are measured
against.

Under `accelerate launch` each process answers its part of the prompts, with a model of its own.
"""

import hashlib
import time
from collections import defaultdict
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from statistics import fmean, median
from typing import NamedTuple

from spectra.batch.decode_many import decode_many
from spectra.batch.request import Request
from spectra.bench.run.answers import AnswerOptions, check_names, drafted_from, facts_line, turn_ids
from spectra.bench.run.peers import check_whole, run_batch
from spectra.bench.run.rows import ROWS, Row, claimed_rows, grouped, read_rows
from spectra.bench.run.runner import Cell, PromptProgress, none_fits, resume
from spectra.bench.tasks import Prompt, PromptOptions
from spectra.errors import SpectraError
from spectra.io.files import check_writable_folder, write_text
from spectra.methods.presets import METHODS, PLAIN, redraws
from spectra.metrics import distinct4
from spectra.service.loading import LoadedModel, ModelOptions
from spectra.settings import Limits, check_number
from spectra.target.choices import STOCK
from spectra.target.distributed import distributed
from spectra.trace import StepTrace


@dataclass(frozen=True, slots=True)
class BatchOptions:
    """methods: presets, and stock generate. batch: how many prompts are answered together. group: prompts of one
    queue, at least the largest batch; None: so many.

    repeats: how often everything is measured, in turn. in_turns: the methods of a size answer pass by pass in turns,
    each on a model of its own, so that what disturbs the machine disturbs all of them.
    """

    prompts: PromptOptions
    model: ModelOptions
    answers: AnswerOptions
    out: Path
    methods: tuple[str, ...] = ("spectra", STOCK)
    batch: tuple[int, ...] = (1, 4, 8, 16)
    group: int | None = None
    repeats: int = 1
    in_turns: bool = False

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
                "limit",
                f"{processes.world_size} processes are more than groups of prompts ({len(groups)}); give more prompts",
            )
        folders = [options.out]
        if processes.world_size > 1:
            names = [f"process-{number}-of-{processes.world_size}" for number in range(processes.world_size)]
            folders = [options.out / name for name in names]
        with processes.all_of_it():  # all measure at the same time
            models = _models(options, processes.device or options.model.device)
            model, in_turns = models[PLAIN], options.in_turns and len(models) > 1
        with processes.all_of_it():
            own, others = folders[processes.rank], processes.world_size > 1
            run_groups(
                models, mine, options.methods, options.batch, own, options.answers, options.repeats, others=others
            )
        if processes.first:
            rows = _rows_of(folders, groups)
            if not rows:
                raise none_fits()
            text = f"{facts_line(model.target)}. {options.answers.max_new_tokens} new tokens at most.\n\n"
            text += f"{_measured(rows, size, len(prompts))}.\n\n"
            if in_turns:
                text += "The methods of a size in turns, pass by pass.\n\n"
            if processes.world_size > 1:
                text += f"{processes.world_size} processes side by side, each with its part of the prompts.\n\n"
            write_text(options.out / "report.md", text + markdown(rows), "out")
            print(text + markdown(rows), end="")
    return 0


def _models(options: BatchOptions, device: str | None) -> dict[str, LoadedModel]:
    """What each method decodes on, plain decoding first."""
    own_options = replace(options.model, device=device)
    model = own_options.load()
    model.check_methods([method for method in options.methods if method in METHODS], nodes=options.answers.nodes)
    check_whole(options.methods, model.target)
    methods = [one for one in dict.fromkeys([PLAIN, *options.methods]) if one != STOCK]
    models = dict.fromkeys(methods, model)
    if options.in_turns:
        models |= {method: own_options.load() for method in methods[1:]}
    return models


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
    """Those that each process has of its part of these groups, with its number; of what was measured again the last."""
    rows: list[Row] = []
    for number, folder in enumerate(folders):
        ids = {group.id for group in groups[number :: len(folders)]}
        last = {(_which(row), row["method"]): row for row in read_rows(folder / ROWS) if row["id"] in ids}
        rows += [row | {"process": number} for row in last.values()]
    return rows


def run_groups(
    models: Mapping[str, LoadedModel],
    groups: Sequence[PromptGroup],
    methods: Sequence[str],
    sizes: Sequence[int],
    out: Path,
    answers: AnswerOptions,
    repeats: int = 1,
    *,
    others: bool = False,
) -> list[Row]:
    """Rows of `out`, new ones appended as they finish. Plain decoding always runs, one after the other first.

    models: what each method decodes on. Methods with models of their own answer in turns, pass by pass. others: whether
    other processes have groups too; without, one of them has to fit.
    """
    methods, model = list(dict.fromkeys([PLAIN, *methods])), models[PLAIN]
    in_turns = len({id(one.target) for one in models.values()}) > 1
    if in_turns:
        methods.sort(key=lambda method: method == STOCK)  # last: it takes no turns
    settings = {
        "max_new_tokens": answers.max_new_tokens, "temperature": answers.temperature, "top_p": answers.top_p,
        "seed": answers.seed, "nodes": answers.nodes, "joins": True, **model.target.facts,
        **drafted_from(model, methods), **({"in_turns": sorted(models)} if in_turns else {}),
    }  # fmt: skip
    rows = claimed_rows(out, settings)
    alone = {row["id"]: row["output"] for row in rows.all if "output" in row}
    timing = _BatchTiming(models, answers, alone, in_turns)
    sizes = sorted({1, *sizes})
    cells: list[Cell] = [
        {"method": method, "batch": size, "repeat": repeat}
        for repeat in range(repeats)
        for size in sizes
        for method in methods
    ]
    watch = PromptProgress(len(groups), len(groups[0].prompts), others=others)
    return resume(rows, groups, cells, timing.measure, watch, timing.together)


class _Answers(NamedTuple):
    """texts: the new ids of each prompt. reading: of the seconds, those in which prompts were read, where known."""

    texts: list[list[int]]
    seconds: float
    reading: float | None


@dataclass(slots=True)
class _Line:
    """A queue of prompts that one method answers. seconds: of its own work. written: tokens of all texts."""

    texts: list[list[int]]
    steps: Generator[tuple[int, StepTrace], None, None]
    seconds: float
    reading: float = 0.0
    written: int = 0

    def go_on(self) -> bool:
        """Until the next step of a sequence is known. Returns whether there was one."""
        began = time.perf_counter()
        found = next(self.steps, None)
        self.seconds += time.perf_counter() - began
        if found is None:
            return False
        number, step = found
        self.texts[number] += step.tokens
        self.written += len(step.tokens)
        self.reading += step.prefill_seconds
        return True


@dataclass(slots=True)
class _BatchTiming:
    """alone: what plain decoding answered to each prompt by itself, by group."""

    models: Mapping[str, LoadedModel]
    answers: AnswerOptions
    alone: dict[str, list[list[int]]]
    in_turns: bool
    cold: bool = True

    def measure(self, group: PromptGroup, cells: Sequence[Cell]) -> Iterator[Row]:
        ids = [turn_ids(self.models[PLAIN].target.tokenizer, prompt) for prompt in group.prompts]
        if self.cold:
            for method, size in dict.fromkeys((cell["method"], cell["batch"]) for cell in cells):
                self._answer([method], ids[:size], size, 8)
            self.cold = False
        for _, some in groupby(cells, self.together):
            side_by_side = list(some)
            methods = [cell["method"] for cell in side_by_side]
            answers = self._answer(methods, ids, side_by_side[0]["batch"], self.answers.max_new_tokens)
            for cell, answered in zip(side_by_side, answers, strict=True):
                yield self._row(group, cell, answered)

    def together(self, cell: Cell) -> tuple[object, ...]:
        """The same for cells that are measured in turns."""
        own = () if self.in_turns and cell["method"] != STOCK else (cell["method"],)
        return cell["repeat"], cell["batch"], *own

    def _row(self, group: PromptGroup, cell: Cell, answered: _Answers) -> Row:
        (texts, seconds, reading), method, sampling = answered, cell["method"], self.answers.sampling
        alone = self.alone.setdefault(group.id, texts)
        same = sum(text == own for text, own in zip(texts, alone, strict=True))
        comparable = sampling.greedy or not (method == STOCK or redraws(method, sampling))
        row: Row = {
            "sequences": len(texts), "new_tokens": sum(map(len, texts)), "seconds": seconds,
            "prefill_seconds": reading, "identical": same if comparable else None,
            "distinct4": fmean(map(distinct4, texts)),
        }  # fmt: skip
        first = (method, cell["batch"], cell["repeat"]) == (PLAIN, 1, 0)
        return row | {"output": texts} if first else row

    def _answer(self, methods: Sequence[str], prompts: Sequence[list[int]], size: int, most: int) -> list[_Answers]:
        """`size` of them at a time, by each method. Whoever has written least goes on."""
        if list(methods) == [STOCK]:
            return [self._stock(prompts, size, most)]
        lines = [self._line(method, prompts, size, most) for method in methods]
        with ExitStack() as stack:
            for line in lines:
                stack.callback(line.steps.close)
            going = lines[:]
            while going:
                line = min(going, key=lambda one: one.written)
                if not line.go_on():
                    going.remove(line)
        return [_Answers(line.texts, line.seconds, line.reading) for line in lines]

    def _stock(self, prompts: Sequence[list[int]], size: int, most: int) -> _Answers:
        target, sampling = self.models[PLAIN].target, self.answers.sampling
        texts: list[list[int]] = []
        began = time.perf_counter()
        for at in range(0, len(prompts), size):
            texts += run_batch(target, prompts[at : at + size], sampling=sampling, max_new_tokens=most)
        return _Answers(texts, time.perf_counter() - began, None)

    def _line(self, method: str, prompts: Sequence[list[int]], size: int, most: int) -> _Line:
        model, sampling = self.models[method], self.answers.sampling
        limits = Limits(most, model.target.eos)
        together = size if model.target.joins else 1
        began = time.perf_counter()
        requests = []
        for prompt in prompts:
            made = model.method(method, nodes=self.answers.nodes, sampling=sampling, together=together)
            requests.append(Request(prompt, made, sampling, limits))
        steps = decode_many(model.target, requests, at_once=size)
        return _Line([[] for _ in prompts], steps, time.perf_counter() - began)


def markdown(rows: Sequence[Row]) -> str:
    """A line for each size and method, plain decoding first in its size.

    Tokens/s, of the whole calls and without the seconds in which prompts were read; how many times plain decoding of
    one after the other; the median of how many times the plain batch, group by group and repeat by repeat; equal texts;
    the share of a text's 4-grams that are distinct, on average: looping text inflates every figure.
    Rows of several processes: all tokens over the seconds of the slowest.
    """
    cells = grouped(rows, itemgetter("batch", "method"))
    one_by_one = _rate(cells[1, PLAIN])
    plain = {_which(row): _rate([row]) for row in rows if row["method"] == PLAIN}
    heads = (
        "batch", "method", "tokens/s", "without reading prompts", "against one after the other",
        "against the plain batch", "texts as alone", "distinct 4-grams",
    )  # fmt: skip
    lines = [f"| {' | '.join(heads)} |", "|---:|---|---:|---:|---:|---:|---:|---:|"]
    for (size, method), some in sorted(cells.items(), key=lambda one: (one[0][0], one[0][1] != PLAIN)):
        paired = median(_rate([row]) / plain[_which(row)] for row in some)
        compared = [row for row in some if row["identical"] is not None]
        same = ""
        if compared:
            same = f"{sum(row['identical'] for row in compared)} of {sum(row['sequences'] for row in compared)}"
        steps = "" if method == STOCK else f"{_rate(some, reading=False):.1f}"
        rate = _rate(some)
        known = [row["distinct4"] for row in some if "distinct4" in row]  # older rows have none
        distinct = f"{fmean(known):.2f}" if known else ""
        against = f"{rate / one_by_one:.2f} | {paired:.2f}"
        lines.append(f"| {size} | {method} | {rate:.1f} | {steps} | {against} | {same} | {distinct} |")
    return "\n".join(lines) + "\n"


def _which(row: Row) -> tuple[object, ...]:
    return row["id"], row["batch"], row["repeat"]


def _rate(rows: Sequence[Row], *, reading: bool = True) -> float:
    """Tokens a second. reading: with the seconds in which prompts were read."""
    seconds: dict[int, float] = defaultdict(float)
    for row in rows:
        seconds[row.get("process", 0)] += row["seconds"] - (0.0 if reading else row["prefill_seconds"])
    return float(sum(row["new_tokens"] for row in rows) / max(seconds.values()))
