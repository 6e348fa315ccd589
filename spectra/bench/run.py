"""`python -m spectra.bench run`: time methods and stock transformers on the same prompts, in turn."""

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

from spectra.bench.charts import run_figures, write_figures
from spectra.bench.costs import read_cost
from spectra.bench.figures import Row
from spectra.bench.peers import ASSISTED, PEERS, check_assistant
from spectra.bench.report import markdown
from spectra.bench.runner import Job, run_methods
from spectra.bench.tasks import load_prompts
from spectra.bench.values import known
from spectra.cli import quiet_target
from spectra.drafted import DRAFTED
from spectra.methods import METHODS, make_method
from spectra.settings import Limits, Sampling, check_number
from spectra.trace import write_text


def run_timing(chosen: argparse.Namespace) -> int:
    """The subcommand `run`. What is wrong is found before a model is loaded."""
    known("methods", chosen.methods, [*METHODS, *PEERS])
    check_assistant(chosen.methods, chosen.assistant, chosen.model)
    check_number("repeats", chosen.repeats, 1, 1000, whole=True)
    sampling = check_settings(chosen)
    prompts = load_prompts(chosen.tasks, chosen.data, chosen.limit)
    cost = read_cost(chosen.cost) if chosen.cost else None
    target = quiet_target(chosen)
    if cost:
        target.plan = replace(target.plan, cost=cost)
    for method in METHODS.keys() & set(chosen.methods):
        make_method(method, target, nodes=chosen.nodes)  # one that lacks its datastore or draft model says so now
    drafted = bool(DRAFTED.keys() & set(chosen.methods))
    job = Job(sampling, chosen.max_new_tokens, chosen.nodes, _assistant(chosen, target), drafted=drafted, cost=cost)
    rows = run_methods(target, prompts, chosen.methods, chosen.out, job, repeats=chosen.repeats)
    write_report(chosen.out, f"{describe(target, job)}\n\n{markdown(rows)}", rows)
    return 0


def _assistant(chosen: argparse.Namespace, target: Any) -> Any:
    if ASSISTED not in chosen.methods:
        return None
    from spectra.bench.stock import load_assistant

    return load_assistant(chosen.assistant, target)


def check_settings(chosen: argparse.Namespace) -> Sampling:
    """The sampling of a benchmark; raises SpectraError for a bad number."""
    Limits(chosen.max_new_tokens)
    if chosen.nodes is not None:
        check_number("nodes", chosen.nodes, 1, 1024, whole=True)
    return Sampling(temperature=chosen.temperature, top_p=chosen.top_p, seed=chosen.seed)


def write_report(out: Path, text: str, rows: list[Row]) -> None:
    """`out`/report.md and the figures beside it; the text goes to stdout too."""
    write_text(out / "report.md", text, "out")
    write_figures(out, run_figures(rows))
    print(text)


def describe(target: Any, job: Job) -> str:
    """One line: model, device, versions, settings."""
    facts = ", ".join(f"{name} {value}" for name, value in target.facts.items())
    sampling = job.sampling
    return (
        f"{facts}. {job.max_new_tokens} new tokens at most, temperature {sampling.temperature:g}, "
        f"top-p {sampling.top_p:g}, seed {sampling.seed}."
    )
