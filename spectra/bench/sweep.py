"""`python -m spectra.bench sweep`: one setting of one method over a list of values, everything else as it is."""

import argparse
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from spectra.baselines import anpd, lookahead, prompt_lookup, suffix_automaton, token_recycling
from spectra.bench.charts import sweep_figure, write_figures
from spectra.bench.figures import PLAIN, Figures, Row, by_method, macro, micro, ratio
from spectra.bench.report import number_cell
from spectra.bench.run import check_settings, describe
from spectra.bench.runner import Job, run_methods
from spectra.bench.tasks import Prompt, load_prompts
from spectra.bench.values import numbers
from spectra.cli import quiet_target
from spectra.drafted import DRAFTED, binary, chain
from spectra.drafters.core import CoreSettings
from spectra.errors import SpectraError
from spectra.methods import METHODS, literal, make_method
from spectra.preset import Build, Method
from spectra.rules.multistep import MultiStep, WithoutReplacement
from spectra.rules.spechub import SpecHub
from spectra.settings import check_number
from spectra.trace import write_text

RANGES: dict[str, tuple[float, float, bool]] = {
    "N": (2, 16, True),
    "W": (0, 128, True),
    "G": (1, 128, True),
    "refine": (0, 1, False),
    "K": (1, 64, True),
    "nodes": (1, 1024, True),
    "depth": (1, 6, True),
    "temperature": (0, 100, False),
}
"""Setting -> (least, most, whole numbers only). N, W, G, refine: the paper's; K: a chain's length; depth: a tree's."""


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
HEADER = (
    "| {} | speedup (Mac-TP) | tau | query tokens a pass | Mac-TP | Mic-TP | speedup (Mic-TP) | identical |\n"
    "|---:|---:|---:|---:|---:|---:|---:|---:|"
)


def run_sweep(chosen: argparse.Namespace) -> int:
    """The subcommand `sweep`."""
    values = check_values(chosen.method, chosen.vary, chosen.values)
    sampling = check_settings(chosen)
    prompts = load_prompts(chosen.tasks, chosen.data, chosen.limit)
    target = quiet_target(chosen)
    job = Job(sampling, chosen.max_new_tokens, chosen.nodes, drafted=chosen.method in DRAFTED)
    found = measure(target, prompts, chosen, job, values)
    text = f"# {chosen.method}, {chosen.vary} varied\n\n{describe(target, job)}\n\n{table(chosen.vary, found)}\n"
    write_text(chosen.out / "sweep.md", text, "out")
    columns: dict[str, list[float | None]] = {
        "tau": [ours.tau for ours, _ in found.values()],
        "speedup (Mic-TP)": [ratio(ours, plain, micro) for ours, plain in found.values()],
    }
    write_figures(chosen.out, {"sweep": sweep_figure(chosen.vary, list(found), columns)})
    print(text)
    return 0


def settings_by_method() -> str:
    """Which method takes which setting, in words."""
    own = "; ".join(f"{method}: {', '.join(settings)}" for method, settings in VARIANTS.items())
    return f"any method: nodes, temperature; {own}"


def check_values(method: str, vary: str, texts: list[str]) -> list[float]:
    """The values as numbers. Raises SpectraError for an unknown method, one without that setting, or a bad value."""
    if method not in METHODS:
        raise SpectraError("method", f"{method!r} is unknown; choose one of {', '.join(METHODS)}")
    takes = [*VARIANTS.get(method, {}), "nodes", "temperature"]
    if vary not in takes:
        others = ", ".join(name for name, settings in VARIANTS.items() if vary in settings)
        raise SpectraError("vary", f"{method} has no {vary}; give {', '.join(takes)}, or --method {others or method}")
    low, high, whole = RANGES[vary]
    values = numbers("values", texts, int if whole else float)
    for value in values:
        check_number("values", value, low, high, whole=whole)
    return values


def measure(
    target: Any, prompts: list[Prompt], chosen: argparse.Namespace, job: Job, values: list[float]
) -> dict[float, tuple[Figures, Figures]]:
    """value -> (the method, plain decoding). Rows go to `out`; each temperature has a folder of its own there."""
    if chosen.vary == "temperature":
        found: dict[float, tuple[Figures, Figures]] = {}
        for value in values:
            hot = replace(job, sampling=replace(job.sampling, temperature=value))
            rows = run_methods(target, prompts, [chosen.method], chosen.out / f"temperature-{value:g}", hot)
            found |= _against_plain(rows, {chosen.method: value})
        return found
    labels = {f"{chosen.method} {chosen.vary}={value:g}": value for value in values}
    made = {label: _maker(target, chosen.method, chosen.vary, value, job) for label, value in labels.items()}
    rows = run_methods(target, prompts, list(labels), chosen.out, replace(job, variants=made))
    return _against_plain(rows, labels)


def _against_plain(rows: list[Row], labels: Mapping[str, float]) -> dict[float, tuple[Figures, Figures]]:
    """value -> (its label's figures, plain decoding's). Raises SpectraError for one that has no row."""
    table = by_method(rows)
    for label in labels:
        if label not in table:
            raise SpectraError("max_new_tokens", f"{label} has no prompt that fits the model's context; ask for fewer")
    return {value: (table[label], table[PLAIN]) for label, value in labels.items()}


def _maker(target: Any, method: str, vary: str, value: float, job: Job) -> Callable[[], Method]:
    if vary == "nodes":
        return partial(make_method, method, target, nodes=int(value), sampling=job.sampling)
    return partial(VARIANTS[method][vary](value), target, job.nodes, job.sampling)


def table(vary: str, found: Mapping[float, tuple[Figures, Figures]]) -> str:
    """One row a value."""
    lines = [HEADER.format(vary)]
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
