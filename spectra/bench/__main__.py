"""`python -m spectra.bench`: `run` times methods, `report` merges runs, `sweep` varies a setting, `exactness` counts
outputs that equal plain decoding's, `halves` those that half precision changes, `rouge` scores sampled summaries,
`acceptance` judges draft models by rule, `latency` and `profile` look into a step, `record` and `replay` do without a
model, `serve` and `soak` measure vLLM servers, `prompts` prints the prompts' hashes.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from spectra.bench.acceptance.command import add_acceptance_arguments, run_acceptance
from spectra.bench.costs import add_cost_argument
from spectra.bench.exactness import run_exactness
from spectra.bench.halves import run_halves
from spectra.bench.hashes import run_prompts
from spectra.bench.latency import add_arguments as latency_arguments
from spectra.bench.latency import run_latency
from spectra.bench.merge import run_report
from spectra.bench.profile import add_arguments as profile_arguments
from spectra.bench.profile import run_profile
from spectra.bench.recordings import add_replay_arguments as replay_arguments
from spectra.bench.recordings import run_record, run_replay
from spectra.bench.rouge import run_rouge
from spectra.bench.run import run_timing
from spectra.bench.served.command import add_serve_arguments, add_server_arguments, run_serve
from spectra.bench.served.soak import add_soak_arguments, run_soak
from spectra.bench.sweep import RANGES, run_sweep, settings_by_method
from spectra.bench.toy import run_toy
from spectra.bench.values import names
from spectra.cli import Parser, add_model_arguments, exit_code, number

RESUMED = ("run", "sweep", "exactness", "acceptance", "rouge", "halves", "serve")
"""Commands that write a row as soon as it is known and go on after it."""
PRESETS, TEMPERATURES = "presets, with commas between them", "numbers with commas between them; 0 is greedy"


class Defaults(argparse.HelpFormatter):
    """Help that says every option's default."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        default = action.default
        if default in (None, [], argparse.SUPPRESS) or isinstance(default, bool) or "default" in (action.help or ""):
            return action.help
        return f"{action.help} (default: {','.join(default) if isinstance(default, list) else default})"


