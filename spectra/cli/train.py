"""`python -m spectra.train`: a small draft model for a target, distilled from what the target wrote.

Bad input ends with exit code 2 and one line on stderr; a stopped command goes on where it was when it is repeated.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path

from spectra.cli.arguments import Network, Parser, add_network, exit_code, number, read_options
from spectra.datastore.sources import read_hashes
from spectra.io.command_line import command_line
from spectra.settings import check_number
from spectra.target.notices import quiet_transformers
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


@dataclass(frozen=True, slots=True)
class Train:
    """The command with its arguments."""

    data: list[Path]
    general_data: list[Path]
    out: Path
    boost: Path | None
    teacher: Path | None
    exclude: Path | None
    evaluate: int
    settings: TrainSettings
    network: Network
    command_line: str

    def run(self) -> int:
        check_number("evaluate", self.evaluate, 1, 2**31, whole=True)
        from spectra.train.run import Run, describe

        quiet_transformers()
        run = Run(
            self.out,
            self.data,
            self.general_data,
            self.settings,
            self.network.load,
            self.command_line,
            first=self.boost,
            teacher=self.teacher,
            exclude=read_hashes(self.exclude) if self.exclude else frozenset(),
            evaluate=self.evaluate,
        )
        print(describe(run()))
        return 0


def build_parser() -> Parser:
    """Of `python -m spectra.train`."""
    parser = Parser(prog=PROGRAM, description="Train a small draft model for a target.")
    parser.add_argument(
        "--data", nargs="+", type=Path, required=True, metavar="FILE", help="jsonl of the target's answers"
    )
    parser.add_argument(
        "--general-data", nargs="+", type=Path, default=[], metavar="FILE", help="jsonl of other answers, read first"
    )
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="the draft model's folder")
    parser.add_argument(
        "--boost",
        type=Path,
        metavar="FOLDER",
        help="first draft model, whose misses the new one learns",
    )
    parser.add_argument("--teacher", type=Path, metavar="FOLDER", help="where the target's probabilities are kept")
    parser.add_argument(
        "--exclude", type=Path, metavar="FILE", help="sha256 of prompts whose answers are left out, one a line"
    )
    parser.add_argument("--evaluate", type=number(int), default=24_000, help="held-back tokens to measure on")
    for one in fields(TrainSettings):
        kind: type[int] | type[float] = float if isinstance(one.default, float) else int
        option = f"--{one.name.replace('_', '-')}"
        parser.add_argument(option, type=number(kind), default=one.default, help=HELP[one.name])
    add_network(parser, what="the target: ", dtype="the target's: ")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    chosen = build_parser().parse_args(given, argparse.Namespace(command_line=command_line(PROGRAM, given)))
    return exit_code("spectra.train", lambda: read_options(Train, chosen).run(), resumes=True)
