"""`python -m spectra.train`: a small draft model for a target, distilled from what the target wrote.

Bad input ends with exit code 2 and one line on stderr; a stopped command goes on where it was when it is repeated.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from spectra.cli.arguments import MODEL_HELP, Network, Parser, add_options, exit_code, read_options
from spectra.datastore.sources import read_hashes
from spectra.io.command_line import command_line
from spectra.settings import check_number
from spectra.target.notices import quiet_transformers
from spectra.train.files import check_boost, check_jsonl, check_teacher
from spectra.train.settings import TrainSettings

PROGRAM = "python -m spectra.train"
HELP = {
    **MODEL_HELP,
    "model": f"the target: {MODEL_HELP['model']}",
    "dtype": f"the target's: {MODEL_HELP['dtype']}",
    "data": "jsonl of the target's answers",
    "general_data": "jsonl of other answers, read first",
    "out": "the draft model's folder",
    "boost": "first draft model, whose misses the new one learns",
    "teacher": "where the target's probabilities are kept",
    "exclude": "sha256 of prompts whose answers are left out, one a line",
    "evaluate": "held-back tokens to measure on",
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
    out: Path
    settings: TrainSettings
    network: Network
    command_line: str
    general_data: list[Path] = field(default_factory=list)
    boost: Path | None = None
    teacher: Path | None = None
    exclude: Path | None = None
    evaluate: int = 24_000

    def run(self) -> int:
        check_number("evaluate", self.evaluate, 1, 2**31, whole=True)
        exclude = read_hashes(self.exclude) if self.exclude else frozenset()
        check_jsonl("data", self.data)
        check_jsonl("general_data", self.general_data)
        if self.boost is not None:
            check_boost(self.boost)
        if self.teacher is not None:
            check_teacher(self.teacher, self.out)
        from spectra.train.run import TrainingRun, describe  # with torch, which takes seconds

        quiet_transformers()
        run = TrainingRun(
            self.out,
            self.data,
            self.general_data,
            self.settings,
            self.network.load,
            self.command_line,
            model=self.network.model,
            first=self.boost,
            teacher=self.teacher,
            exclude=exclude,
            evaluate=self.evaluate,
        )
        print(describe(run()))
        return 0


def build_parser() -> Parser:
    """Of `python -m spectra.train`."""
    parser = Parser(prog=PROGRAM, description="Train a small draft model for a target.")
    add_options(parser, Train, HELP, without=("command_line",))
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)

    def go() -> int:
        chosen = build_parser().parse_args(given, argparse.Namespace(command_line=command_line(PROGRAM, given)))
        return read_options(Train, chosen).run()

    return exit_code("spectra.train", go, resumes=True)