def build_parser() -> Parser:
    parser = Parser(prog="python -m spectra.bench", description="Benchmarks of speculative decoding, as commands.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    run = commands.add_parser("run", help="time methods on the same prompts, in turn")
    run.set_defaults(go=run_timing)
    timed = ["spectra-core", "hf-generate", "hf-prompt-lookup"]
    run.add_argument("--methods", type=names, default=timed, help="presets and hf-..., with commas between them")
    run.add_argument("--repeats", type=number(int), default=1, help="how often each method answers a prompt")
    run.add_argument("--assistant", metavar="PATH", help="the draft model of hf-assisted")
    add_cost_argument(run)
    sweep = commands.add_parser("sweep", help="vary one setting of a method")
    sweep.set_defaults(go=run_sweep)
    sweep.add_argument("--method", default="spectra-paper-core", help="a preset")
    sweep.add_argument("--vary", required=True, choices=list(RANGES), help=settings_by_method())
    sweep.add_argument("--values", type=names, required=True, help="numbers with commas between them")
    exact = commands.add_parser("exactness", help="count outputs identical to plain decoding")
    exact.set_defaults(go=run_exactness)
    exact.add_argument("--methods", type=names, default=["spectra-core"], help=PRESETS)
    exact.add_argument("--temperatures", type=names, default=["0", "0.8"], help=TEMPERATURES)
    accepted = commands.add_parser("acceptance", help="how often draft models' tokens would be accepted, by rule")
    accepted.set_defaults(go=run_acceptance)
    add_acceptance_arguments(accepted)
    rouge = commands.add_parser("rouge", help="score summaries of methods against the published ones")
    rouge.set_defaults(go=run_rouge)
    rouge.add_argument("--methods", type=names, default=["spectra"], help=PRESETS)
    rouge.add_argument("--temperatures", type=names, default=["0", "1"], help=TEMPERATURES)
    halves = commands.add_parser("halves", help="count answers that half precision changes")
    halves.add_argument("--method", default="spectra", help="a preset (default: spectra)")
    record = commands.add_parser("record", help="write down plain answers for `replay`")
    record.set_defaults(go=run_record)
    profile = commands.add_parser("profile", help="share of a step by part")
    profile.set_defaults(go=run_profile)
    profile_arguments(profile)
    for one in (run, sweep, profile):
        one.add_argument("--temperature", type=number(float), default=0.0, help="0 is greedy")
        one.add_argument("--nodes", type=number(int), help="the most guessed tokens a step (default: the method's)")
    for one in (run, sweep, profile, rouge):
        one.add_argument("--top-p", type=number(float), default=1.0, help="draw from the likeliest, this much in sum")
    for one in (profile, record, run, sweep, exact, accepted, rouge, halves):
        add_model_arguments(one)
        one.add_argument("--max-new-tokens", type=number(int), default=256, help="where an answer is cut")
        if one is not halves:  # it answers greedily only
            one.add_argument("--seed", type=number(int), default=0, help="of the draws above temperature 0")
    halves.set_defaults(go=run_halves, dtype="bf16")
    for one in (record, run, sweep, exact, accepted, rouge, halves):
        one.add_argument("--tasks", type=names, help="commas between them (default: every one whose files are there)")
        one.add_argument(
            "--data", type=Path, required=True, metavar="DIR", help="folder with the published task files, or hub"
        )
        one.add_argument("--limit", type=number(int), help="prompts a task (default: all)")
        kind, what = ("FILE", "the recording") if one is record else ("DIR", "rows and tables; a stopped run goes on")
        one.add_argument("--out", type=Path, required=True, metavar=kind, help=what)
    replay = commands.add_parser("replay", help="run drafters on recorded answers and predict the speedup")
    replay.set_defaults(go=run_replay)
    replay_arguments(replay)
    latency = commands.add_parser("latency", help="T(q) by context length")
    latency.set_defaults(go=run_latency)
    add_model_arguments(latency)
    latency_arguments(latency)
    serve = commands.add_parser("serve", help="concurrent clients against vLLM servers, with SPECTRA and without")
    serve.set_defaults(go=run_serve)
    add_serve_arguments(serve)
    soak = commands.add_parser("soak", help="many requests against vLLM with SPECTRA, and what memory does")
    soak.set_defaults(go=run_soak)
    add_soak_arguments(soak)
    for one in (serve, soak):
        add_server_arguments(one)
    report = commands.add_parser("report", help="tables over the rows of one or more runs")
    report.set_defaults(go=run_report)
    report.add_argument("folders", nargs="+", type=Path, metavar="DIR", help="folders that `run` has written")
    report.add_argument("--out", type=Path, metavar="FILE", help="write the tables as Markdown")
    report.add_argument("--charts", type=Path, metavar="DIR", help="write the figures")
    prompts = commands.add_parser("prompts", help="sha256 of every prompt in lower case with single spaces")
    prompts.set_defaults(go=run_prompts)
    prompts.add_argument("--data", type=Path, required=True, metavar="DIR", help="folder with the published task files")
    toy = commands.add_parser("toy", help="acceptance of two drafts by rule, on made-up distributions (SpecHub)")
    toy.set_defaults(go=run_toy)
    toy.add_argument("--pairs", type=number(int), default=100, help="pairs of distributions")
    toy.add_argument("--seed", type=number(int), default=0, help="of the pairs")
    toy.add_argument("--out", type=Path, metavar="DIR", help="write toy.md there")
    for one in commands.choices.values():
        one.formatter_class = Defaults
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a benchmark; returns the exit code (2 with one line for bad input)."""
    chosen = build_parser().parse_args(arguments)
    return exit_code("spectra.bench", lambda: chosen.go(chosen), resumes=chosen.command in RESUMED)


if __name__ == "__main__":
    sys.exit(main())
