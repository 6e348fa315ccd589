"""`python -m spectra.bench batch`: tokens/s of batches, and whether each text is the one that it is alone.

Batches of every size answer the same prompts; plain decoding of one after the other is what they are measured against.
"""

import hashlib
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spectra.batch.decode_many import decode_many
from spectra.batch.request import Request
from spectra.bench.run.answers import AnswerOptions, check_names, drafted_from, facts_line, turn_ids
from spectra.bench.run.peers import check_whole, run_batch
from spectra.bench.run.rows import Row, claimed_rows
from spectra.bench.run.runner import Cell, Progress, resume
from spectra.bench.tasks import Prompt, PromptOptions
from spectra.errors import SpectraError
from spectra.io.files import write_text
from spectra.methods.presets import METHODS, PLAIN, redraws
from spectra.service.loading import LoadedModel, ModelOptions
from spectra.settings import Limits, check_number

STOCK = "hf-generate"


@dataclass(frozen=True, slots=True)
class BatchOptions:
    """methods: presets, and stock generate. batch: how many prompts are answered together; the largest is a group."""

    prompts: PromptOptions
    model: ModelOptions
    answers: AnswerOptions
    out: Path
    methods: tuple[str, ...] = ("spectra", STOCK)
    batch: tuple[int, ...] = (1, 4, 8, 16)

    def __post_init__(self) -> None:
        check_names("methods", self.methods, [*METHODS, STOCK])
        if not self.batch:
            raise SpectraError("batch", "there is no size; give numbers with commas between them")
        for size in self.batch:
            check_number("batch", size, 1, 4096, whole=True)


@dataclass(frozen=True, slots=True)
class PromptGroup:
    """As many prompts as the largest batch."""

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
    prompts = options.prompts.load()
    largest = max(options.batch)
    if len(prompts) < largest:
        raise SpectraError("batch", f"{len(prompts)} prompts do not fill a batch of {largest}; give a smaller one")
    model = options.model.load()
    model.check_methods([method for method in options.methods if method in METHODS], nodes=options.answers.nodes)
    check_whole(options.methods, model.target)
    groups = [PromptGroup(tuple(prompts[at : at + largest])) for at in range(0, len(prompts) - largest + 1, largest)]
    rows = run_groups(model, groups, options.methods, options.batch, options.out, options.answers)
    text = f"{facts_line(model.target)}. {options.answers.max_new_tokens} new tokens at most.\n\n{markdown(rows)}"
    write_text(options.out / "report.md", text, "out")
    print(text, end="")
    return 0


def run_groups(
    model: LoadedModel,
    groups: Sequence[PromptGroup],
    methods: Sequence[str],
    sizes: Sequence[int],
    out: Path,
    answers: AnswerOptions,
) -> list[Row]:
    """Rows of `out`, new ones appended as they finish. Plain decoding always runs, one after the other first."""
    methods = list(dict.fromkeys([PLAIN, *methods]))
    settings = {
        "max_new_tokens": answers.max_new_tokens, "temperature": answers.temperature, "top_p": answers.top_p,
        "seed": answers.seed, "nodes": answers.nodes, **model.target.facts, **drafted_from(model, methods),
    }  # fmt: skip
    rows = claimed_rows(out, settings)
    alone = {row["id"]: row["output"] for row in rows.all if row["method"] == PLAIN and row["batch"] == 1}
    timing = _Timing(model, answers, alone)
    sizes = sorted({1, *sizes})
    cells: list[Cell] = [{"method": method, "batch": size} for size in sizes for method in methods]
    return resume(rows, groups, cells, timing.measure, Progress(len(groups)))


@dataclass(slots=True)
class _Timing:
    """alone: what plain decoding answered to each prompt by itself, by group."""

    model: LoadedModel
    answers: AnswerOptions
    alone: dict[str, list[list[int]]]
    cold: bool = True

    def measure(self, group: PromptGroup, cells: Sequence[Cell]) -> Iterator[Row]:
        ids = [turn_ids(self.model.target.tokenizer, prompt) for prompt in group.prompts]
        if self.cold:
            for cell in cells:
                self._answer(cell["method"], ids[: cell["batch"]], 8)
            self.cold = False
        for cell in cells:
            method, size = cell["method"], cell["batch"]
            said: list[list[int]] = []
            began = time.perf_counter()
            for at in range(0, len(ids), size):
                said += self._answer(method, ids[at : at + size], self.answers.max_new_tokens)
            seconds = time.perf_counter() - began
            alone = self.alone.setdefault(group.id, said)
            sampling = self.answers.sampling
            same = sum(text == own for text, own in zip(said, alone, strict=True))
            comparable = sampling.greedy or not (method == STOCK or redraws(method, sampling))
            row: Row = {"sequences": len(said), "new_tokens": sum(map(len, said)), "seconds": seconds}
            row |= {"identical": same if comparable else None}
            yield row | {"output": said} if (method, size) == (PLAIN, 1) else row

    def _answer(self, method: str, prompts: Sequence[list[int]], max_new_tokens: int) -> list[list[int]]:
        """The new ids of each, all of them together."""
        target, sampling = self.model.target, self.answers.sampling
        if method == STOCK:
            return run_batch(target, prompts, sampling=sampling, max_new_tokens=max_new_tokens)
        limits = Limits(max_new_tokens, target.eos)
        together = len(prompts) if target.joins else 1
        requests = []
        for prompt in prompts:
            made = self.model.method(method, nodes=self.answers.nodes, sampling=sampling, together=together)
            requests.append(Request(prompt, made, sampling, limits))
        said: list[list[int]] = [[] for _ in prompts]
        for number, step in decode_many(target, requests, at_once=len(prompts)):
            said[number] += step.tokens
        return said


def markdown(rows: Sequence[Row]) -> str:
    """Tokens/s by method and size, how many times plain decoding of one after the other, and equal texts."""
    sums: dict[tuple[int, str], list[Any]] = {}
    for row in rows:
        tokens, seconds, same, of = sums.get((row["batch"], row["method"]), [0, 0.0, 0, 0])
        said = row["identical"]
        sums[row["batch"], row["method"]] = [
            tokens + row["new_tokens"], seconds + row["seconds"],
            same + (said or 0), of + (0 if said is None else row["sequences"]),
        ]  # fmt: skip
    tokens, seconds, _, _ = sums[1, PLAIN]
    lines = [
        "| batch | method | tokens/s | against one after the other | texts as alone |",
        "|---:|---|---:|---:|---:|",
    ]
    for (size, method), (new, took, same, of) in sorted(sums.items(), key=lambda one: one[0][0]):
        ratio = new / took / (tokens / seconds)
        lines.append(f"| {size} | {method} | {new / took:.1f} | {ratio:.2f} | {f'{same} of {of}' if of else ''} |")
    return "\n".join(lines) + "\n"
