"""`python -m spectra.train`: a small draft model for a target, distilled from what the target wrote.

Bad input ends with exit code 2 and one line on stderr; a stopped command goes on where it was when it is repeated.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

from spectra.cli import Parser, command_line, exit_code, number
from spectra.datastore.sources import read_hashes
from spectra.settings import check_number
from spectra.train.settings import TrainSettings

PROGRAM = "python -m spectra.train"
HELP = {
    "layers": "layers of the draft model",
    "hidden": "its width",
    "heads": "its attention heads",
    "intermediate": "width of its MLP",
    "steps": "updates",
    "batch": "tokens a step",
    "length": "longest conversation in tokens",
    "frequent": "most frequent tokens that are always candidates",
    "negatives": "random candidates",
    "general": "share of the steps in which general text fades out",
    "decay": "last share of the steps, in which learning rates fall",
    "finish": "last share of the steps, with every token a candidate",
    "matrix_rate": "learning rate of the layers' matrices",
    "vector_rate": "learning rate of embeddings and norms",
    "teacher_tokens": "answer tokens at which the target's probabilities are learned",
    "top": "how many of its likeliest tokens are kept there",
    "solved": "weight of positions that the first model gets right",
    "held": "share of the prompts that is held back",
    "seed": "of weights and order",
}


def build_parser() -> Parser:
    parser = Parser(prog=PROGRAM, description="Train a small draft model for a target.")
    parser.add_argument(
        "--data", nargs="+", type=Path, required=True, metavar="FILE", help="jsonl of the target's answers"
    )
    parser.add_argument(
        "--general-data", nargs="+", type=Path, default=[], metavar="FILE", help="jsonl of other answers, read first"
    )
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="the draft model's folder")
    parser.add_argument("--boost", type=Path, metavar="FOLDER", help="a draft model whose misses are to be learned")
    parser.add_argument("--teacher", type=Path, metavar="FOLDER", help="where the target's probabilities are kept")
    parser.add_argument(
        "--exclude", type=Path, metavar="FILE", help="sha256 of prompts whose answers are left out, one a line"
    )
    parser.add_argument(
        "--evaluate", type=number(int), default=24_000, help="held-back tokens to measure on (default: 24000)"
    )
    for one in fields(TrainSettings):
        kind: type[int] | type[float] = float if isinstance(one.default, float) else int
        option = f"--{one.name.replace('_', '-')}"
        parser.add_argument(option, type=number(kind), default=one.default, help=f"{HELP[one.name]} ({one.default})")
    parser.add_argument(
        "--model", help="the target: a hub id or a folder (default: the embedded SmolLM2-135M-Instruct)"
    )
    parser.add_argument("--device", help="cpu, cuda, cuda:1, ... (default: a GPU where there is one)")
    parser.add_argument("--dtype", default="auto", help="the target's: auto, bf16, fp16 or fp32")
    return parser


def run_train(chosen: argparse.Namespace, command: str) -> int:
    settings = TrainSettings.from_dict(vars(chosen))
    check_number("evaluate", chosen.evaluate, 1, 2**31, whole=True)
    from spectra.datastore.commands import quiet
    from spectra.target.load import load_network
    from spectra.train.run import Run, describe

    quiet()
    run = Run(
        chosen.out,
        chosen.data,
        chosen.general_data,
        settings,
        lambda: load_network(chosen.model, device=chosen.device, dtype=chosen.dtype),
        command,
        chosen.boost,
        chosen.teacher,
        read_hashes(chosen.exclude) if chosen.exclude else frozenset(),
        chosen.evaluate,
    )
    print(describe(run()))
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    chosen = build_parser().parse_args(given)
    return exit_code("spectra.train", lambda: run_train(chosen, command_line(PROGRAM, given)), resumes=True)


if __name__ == "__main__":
    sys.exit(main())
