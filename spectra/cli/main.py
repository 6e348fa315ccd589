"""The command line: `generate` answers a prompt and reports, `race` records one, `methods` lists the presets.

The answer goes to stdout, everything else to stderr. Bad input ends with exit code 2 and one line on stderr.
"""

import argparse
import json
import logging
import os
import platform
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from spectra.cli.arguments import (
    EXPLAIN_HELP,
    METHOD_HELP,
    MODEL_HELP,
    Parser,
    add_options,
    exit_code,
    read_options,
)
from spectra.cli.race import RaceOptions, add_race_options, run_race
from spectra.errors import SpectraError
from spectra.io.files import check_writable, write_text
from spectra.io.version import VERSION
from spectra.methods.presets import METHODS, PLAIN, check_method
from spectra.methods.resources import Resources
from spectra.metrics import Summary, first_difference, speedup, summarize
from spectra.service.loading import ModelOptions
from spectra.service.recording import Recording, record
from spectra.settings import Limits, MethodSettings, Sampling, check_unicode

log = logging.getLogger("spectra")

WARM_UP = 8
DRAWING = ("seed", "top_k", "top_p", "min_p")
"""Of `Sampling`: what matters above temperature 0 only."""
HELP = {
    **MODEL_HELP,
    **METHOD_HELP,
    "explain": EXPLAIN_HELP,
    "baseline": "decode plainly too and compare",
    "json": "write the report to this file, as JSON",
    "max_new_tokens": "tokens at which the answer is cut",
    "method": "a preset, see `methods`",
    "min_p": "leave out tokens less likely than this share of the likeliest's probability",
    "prompt": "what is answered",
    "raw": "continue the text as it is, without the chat template",
    "repetition_penalty": "above 1 tokens that are there already become less likely",
    "seed": "of the draws above temperature 0",
    "temperature": "0 is greedy",
    "top_k": "draw from this many likeliest tokens; 0 is all",
    "top_p": "draw from the likeliest tokens, this much in sum",
    "trace": "write every step to this file, as JSON",
}


@dataclass(frozen=True, slots=True)
class GenerateOptions:
    """settings: what is changed about the method. baseline: decode plainly too. raw: no chat template.

    explain: the trace tells what was looked up and learned. trace, json: files for every step and for the report.
    """

    prompt: str
    model: ModelOptions
    settings: MethodSettings
    method: str = "spectra"
    max_new_tokens: int = 256
    sampling: Sampling = field(default_factory=Sampling)
    baseline: bool = False
    raw: bool = False
    explain: bool = False
    trace: Path | None = None
    json: Path | None = None

    def __post_init__(self) -> None:
        if not self.prompt.strip():
            raise SpectraError("prompt", "it is blank; write something")
        check_unicode("prompt", self.prompt)
        check_method(self.method, self.settings)
        Limits(self.max_new_tokens)
        if self.json is not None and self.trace is not None and same_file(self.json, self.trace):
            raise SpectraError("json", f"{self.json} is where the trace goes; name another file")


def same_file(one: Path, other: Path) -> bool:
    """Whether two results would go to one file, past links; what is written in place, like /dev/stdout, takes both."""
    return one.parts[:2] != ("/", "dev") and os.path.realpath(one) == os.path.realpath(other)


class Report(NamedTuple):
    """The report of an answer: as lines, and the same as data."""

    lines: list[str]
    data: dict[str, Any]


class Versions(argparse.Action):
    """Prints in one line what a report of an error has to name."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        parts = [f"{name} {version(name)}" for name in ("torch", "transformers")]
        python = f"Python {platform.python_version()}"
        print(f"spectra-decoding {VERSION}", *parts, python, platform.platform(), sep=", ", flush=True)
        parser.exit()


def build_parser() -> Parser:
    """Of `python -m spectra`."""
    parser = Parser(prog="python -m spectra", description="Training-free speculative decoding with exact output.")
    parser.add_argument("--version", nargs=0, action=Versions, help="print what is installed, for reports of errors")
    commands = parser.add_subparsers(dest="command", required=True, metavar="{generate,race,methods}")
    summaries = {
        "methods": "list the presets",
        "race": "record plain decoding and a method on one prompt, for the page to replay",
        "generate": "answer a prompt and report how fast it went",
    }
    made = {name: commands.add_parser(name, help=summary, description=summary) for name, summary in summaries.items()}
    add_race_options(made["race"])
    add_options(made["generate"], GenerateOptions, HELP, positional=("prompt",))
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code."""

    def go() -> int:
        chosen = build_parser().parse_args(arguments)  # --version writes
        if chosen.command == "generate":
            return run_generate(read_options(GenerateOptions, chosen))
        if chosen.command == "race":
            return run_race(read_options(RaceOptions, chosen))
        for name, preset in METHODS.items():
            print(f"{name}  {preset.summary}")
        return 0

    return exit_code("spectra", go)


