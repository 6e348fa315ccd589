"""`python -m spectra.bench sweep`: one setting of one method over a list of values, everything else as it is."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from spectra.bench.report.charts import sweep_figure, write_figures
from spectra.bench.report.figures import Figures, by_method, macro, micro, ratio
from spectra.bench.report.tables import number_cell
from spectra.bench.run.answers import AnswerOptions
from spectra.bench.run.rows import Row
from spectra.bench.tasks import Prompt, PromptOptions
from spectra.bench.timing import describe, run_methods
from spectra.drafters.core import CoreSettings
from spectra.errors import SpectraError
from spectra.io.files import check_writable_folder, write_text
from spectra.method import Method
from spectra.methods.baselines import anpd, lookahead, prompt_lookup, suffix_automaton, token_recycling
from spectra.methods.draft_models import binary, chain
from spectra.methods.paper import literal
from spectra.methods.preset import Build, Setup
from spectra.methods.presets import PLAIN, check_method
from spectra.service.loading import LoadedModel, ModelOptions
from spectra.settings import METHOD_NUMBERS, Range
from spectra.verify.rules.multistep import MultiStep, WithoutReplacement
from spectra.verify.rules.spechub import SpecHub

RANGES = {
    "N": METHOD_NUMBERS["order"],
    "W": METHOD_NUMBERS["rows"],
    "G": METHOD_NUMBERS["guesses"],
    "refine": METHOD_NUMBERS["refine"],
    "K": Range(1, 64, whole=True),
    "nodes": METHOD_NUMBERS["nodes"],
    "depth": Range(1, 6, whole=True),
    "temperature": Range(0, 100),
}
"""What values a setting takes. N, W, G, refine: the paper's; K: a chain's length; depth: a tree's."""
OF_ANY_METHOD = ("nodes", "temperature")


def _core(name: str) -> Callable[[Any], Build]:
    return lambda value: literal(replace(CoreSettings(), **{name: value}))


VARIANTS: dict[str, dict[str, Callable[[Any], Build]]] = {
    "spectra-paper-core": {"N": _core("order"), "W": _core("rows"), "G": _core("guesses"), "refine": _core("refine")},
    "lookahead": {
        "N": lambda value: lookahead(order=value),
        "W": lambda value: lookahead(window=value),
        "G": lambda value: lookahead(guesses=value),
    },
    "anpd": {"N": lambda value: anpd(order=value), "K": lambda value: anpd(length=value)},
    "prompt-lookup": {"N": lambda value: prompt_lookup(order=value), "K": lambda value: prompt_lookup(length=value)},
    "suffix-automaton": {"K": lambda value: suffix_automaton(length=value)},
    "draft-model": {"K": chain},
    "spechub": {"depth": partial(binary, SpecHub())},
    "rrs": {"depth": partial(binary, MultiStep())},
    "rrsw": {"depth": partial(binary, WithoutReplacement())},
    "token-recycling": {"K": lambda value: token_recycling(ranks=value)},
}
"""Method -> setting -> value -> how it is made. Any method takes `nodes` and `temperature`."""


@dataclass(frozen=True, slots=True)
class SweepOptions:
    """vary: the setting of `method` that takes each of `values`, see `settings_by_method`."""

    prompts: PromptOptions
    model: ModelOptions
    answers: AnswerOptions
    out: Path
    vary: str
    values: tuple[float, ...]
    method: str = "spectra-paper-core"

    def __post_init__(self) -> None:
        check_method(self.method)
        takes = [*VARIANTS.get(self.method, {}), *OF_ANY_METHOD]
        if self.vary not in takes:
            others = ", ".join(name for name, settings in VARIANTS.items() if self.vary in settings)
            either = f", or --method {others}" if others else ""
            raise SpectraError("vary", f"{self.method} has no {self.vary}; give {', '.join(takes)}{either}")
        for value in self.numbers:
            RANGES[self.vary].check("values", value)

    @property
    def numbers(self) -> list[float]:
        """The values; where only whole ones make sense, those that are whole as such."""
        whole = RANGES[self.vary].whole
        return [int(value) if whole and value == int(value) else value for value in self.values]


