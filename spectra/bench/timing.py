"""`python -m spectra.bench run`: time methods and stock transformers on the same prompts.

Methods take turns on each prompt, so that drift hits all alike.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from spectra.bench.report.charts import run_figures, write_figures
from spectra.bench.report.tables import markdown
from spectra.bench.run.answers import (
    AnswerOptions,
    PromptAnswer,
    Run,
    Turn,
    answer_turns,
    check_names,
    drafted_from,
    facts_line,
    figures_of_answer,
)
from spectra.bench.run.llama_cpp import LLAMA_CPP, LlamaCpp, check_llama_cpp, load_llama_cpp
from spectra.bench.run.peers import ASSISTED, PEERS, check_assistant, check_whole, load_assistant, run_peer
from spectra.bench.run.rows import Row, claimed_rows
from spectra.bench.run.runner import Cell, PromptProgress, resume, rows_of
from spectra.bench.steps import read_cost
from spectra.bench.tasks import Prompt, PromptOptions
from spectra.decode import decode
from spectra.errors import SpectraError
from spectra.io.files import check_writable_folder, write_text
from spectra.io.version import VERSION
from spectra.method import Method
from spectra.methods.presets import METHODS, PLAIN, redraws
from spectra.service.loading import LoadedModel, ModelOptions
from spectra.settings import Limits, check_number

WARM_UP = 16
VERSIONED = ["torch", "transformers", "python"]
"""Facts of a target that are versions."""

Make = Callable[[], Method]


@dataclass(frozen=True, slots=True)
class TimingOptions:
    """methods: presets and peers. assistant: the draft model of the peer that needs one. cost: a file, `read_cost`."""

    prompts: PromptOptions
    model: ModelOptions
    answers: AnswerOptions
    out: Path
    methods: tuple[str, ...] = ("spectra-core", "hf-generate", "hf-prompt-lookup")
    repeats: int = 1
    assistant: str | None = None
    cost: Path | None = None

    def __post_init__(self) -> None:
        check_names("methods", self.methods, [*METHODS, *PEERS, *LLAMA_CPP])
        check_llama_cpp(self.methods, self.model.model, self.answers.sampling)
        check_assistant(self.methods, self.assistant, self.model.model)
        check_number("repeats", self.repeats, 1, 1000, whole=True)


def run_timing(options: TimingOptions) -> int:
    """The subcommand `run`. What is wrong is found before a model is loaded."""
    check_writable_folder(options.out, "out")
    prompts = options.prompts.load()
    cost = read_cost(options.cost) if options.cost else None
    model = replace(options.model.load(), step_cost=cost)
    model.check_methods([method for method in options.methods if method in METHODS], nodes=options.answers.nodes)
    check_whole(options.methods, model.target)
    assistant = load_assistant(options.assistant, model.target) if ASSISTED in options.methods else None
    llamas = {
        method: load_llama_cpp(
            method, options.model.model, threads=int(str(model.target.facts["threads"])), context=model.target.context
        )
        for method in options.methods
        if method in LLAMA_CPP
    }
    rows = run_methods(
        model, prompts, options.methods, options.out, options.answers,
        repeats=options.repeats, assistant=assistant, llamas=llamas,
    )  # fmt: skip
    about = [describe(model, options.answers), *sorted({llama.built for llama in llamas.values()})]
    text = "\n\n".join([*about, markdown(rows)])
    write_text(options.out / "report.md", text, "out")
    write_figures(options.out, run_figures(rows))
    print(text)
    return 0


def split_methods(model: LoadedModel, methods: Sequence[str], nodes: int | None = None) -> tuple[list[str], list[str]]:
    """(presets that the model can run, "METHOD: why not" of the others, which lack a datastore or a draft model)."""
    fit, notes = [], []
    for method in methods:
        try:
            model.check_methods([method], nodes=nodes)
            fit.append(method)
        except SpectraError as error:
            notes.append(f"{method}: {error}")
    return fit, notes


def describe(model: LoadedModel, answers: AnswerOptions) -> str:
    """One line: model, device, versions, settings."""
    sampling = f"temperature {answers.temperature:g}, top-p {answers.top_p:g}, seed {answers.seed}"
    return f"{facts_line(model.target)}. {answers.max_new_tokens} new tokens at most, {sampling}."


def run_methods(
    model: LoadedModel,
    prompts: Sequence[Prompt],
    methods: Sequence[str],
    out: Path,
    answers: AnswerOptions,
    *,
    repeats: int = 1,
    assistant: Any = None,
    llamas: Mapping[str, LlamaCpp] | None = None,
    variants: Mapping[str, Make] | None = None,
) -> list[Row]:
    """Rows of `out`/rows.jsonl, new ones appended as they finish; rows that are there are not run again.

    Plain decoding always runs, first. The first calls are a warm-up and not recorded. assistant: the draft model of the
    peer that needs one. llamas: llama.cpp's peers. variants: methods that are no presets, by the name their rows get.
    Raises SpectraError where `out` holds rows of other settings, or no prompt fits.
    """
    methods = list(dict.fromkeys([PLAIN, *methods]))
    llamas = llamas or {}
    settings = _settings(model, methods, answers, assistant)
    if llamas:
        settings["llama_cpp"] = sorted({llama.built for llama in llamas.values()})
    rows = claimed_rows(out, settings)
    plain = {row["id"]: PromptAnswer(row["output"]) for row in rows.all if row["method"] == PLAIN}
    timing = _Timing(model, methods, answers, assistant, llamas, variants or {}, settings, plain)
    cells: list[Cell] = [{"method": method, "repeat": repeat} for repeat in range(repeats) for method in methods]
    resume(rows, prompts, cells, timing.measure, PromptProgress(len(prompts)))
    return rows_of(rows.all, prompts, [{"method": method} for method in methods])


def _settings(model: LoadedModel, methods: Sequence[str], answers: AnswerOptions, assistant: Any) -> dict[str, Any]:
    """As every row and the folder record them."""
    facts = dict(model.target.facts)
    versions = {name: facts.pop(name) for name in VERSIONED if name in facts} | {"spectra": VERSION}
    return {
        "temperature": answers.temperature, "top_p": answers.top_p, "seed": answers.seed,
        "max_new_tokens": answers.max_new_tokens, "nodes": answers.nodes, **facts, "versions": versions,
        "assistant": getattr(assistant, "name_or_path", None),
        **drafted_from(model, methods),
        **({"cost": model.step_cost.table} if model.step_cost else {}),
    }  # fmt: skip


@dataclass(slots=True)
class _Timing:
    """Measures prompts. plain: what plain decoding answered, by prompt id. cold: nothing has run yet."""

    model: LoadedModel
    methods: Sequence[str]
    answers: AnswerOptions
    assistant: Any
    llamas: Mapping[str, LlamaCpp]
    variants: Mapping[str, Make]
    settings: Mapping[str, Any]
    plain: dict[str, PromptAnswer]
    cold: bool = True

    def measure(self, prompt: Prompt, cells: Sequence[Cell]) -> Iterator[Row]:
        """The figures of each cell."""
        if self.cold:
            self._warm_up(prompt)
            self.cold = False
        for cell in cells:
            method = cell["method"]
            run = self._run(method, self.answers.max_new_tokens)
            answer = answer_turns(self.model.target.tokenizer, prompt, run, self.plain.get(prompt.id))
            plain = self.plain.setdefault(prompt.id, answer)
            sampling = self.answers.sampling
            comparable = sampling.greedy or not (method in PEERS or redraws(method.split()[0], sampling))
            row = {"category": prompt.category, "turns": len(prompt.turns)}
            row |= {**figures_of_answer(answer, plain, comparable=comparable), **self.settings}
            yield row | {"output": answer.outputs} if method == PLAIN else row

    def _warm_up(self, prompt: Prompt) -> None:
        first = replace(prompt, turns=prompt.turns[:1])
        for method in self.methods:
            run = self._run(method, min(WARM_UP, self.answers.max_new_tokens))
            answer_turns(self.model.target.tokenizer, first, run)

    def _run(self, method: str, max_new_tokens: int) -> Run:
        """What answers one turn."""
        if method in self.llamas:
            return partial(self.llamas[method].answer, max_new_tokens=max_new_tokens, eos=self.model.target.eos)
        if method not in PEERS:
            return partial(self._decode, method, max_new_tokens)
        return partial(
            run_peer,
            self.model.target,
            method,
            sampling=self.answers.sampling,
            max_new_tokens=max_new_tokens,
            assistant=self.assistant,
        )

    def _decode(self, method: str, max_new_tokens: int, ids: list[int]) -> Turn:
        sampling = self.answers.sampling
        limits = Limits(max_new_tokens, self.model.target.eos)
        variant = self.variants.get(method)
        began = time.perf_counter()
        made = variant() if variant else self.model.method(method, nodes=self.answers.nodes, sampling=sampling)
        steps = list(decode(self.model.target, ids, made, sampling=sampling, limits=limits))
        seconds = time.perf_counter() - began
        return Turn([token for step in steps for token in step.tokens], seconds, steps)
