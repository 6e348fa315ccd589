"""The command line: `generate` answers a prompt and reports, `race` records one, `methods` lists the presets.

The answer goes to stdout, everything else to stderr. Bad input ends with exit code 2 and one line on stderr.
"""

import argparse
import json
import math
import os
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from spectra.errors import SpectraError
from spectra.methods import METHODS
from spectra.metrics import Summary, first_difference, speedup, summarize
from spectra.race import add_arguments as add_race_arguments
from spectra.race import run_race, wanted
from spectra.record import Recording
from spectra.settings import Limits, Sampling, check_number
from spectra.trace import check_writable, write_text


class Parser(argparse.ArgumentParser):
    """argparse without the usage block: one line, exit code 2."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {' '.join(message.split())}\n")


def number(kind: type[int] | type[float]) -> Callable[[str], Any]:
    """An argparse type whose error says what to give."""

    def parse(text: str) -> Any:
        try:
            value = kind(text)
            if kind is int or math.isfinite(value):
                return value
        except ValueError:
            pass
        raise argparse.ArgumentTypeError(f"{text!r} is not a number; give a {'whole ' if kind is int else ''}number")

    return parse


def build_parser() -> Parser:
    parser = Parser(prog="python -m spectra", description="Training-free speculative decoding with exact output.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="{generate,race,methods}")
    commands.add_parser("methods", help="list the presets")
    race = commands.add_parser("race", help="record plain decoding and a method on one prompt, for the page to replay")
    add_race_arguments(race)
    add_model_arguments(race)
    one = commands.add_parser("generate", help="answer a prompt and report how fast it went")
    one.add_argument("prompt", metavar="PROMPT")
    one.add_argument("--method", default="spectra", help="a preset (default: spectra; see `methods`)")
    add_model_arguments(one)
    one.add_argument("--max-new-tokens", type=number(int), default=256)
    one.add_argument("--nodes", type=number(int), help="the most guessed tokens a step")
    one.add_argument("--temperature", type=number(float), default=0.0, help="0 is greedy (default)")
    one.add_argument("--top-k", type=number(int), default=0)
    one.add_argument("--top-p", type=number(float), default=1.0)
    one.add_argument("--min-p", type=number(float), default=0.0)
    one.add_argument("--repetition-penalty", type=number(float), default=1.0)
    one.add_argument("--seed", type=number(int), default=0)
    one.add_argument("--baseline", action="store_true", help="decode plainly too and compare")
    one.add_argument("--raw", action="store_true", help="continue the text as it is, without the chat template")
    one.add_argument("--trace", type=Path, metavar="FILE", help="write every step as JSON")
    one.add_argument("--json", type=Path, metavar="FILE", help="write the report as JSON")
    return parser


def add_model_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments every command that loads a model shares."""
    parser.add_argument("--model", help="a hub id or a folder (default: the embedded SmolLM2-135M-Instruct)")
    parser.add_argument("--device", help="cpu, cuda, cuda:1, ... (default: a GPU where there is one)")
    parser.add_argument("--dtype", default="auto", help="auto, bf16, fp16 or fp32")
    parser.add_argument("--numerics", default="auto", help="auto, exact or fast")
    parser.add_argument("--step", default="auto", help="auto, eager, or on a GPU graphs or flash")
    parser.add_argument(
        "--datastore",
        action="append",
        default=[],
        metavar="PATH",
        help="retrieve from this store (may be repeated; default: the ones that come with the project and fit)",
    )
    parser.add_argument(
        "--draft",
        action="append",
        default=[],
        metavar="PATH",
        help="a draft model with the same tokenizer (may be repeated; default: the ones that come with the project)",
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code."""
    chosen = build_parser().parse_args(arguments)

    def go() -> int:
        if chosen.command == "methods":
            for name, preset in METHODS.items():
                print(f"{name}  {preset.summary}")
            return 0
        if chosen.command == "race":
            wanted(chosen)  # what is wrong is found before a model is loaded
            print("\n".join(run_race(chosen, quiet_target(chosen))), file=sys.stderr)
            return 0
        return run_generate(chosen)

    return exit_code("spectra", go)


def exit_code(program: str, go: Callable[[], int], *, resumes: bool = False) -> int:
    """What `go` returns; 2 and one line on stderr for bad input, 130 when it is stopped, 141 when nobody reads on.

    resumes: the same command, given again, goes on where it was.
    """
    try:
        code = go()
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for what is still in the buffer
        return 141
    except SpectraError as error:
        print(f"{program}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"\n{program}: stopped{'; the same command goes on from here' if resumes else ''}", file=sys.stderr)
        return 130


def command_line(program: str, arguments: Sequence[str]) -> str:
    """The command as it can be typed again; of absolute paths only the last part."""
    return f"{program} {shlex.join(Path(one).name if one.startswith('/') else one for one in arguments)}"


def run_generate(chosen: argparse.Namespace) -> int:
    sampling = Sampling(
        chosen.temperature, chosen.top_k, chosen.top_p, chosen.min_p, chosen.repetition_penalty, chosen.seed
    )
    check_early(chosen)
    target = quiet_target(chosen)

    def start(method: str, tokens: int = chosen.max_new_tokens) -> Recording:
        return Recording(
            target, chosen.prompt, method,
            sampling=sampling, max_new_tokens=tokens, nodes=chosen.nodes, raw=chosen.raw,
        )  # fmt: skip

    finish(start(chosen.method, min(8, chosen.max_new_tokens)))  # warm-up: first calls allocate and choose kernels
    answer = start(chosen.method)
    for _, pieces in answer:
        print("".join(text for _, text in pieces), end="", flush=True)
    print()
    plain = finish(start("autoregressive")) if chosen.baseline else None
    lines, report = report_of(answer, plain)
    print("\n".join(lines), file=sys.stderr)
    if chosen.trace:
        write_text(chosen.trace, answer.trace.to_json() + "\n", "trace")
    if chosen.json:
        write_text(chosen.json, json.dumps(report, indent=1) + "\n", "json")
    return 0


def check_early(chosen: argparse.Namespace) -> None:
    """Find what is wrong before a model is loaded."""
    if not chosen.prompt.strip():
        raise SpectraError("prompt", "it is blank; write something")
    if chosen.method not in METHODS:
        raise SpectraError("method", f"{chosen.method!r} is unknown; choose one of {', '.join(METHODS)}")
    Limits(chosen.max_new_tokens)
    if chosen.nodes is not None:
        check_number("nodes", chosen.nodes, 1, 1024, whole=True)
    for field in ("trace", "json"):
        path = getattr(chosen, field)
        if path is not None:
            check_writable(path, field)


def quiet_target(chosen: argparse.Namespace) -> Any:
    """Load the model without transformers' progress bars and notices: stderr is for our lines."""
    from transformers.utils import logging

    from spectra.target.load import load_target

    logging.disable_progress_bar()
    logging.set_verbosity_error()
    return load_target(
        chosen.model,
        device=chosen.device,
        dtype=chosen.dtype,
        numerics=chosen.numerics,
        step=chosen.step,
        datastores=chosen.datastore,
        drafts=chosen.draft,
    )


def finish(answer: Recording) -> Recording:
    """Decode to the end."""
    for _ in answer:
        pass
    return answer


def report_of(answer: Recording, plain: Recording | None) -> tuple[list[str], dict[str, Any]]:
    """(lines for people, the same as data)."""
    ours, drawn = summarize(answer.trace.steps), answer.trace.settings["drawn"]
    facts = answer.trace.environment
    lines = [
        f"{answer.trace.model}, {facts['dtype']}, {facts['numerics']} numerics, {facts['processor']}",
        f"{answer.trace.method}: {describe(ours)}",
    ]
    report: dict[str, Any] = {"method": answer.trace.method, "environment": facts, "settings": answer.trace.settings}
    report["answer"] = ours.to_dict()
    for source, share in sorted(ours.share.items(), key=lambda row: -row[1]):
        rate = f", {ours.acceptance[source]:.0%} of offers accepted" if source in ours.acceptance else ""
        lines.append(f"  {source}: {share:.0%} of tokens{rate}")
    if plain is not None:
        base = summarize(plain.trace.steps)
        difference = first_difference(plain.trace.tokens, answer.trace.tokens)
        lines += [
            f"autoregressive: {describe(base)}",
            f"speedup: {speedup(base, ours):.2f} (Mic-TP), {speedup(base, ours, macro=True):.2f} (Mac-TP)",
            verdict(difference, drawn=drawn),
        ]
        report |= {"baseline": base.to_dict(), "speedup": speedup(base, ours)}
        report["identical"] = None if drawn else difference is None
    return lines, report


def verdict(difference: int | None, *, drawn: bool) -> str:
    """The last line. drawn: the method draws a text of its own."""
    if drawn:
        return "identical: not to be expected, this method draws another text of the same distribution"
    return "identical: yes" if difference is None else f"identical: no, token {difference + 1}"


def describe(figures: Summary) -> str:
    return (
        f"{figures.micro:.1f} tokens/s, tau {figures.tau:.2f}, {figures.tokens} tokens in {figures.passes} passes, "
        f"{figures.seconds:.2f} s, distinct 4-grams {figures.distinct4:.0%}"
    )
