"""`python -m spectra.bench profile`: where the time of a step goes, by part."""

import argparse
import statistics
from collections.abc import Sequence

from spectra.bench.run import check_settings
from spectra.bench.values import known, names
from spectra.cli import quiet_target
from spectra.methods import METHODS, make_method
from spectra.record import Recording
from spectra.trace import StepTrace

PROMPT = "Write a Python class for a bank account with methods to deposit, withdraw and show the balance."
PARTS = {
    "draft": "grow the tree and choose what is worth scoring",
    "forward": "one pass of the model, with the copy of its picks to the host",
    "verify": "walk the tree",
    "keep": "commit the cache rows, learn",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own arguments."""
    parser.add_argument(
        "--methods", type=names, default=["autoregressive", "spectra"], help="presets, commas between them"
    )
    parser.add_argument("--prompt", default=PROMPT, help="what is answered")


def run_profile(chosen: argparse.Namespace) -> int:
    """The subcommand `profile`: one answer a method, the first steps left out."""
    sampling = check_settings(chosen)
    methods = known("methods", chosen.methods, METHODS)
    target = quiet_target(chosen)
    for method in methods:
        make_method(method, target, nodes=chosen.nodes, sampling=sampling)  # one that lacks its datastore says so now
    print("| method | steps | ms a step | " + " | ".join(PARTS) + " |\n|---|---:|---:|" + "---:|" * len(PARTS))
    for method in methods:
        answer = Recording(
            target, chosen.prompt, method, sampling=sampling, max_new_tokens=chosen.max_new_tokens, nodes=chosen.nodes
        )
        steps = [step for step, _ in answer]
        print(row(method, steps[min(4, len(steps) // 2) :]))
    print("\n" + "; ".join(f"{part}: {meaning}" for part, meaning in PARTS.items()) + ".")
    return 0


def row(method: str, steps: Sequence[StepTrace]) -> str:
    """A Markdown row: medians over steps, each part with its share of all time."""
    total = sum(step.seconds for step in steps)
    cells = []
    for part in PARTS:
        times = [step.parts.get(part, 0.0) for step in steps]
        cells.append(f"{statistics.median(times) * 1000:.2f} ms, {sum(times) / total:.1%}")
    middle = statistics.median(step.seconds for step in steps) * 1000
    return f"| {method} | {len(steps)} | {middle:.1f} | " + " | ".join(cells) + " |"
