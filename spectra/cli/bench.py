"""`python -m spectra.bench`: benchmarks as commands. Each one's options are a dataclass of its own."""

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from spectra.bench.acceptance.measure import AcceptanceOptions, run_acceptance
from spectra.bench.acceptance.toy import ToyOptions, run_toy
from spectra.bench.batches import BatchOptions, run_batch_sizes
from spectra.bench.divergence import DivergenceOptions, run_divergence
from spectra.bench.exactness import ExactnessOptions, run_exactness
from spectra.bench.figure4 import Figure4Options, run_figure4
from spectra.bench.fit import FitOptions, run_fit
from spectra.bench.gpu.capture import CaptureOptions, run_capture
from spectra.bench.gpu.page import PageOptions, run_page
from spectra.bench.gpu.run import GpuOptions, run_gpu
from spectra.bench.half_precision import HalfPrecisionOptions, run_half_precision
from spectra.bench.paper.run import MODELS, PaperOptions, run_paper
from spectra.bench.replay import RecordOptions, ReplayOptions, run_record, run_replay
from spectra.bench.report.merge import ReportOptions, run_report
from spectra.bench.rouge import RougeOptions, run_rouge
from spectra.bench.served.load import TASKS, ServeOptions, run_serve
from spectra.bench.served.soak import SoakOptions, run_soak
from spectra.bench.steps import LatencyOptions, ProfileOptions, run_latency, run_profile
from spectra.bench.sweep import SweepOptions, run_sweep, settings_by_method
from spectra.bench.tasks import load_prompts, prompt_hashes
from spectra.bench.timing import TimingOptions, run_timing
from spectra.bench.weights import WeightsOptions, run_weights
from spectra.cli.arguments import MODEL_HELP, Parser, add_options, exit_code, read_options

PROGRAM = "spectra.bench"
NAMES = "names with commas between them"
HELP = {
    **MODEL_HELP,
    "assistant": "the draft model of hf-assisted, a folder or a hub id",
    "batch": "prompts that are answered together, numbers with commas between them",
    "charts": "a folder for the figures",
    "clients": "requests at once",
    "concurrency": "numbers of clients, with commas between them",
    "contexts": "tokens in the cache, with commas between them",
    "cost": "plan by another device's T(q): a JSON file, [[queries, seconds], ...]",
    "data": "a folder with the published task files, or hub",
    "flags": "flags of `vllm serve`, in one argument",
    "folders": "folders that `run` has written",
    "in_turns": "the methods of a size answer pass by pass in turns, each on a model of its own",
    "k": "the most guessed tokens a request and step",
    "group": "prompts of one queue, answered --batch at a time (default: the largest batch)",
    "limit": "prompts a task (default: all)",
    "max_new_tokens": "tokens at which an answer is cut",
    "method": "a preset",
    "methods": "presets, with commas between them",
    "nodes": "the most guessed tokens a step (default: the method's)",
    "out": "a folder for rows and tables; a stopped run goes on there",
    "pairs": "pairs of distributions",
    "plain_weights": "as --weights, of the model that decodes plainly, to compare formats (default: the same model)",
    "port": "of the server",
    "prompt": "what is answered",
    "python": "the interpreter that has vLLM",
    "queries": "query tokens of a pass, with commas between them",
    "recording": "a file that `record` has written",
    "repeats": "how often everything is measured",
    "requests": "requests in all",
    "seed": "of the draws above temperature 0",
    "shape": "random weights in this shape instead of a model, for example llama-7b",
    "tasks": f"{NAMES} (default: every one whose files are there)",
    "temperature": "0 is greedy",
    "temperatures": "numbers with commas between them; 0 is greedy",
    "text": "a UTF-8 file that is read (default: some of Python's standard library)",
    "tokens": "the most of the text that are read",
    "top_k": "draw from this many likeliest tokens; 0 is all",
    "top_p": "draw from the likeliest tokens, this much in sum",
    "values": "numbers with commas between them",
    "window": "tokens of a pass",
    "vary": settings_by_method(),
}
"""What each option says of itself; commands where it means something else say so."""


@dataclass(frozen=True, slots=True)
class HashOptions:
    """data: a folder with the published task files, or "hub"."""

    data: Path


def run_prompts(options: HashOptions) -> int:
    """The subcommand `prompts`: hashes, sorted, one a line."""
    print("\n".join(prompt_hashes(load_prompts(None, options.data))))
    return 0


@dataclass(frozen=True, slots=True)
class Command:
    """A subcommand. resumes: it writes a row as soon as it is known and goes on after it. texts: help of its own.

    positional, defaults, hidden: as `add_options` takes them.
    """

    run: Callable[[Any], int]
    options: type
    summary: str
    resumes: bool = False
    texts: Mapping[str, str] = field(default_factory=dict)
    positional: tuple[str, ...] = ()
    defaults: Mapping[str, Any] = field(default_factory=dict)
    hidden: tuple[str, ...] = ()


