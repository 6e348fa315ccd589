"""`python -m spectra.bench`: `run` times methods against each other, `exactness` counts identical outputs."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from spectra.bench.exactness import count_identical
from spectra.bench.peers import PEERS
from spectra.bench.report import markdown
from spectra.bench.runner import run_methods
from spectra.bench.tasks import TASKS, Prompt, load_prompts
from spectra.cli import Parser, add_model_arguments, number, quiet_target
from spectra.errors import SpectraError
from spectra.methods import METHODS
from spectra.settings import Sampling, check_number
from spectra.trace import write_text


def names(text: str) -> list[str]:
    """A comma-separated list."""
    return [part.strip() for part in text.split(",") if part.strip()]


def build_parser() -> Parser:
    parser = Parser(prog="python -m spectra.bench", description="Benchmarks of speculative decoding, as commands.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="{run,exactness}")
    run = commands.add_parser("run", help="time methods on the same prompts, in turn")
    run.add_argument("--methods", type=names, default=["spectra-core", "hf-generate", "hf-prompt-lookup"])
    run.add_argument("--repeats", type=number(int), default=1)
    run.add_argument("--temperature", type=number(float), default=0.0)
    run.add_argument("--nodes", type=number(int), help="the most guessed tokens a step")
    exact = commands.add_parser("exactness", help="count outputs identical to plain decoding")
    exact.add_argument("--methods", type=names, default=["spectra-core"])
    exact.add_argument("--temperatures", type=names, default=["0", "0.8"])
    for one in (run, exact):
        add_model_arguments(one)
        one.add_argument("--tasks", type=names, default=list(TASKS))
        one.add_argument("--data", type=Path, required=True, metavar="DIR", help="folder with the published task files")
        one.add_argument("--limit", type=number(int), help="prompts a task")
        one.add_argument("--max-new-tokens", type=number(int), default=256)
        one.add_argument("--seed", type=number(int), default=0)
        one.add_argument("--out", type=Path, required=True, metavar="DIR")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a benchmark; returns the exit code (2 with one line for bad input)."""
    chosen = build_parser().parse_args(arguments)
    try:
        if chosen.limit is not None and chosen.limit < 1:
            raise SpectraError("limit", f"{chosen.limit} is out of range; give 1 or more")
        prompts = load_prompts(chosen.tasks, chosen.data, chosen.limit)
        return run_exactness(chosen, prompts) if chosen.command == "exactness" else run_timing(chosen, prompts)
    except SpectraError as error:
        print(f"spectra.bench: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nspectra.bench: stopped; the same command goes on from here", file=sys.stderr)
        return 130


def run_exactness(chosen: argparse.Namespace, prompts: list[Prompt]) -> int:
    for method in chosen.methods:
        if method not in METHODS:
            raise SpectraError("methods", f"{method!r} is unknown; choose from {', '.join(METHODS)}")
    temperatures = [float(number(float)(t)) for t in chosen.temperatures]
    target = quiet_target(chosen)
    counts = count_identical(
        target, prompts, chosen.methods, temperatures, chosen.max_new_tokens, chosen.out, chosen.seed
    )
    for (method, temperature), (same, of) in sorted(counts.items()):
        print(f"{method}, temperature {temperature:g}, {target.plan.numerics}: {same} of {of} identical")
    return 0


def run_timing(chosen: argparse.Namespace, prompts: list[Prompt]) -> int:
    for method in chosen.methods:
        if method not in METHODS and method not in PEERS:
            raise SpectraError("methods", f"{method!r} is unknown; choose from {', '.join([*METHODS, *PEERS])}")
    check_number("repeats", chosen.repeats, 1, 1000, whole=True)
    sampling = Sampling(temperature=chosen.temperature, seed=chosen.seed)
    target = quiet_target(chosen)
    rows = run_methods(
        target,
        prompts,
        chosen.methods,
        chosen.out,
        sampling=sampling,
        max_new_tokens=chosen.max_new_tokens,
        nodes=chosen.nodes,
        repeats=chosen.repeats,
    )
    facts = ", ".join(f"{name} {value}" for name, value in target.facts.items())
    text = (
        f"{facts}. {chosen.max_new_tokens} new tokens at most, temperature {chosen.temperature:g}.\n\n{markdown(rows)}"
    )
    write_text(chosen.out / "report.md", text, "out")
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
