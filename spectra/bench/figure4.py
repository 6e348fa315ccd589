"""`python -m spectra.bench figure4`: methods with and without flash attention (the paper's Figure 4), in fast numerics.

Each way to take steps is a run of its own in a folder of its own, so that a stopped one goes on; a way that cannot be
had on this device is named with the reason.
"""

import gc
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter
from pathlib import Path

from spectra.bench.report.figures import micro
from spectra.bench.report.merge import merge, report
from spectra.bench.run.answers import AnswerOptions, check_names
from spectra.bench.run.rows import Row, grouped, make_folder
from spectra.bench.tasks import PromptOptions
from spectra.bench.timing import run_methods, split_methods
from spectra.errors import SpectraError
from spectra.io.files import write_text
from spectra.methods.presets import METHODS, PLAIN
from spectra.service.loading import ModelOptions
from spectra.target.choices import STEPS, check_choice

WAYS = ("eager", "flash-eager", "graphs", "flash")


@dataclass(frozen=True, slots=True)
class Figure4Options:
    """steps: ways to take a step, see `load_target`. methods: presets; those that lack a datastore are left out."""

    prompts: PromptOptions
    model: ModelOptions
    answers: AnswerOptions
    out: Path
    methods: tuple[str, ...] = ("anpd", "lookahead", "rest", "spectra")
    steps: tuple[str, ...] = WAYS

    def __post_init__(self) -> None:
        check_names("methods", self.methods, METHODS)
        for step in self.steps:
            check_choice("steps", step, STEPS)
        for name, given in (("step", self.model.step), ("numerics", self.model.numerics)):
            if given != "auto":
                raise SpectraError(name, "this command takes fast numerics and the steps of --steps; leave it out")


@dataclass(slots=True)
class _Runs:
    """rows: by step. notes: a line for each step or method that was not available."""

    rows: dict[str, list[Row]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def run_figure4(options: Figure4Options) -> int:
    """The subcommand `figure4`. Raises SpectraError where no step is available."""
    prompts = options.prompts.load()
    make_folder(options.out)
    runs = _Runs()
    for step in options.steps:
        try:
            model = replace(options.model, step=step, numerics="fast").load()
        except SpectraError as error:
            if error.field != "step":
                raise
            runs.notes.append(f"{step}: {str(error).removeprefix('step: ')}")
            continue
        methods, left_out = split_methods(model, options.methods, options.answers.nodes)
        runs.notes += [f"{step}, {note}" for note in left_out]
        runs.rows[step] = run_methods(model, prompts, methods, options.out / step, options.answers)
        del model
        gc.collect()  # the next one needs its memory
    if not runs.rows:
        raise SpectraError("steps", "; ".join(runs.notes))
    sections = merge([options.out / step for step in runs.rows])
    notes = "".join(f"- {note}\n" for note in dict.fromkeys(runs.notes))
    text = f"{figure4(runs.rows)}\n\n{f'Left out:{chr(10)}{chr(10)}{notes}{chr(10)}' if notes else ''}"
    write_text(options.out / "figure4.md", text, "out")
    write_text(options.out / "details.md", report(sections), "out")
    print(text, end="")
    return 0


def figure4(rows: Mapping[str, Sequence[Row]]) -> str:
    """Markdown: tokens/s of each method by step, with the ratio to plain decoding in the first of them."""
    rates = {
        step: {method: micro(own) for method, own in grouped(some, itemgetter("method")).items()}
        for step, some in rows.items()
    }
    first = next(iter(rates.values()))[PLAIN]
    methods = list(dict.fromkeys(method for some in rates.values() for method in some))
    lines = [
        "| tokens/s | " + " | ".join(rates) + " |",
        "|---|" + "---:|" * len(rates),
    ]
    for method in methods:
        cells = [
            f"{some[method]:.1f} ({some[method] / first:.2f})" if method in some else "" for some in rates.values()
        ]
        lines.append(f"| {method} | " + " | ".join(cells) + " |")
    return "\n".join([*lines, "", f"In brackets: against {PLAIN} with {next(iter(rates))} steps."])