COMMANDS = {
    "run": Command(
        run_timing, TimingOptions, "time methods on the same prompts, in turn", resumes=True,
        texts={
            "methods": "presets, hf-generate, hf-prompt-lookup, hf-assisted, llama-cpp and llama-cpp-lookup, "
            "with commas between them"
        },
    ),
    "batch": Command(
        run_batch_sizes, BatchOptions, "tokens/s of batches of prompts, and whether each text is the one it is alone",
        resumes=True, texts={"methods": "presets and hf-generate, with commas between them"},
    ),
    "sweep": Command(run_sweep, SweepOptions, "vary one setting of a method", resumes=True),
    "exactness": Command(
        run_exactness, ExactnessOptions, "count outputs identical to plain decoding", resumes=True
    ),
    "half-precision": Command(
        run_half_precision, HalfPrecisionOptions, "count answers that half precision changes", resumes=True,
        texts={"dtype": "bf16 or fp16"}, defaults={"dtype": "bf16"}, hidden=("numerics",),
    ),
    "divergence": Command(
        run_divergence, DivergenceOptions,
        "the first token at which stock generate and its prompt lookup differ, with both logits",
        texts={"dtype": "bf16 or fp16", "out": "the file to write"}, positional=("prompt",),
        defaults={"dtype": "bf16", "weights": "bf16"},
    ),
    "rouge": Command(
        run_rouge, RougeOptions, "score summaries of methods against the published ones", resumes=True,
        texts={"tasks": "cnndm, xsum or both with a comma between them (default: cnndm)"},
    ),
    "acceptance": Command(
        run_acceptance, AcceptanceOptions, "how often draft models' tokens would be accepted, by rule", resumes=True
    ),
    "toy": Command(
        run_toy, ToyOptions, "acceptance of two drafts by rule, on made-up distributions (SpecHub)",
        texts={"seed": "of the pairs", "out": "a folder for toy.md"},
    ),
    "latency": Command(
        run_latency, LatencyOptions, "time of a pass over q query tokens, T(q), by context length",
        texts={"out": "a file for the tables, as Markdown"},
    ),
    "weights": Command(
        run_weights, WeightsOptions, "perplexity and bytes of bf16, of a file's own blocks, of int8 and of q4",
        texts={"out": "a file for the table, as Markdown"},
    ),
    "profile": Command(run_profile, ProfileOptions, "share of a step's time by part"),
    "record": Command(
        run_record, RecordOptions, "write down plain answers for `replay` and `fit`",
        texts={"out": "the recording's file"},
    ),
    "replay": Command(
        run_replay, ReplayOptions, "run drafters on recorded answers and predict the speedup", positional=("recording",)
    ),
    "fit": Command(
        run_fit, FitOptions, "learn from recorded answers how likely guesses are right, and check it",
        texts={
            "recording": "files that `record` has written", "out": "a folder for estimates.json and a report",
            "together": "what the method guesses where so many sequences share a pass",
        },
        positional=("recording",),
    ),
    "serve": Command(
        run_serve, ServeOptions, "concurrent clients against vLLM servers, with SPECTRA and without", resumes=True,
        texts={"methods": "METHOD or METHOD:K, with commas between them; K in the place of --k", "tasks": NAMES},
        defaults={"tasks": TASKS},
    ),
    "soak": Command(
        run_soak, SoakOptions, "many requests against vLLM with SPECTRA, and what its memory does",
        texts={"seed": "of lengths and temperatures", "out": "a folder for the server's log", "tasks": NAMES},
        defaults={"tasks": TASKS},
    ),
    "figure4": Command(
        run_figure4, Figure4Options, "methods with and without flash attention (the paper's Figure 4)", resumes=True,
        texts={"steps": f"ways to take a step, {NAMES}"},
    ),
    "paper": Command(
        run_paper, PaperOptions, "the paper's Tables 1, 2 and 4 of a model, beside its own figures", resumes=True,
        texts={
            "model": f"a hub id, a folder, a GGUF file or one of {', '.join(MODELS)} (default: the embedded model)",
            "tasks": f"{NAMES} (default: mt-bench, gsm8k, humaneval, mbpp and classeval, those that are there)",
            "max_new_tokens": "tokens at which every answer is cut (default: 512 for code, 1024 for others)",
            "figures": "the paper's figures, a JSON file (default: those that are known)",
        },
    ),
    "gpu": Command(
        run_gpu, GpuOptions, "everything that only a GPU can answer, in order of worth", resumes=True,
        texts={
            "data": "a folder with the published task files (default: a few prompts of our own)",
            "parts": f"only parts that begin so, {NAMES}", "minutes": "of all parts together",
            "tiny": "small shapes and short answers, to rehearse", "again": "run parts again that failed",
        },
    ),
    "capture": Command(
        run_capture, CaptureOptions, "what capturing a session's steps as CUDA graphs takes",
        texts={"out": "a file for the table, as Markdown"},
    ),
    "page": Command(
        run_page, PageOptions, "a race through the page, asked for by a client",
        texts={"out": "a file for the table, as Markdown"},
    ),
    "report": Command(
        run_report, ReportOptions, "tables over the rows of one or more runs",
        texts={"out": "a file for the tables, as Markdown"}, positional=("folders",),
    ),
    "prompts": Command(run_prompts, HashOptions, "sha256 of every prompt in lower case with single spaces"),
}  # fmt: skip


def build_parser() -> Parser:
    """Of `python -m spectra.bench`."""
    parser = Parser(prog="python -m spectra.bench", description="Benchmarks of speculative decoding, as commands.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, command in COMMANDS.items():
        one = commands.add_parser(name, help=command.summary, description=command.summary)
        add_options(
            one, command.options, {**HELP, **command.texts},
            positional=command.positional, defaults=command.defaults, hidden=command.hidden,
        )  # fmt: skip
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a benchmark; returns the exit code (2 with one line for bad input)."""

    def go() -> int:
        chosen = build_parser().parse_args(arguments)  # --help writes
        command = COMMANDS[chosen.command]
        return exit_code(PROGRAM, lambda: run_command(command, chosen), resumes=command.resumes)

    return exit_code(PROGRAM, go)


def run_command(command: Command, chosen: argparse.Namespace) -> int:
    """Raises SpectraError for arguments that its options refuse."""
    options: Any = read_options(command.options, chosen)
    return command.run(options)