class Point(NamedTuple):
    """What one value came to, and plain decoding beside it."""

    ours: Figures
    plain: Figures


def run_sweep(options: SweepOptions) -> int:
    """The subcommand `sweep`."""
    check_writable_folder(options.out, "out")
    prompts = options.prompts.load()
    model = options.model.load()
    found = measure(model, prompts, options)
    title = f"# {options.method}, {options.vary} varied"
    text = f"{title}\n\n{describe(model, options.answers)}\n\n{table(options.vary, found)}\n"
    write_text(options.out / "sweep.md", text, "out")
    columns: dict[str, list[float | None]] = {
        "tau": [point.ours.tau for point in found.values()],
        "speedup (Mic-TP)": [ratio(point.ours, point.plain, micro) for point in found.values()],
    }
    write_figures(options.out, {"sweep": sweep_figure(options.vary, list(found), columns)})
    print(text)
    return 0


def settings_by_method() -> str:
    """Which method takes which setting, in words."""
    own = "; ".join(f"{method}: {', '.join(settings)}" for method, settings in VARIANTS.items())
    return f"any method: {', '.join(OF_ANY_METHOD)}; {own}"


def measure(model: LoadedModel, prompts: Sequence[Prompt], options: SweepOptions) -> dict[float, Point]:
    """A point for each value. Rows go to `out`; each temperature has a folder of its own there."""
    method, vary, answers = options.method, options.vary, options.answers
    if vary == "temperature":
        found: dict[float, Point] = {}
        for value in options.numbers:
            folder = options.out / f"temperature-{value:g}"
            rows = run_methods(model, prompts, [method], folder, replace(answers, temperature=value))
            found |= _points(rows, {method: value})
        return found
    labels = {f"{method} {vary}={value:g}": value for value in options.numbers}
    variants = {label: _maker(model, options, value) for label, value in labels.items()}
    return _points(run_methods(model, prompts, list(labels), options.out, answers, variants=variants), labels)


def _points(rows: Sequence[Row], labels: Mapping[str, float]) -> dict[float, Point]:
    """labels: the methods of the rows, with their values. Raises SpectraError for one that has no row."""
    figures = by_method(rows)
    for label in labels:
        if label not in figures:
            raise SpectraError("max_new_tokens", f"{label} has no prompt that fits the model's context; ask for fewer")
    return {value: Point(figures[label], figures[PLAIN]) for label, value in labels.items()}


def _maker(model: LoadedModel, options: SweepOptions, value: float) -> Callable[[], Method]:
    sampling = options.answers.sampling
    if options.vary == "nodes":
        return partial(model.method, options.method, nodes=int(value), sampling=sampling)
    build = VARIANTS[options.method][options.vary](value)
    setup = Setup(options.method, model.target, model.resources, options.answers.nodes, sampling)
    return partial(build, setup)


def table(vary: str, found: Mapping[float, Point]) -> str:
    """One row a value."""
    head = [vary, "speedup (Mac-TP)", "tau", "query tokens a pass", "Mac-TP", "Mic-TP", "speedup (Mic-TP)", "identical"]
    lines = ["| " + " | ".join(head) + " |", "|" + "---:|" * len(head)]
    for value, (ours, plain) in found.items():
        same, of = ours.identical
        cells = [
            f"{value:g}",
            number_cell(ratio(ours, plain, macro), 2),
            number_cell(ours.tau, 2),
            number_cell(ours.queries, 1),
            number_cell(ours.macro, 1),
            number_cell(ours.micro, 1),
            number_cell(ratio(ours, plain, micro), 2),
            f"{same} of {of}" if of else "",
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)