def run_generate(options: GenerateOptions) -> int:
    """The subcommand `generate`."""
    for name, path in (("trace", options.trace), ("json", options.json)):
        if path is not None:
            check_writable(path, name)
    model = options.model.load()

    def start(method: str, resources: Resources, tokens: int = options.max_new_tokens) -> Recording:
        return record(
            model.target, resources, options.prompt, method,
            sampling=options.sampling, max_new_tokens=tokens, raw=options.raw, explain=options.explain,
            settings=options.settings if method != PLAIN else None,
        )  # fmt: skip

    warm_up = start(options.method, model.resources.rehearsing(), min(WARM_UP, options.max_new_tokens))
    finish(warm_up)  # first calls allocate and choose kernels
    options.model.tell_unasked(options.method, options.settings)
    tell_unused(options)
    answer = start(options.method, model.resources)
    for _, pieces in answer:
        print("".join(text for _, text in pieces), end="", flush=True)
    print()
    plain = finish(start(PLAIN, model.resources)) if options.baseline else None
    report = report_of(answer, plain)
    print("\n".join(report.lines), file=sys.stderr)
    if options.trace:
        write_text(options.trace, answer.trace.to_json() + "\n", "trace")
    if options.json:
        write_text(options.json, json.dumps(report.data, indent=1) + "\n", "json")
    return 0


def tell_unused(options: GenerateOptions) -> None:
    """A line each for options that change nothing beside the others."""
    if options.explain and options.trace is None:
        log.warning("--explain tells the trace more, and none is written: add --trace PATH, or leave it out")
    sampling, usual = options.sampling, Sampling()
    drawing = [one for one in DRAWING if getattr(sampling, one) != getattr(usual, one)]
    if sampling.greedy and drawing:
        names = ", ".join(f"--{name.replace('_', '-')}" for name in drawing)
        log.warning(f"temperature 0 is greedy: {names} change nothing; set --temperature, or leave them out")


def finish(answer: Recording) -> Recording:
    """Decode to the end."""
    for _ in answer:
        pass
    return answer


def report_of(answer: Recording, plain: Recording | None) -> Report:
    """plain: the same prompt decoded plainly, to compare with."""
    ours = summarize(answer.trace.steps)
    drawn = answer.trace.settings["drawn"]
    facts = answer.trace.environment
    lines = [
        f"{answer.trace.model}, {facts['dtype']}, {facts['numerics']} numerics, {facts['processor']}",
        f"{answer.trace.method}: {describe(ours)}",
    ]
    data: dict[str, Any] = {"method": answer.trace.method, "environment": facts, "settings": answer.trace.settings}
    data["answer"] = ours.to_dict()
    for source, share in sorted(ours.share.items(), key=lambda row: -row[1]):
        rate = f", {ours.of_guessed[source]:.0%} of guesses accepted" if source in ours.of_guessed else ""
        lines.append(f"  {source}: {share:.0%} of tokens{rate}")
    if plain is not None:
        base = summarize(plain.trace.steps)
        difference = first_difference(plain.trace.tokens, answer.trace.tokens)
        lines += [
            f"{PLAIN}: {describe(base)}",
            f"speedup: {speedup(base, ours):.2f} (Mic-TP), {speedup(base, ours, macro=True):.2f} (Mac-TP)",
            verdict(difference, drawn=drawn),
        ]
        data |= {"baseline": base.to_dict(), "speedup": speedup(base, ours)}
        data["identical"] = None if drawn else difference is None
    return Report(lines, data)


def verdict(difference: int | None, *, drawn: bool) -> str:
    """The last line. drawn: the method draws a text of its own."""
    if drawn:
        return "identical: not to be expected, this method draws another text of the same distribution"
    return "identical: yes" if difference is None else f"identical: no, token {difference + 1}"


def describe(figures: Summary) -> str:
    """The figures of an answer in one line: tokens/s, tau, tokens, passes, seconds, distinct 4-grams."""
    return (
        f"{figures.micro:.1f} tokens/s, tau {figures.tau:.2f}, {figures.tokens} tokens in {figures.passes} passes, "
        f"{figures.seconds:.2f} s, distinct 4-grams {figures.distinct4:.0%}"
    )
