"""`python -m spectra.datastore`: build, look at, check and extend datastores, and have the model write their text.

Here is what may be typed; `datastore_commands.py` does it. Bad input ends with exit code 2 and one line on stderr; a
stopped command goes on where it was when it is repeated.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from spectra.cli.arguments import Parser, add_model, add_network, exit_code, number, read_options
from spectra.cli.datastore_commands import Add, Build, Inspect, Query, Recipe, SelfText, Speed, Verify
from spectra.datastore.build.hub import RECIPES
from spectra.datastore.build.settings import KEEP, BuildSettings
from spectra.errors import SpectraError
from spectra.io.command_line import command_line

PROGRAM = "python -m spectra.datastore"
PLACES = "jsonl or txt (also .gz, .xz), parquet, a folder of Python sources, stdlib, hf:NAME[:SPLIT[:PART]]"


class Command(NamedTuple):
    """add_options: gives its parser the options. summary: one-line description."""

    add_options: Callable[[argparse.ArgumentParser], None]
    summary: str


def build_parser() -> Parser:
    """Of `python -m spectra.datastore`."""
    parser = Parser(prog=PROGRAM, description="Datastores for SPECTRA-RETRIEVAL.")
    commands = parser.add_subparsers(dest="command", required=True)
    for name, command in {
        "build": Command(_add_build, "make a datastore out of a corpus"),
        "recipe": Command(_add_recipe, "make a datastore out of a known corpus of the Hugging Face hub"),
        "add": Command(_add_add, "merge new text into a store; only the new text is scored"),
        "inspect": Command(_add_inspect, "print what a store was made of and how large it is"),
        "query": Command(_add_query, "print what a store knows to follow a text"),
        "verify": Command(_add_verify, "check every byte of a store; exit code 1 with what is wrong"),
        "speed": Command(_add_speed, "measure how fast a store opens and answers, and its memory"),
        "selftext": Command(_add_selftext, "write the model's own answers to prompts, as jsonl"),
    }.items():
        command.add_options(commands.add_parser(name, help=command.summary, description=command.summary))
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code (2 with one line for bad input)."""
    given = list(sys.argv[1:] if arguments is None else arguments)

    def go() -> int:
        chosen = build_parser().parse_args(given, argparse.Namespace(command_line=command_line(PROGRAM, given)))
        options: Any = read_options(chosen.options, chosen)
        code: int = options.run()
        return code

    return exit_code("spectra.datastore", go, resumes=True)


def _add_build(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(options=Build)
    parser.add_argument("--corpus", nargs="+", required=True, metavar="PLACE", help=PLACES)
    _add_new_store(parser)


def _add_recipe(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(options=Recipe)
    about = "; ".join(f"{name}: {recipe.about}" for name, recipe in sorted(RECIPES.items()))
    parser.add_argument("name", choices=sorted(RECIPES), help=about)
    _add_new_store(parser)


def _add_add(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(options=Add)
    _add_store(parser)
    parser.add_argument("--corpus", nargs="+", required=True, metavar="PLACE", help=PLACES)
    place = parser.add_mutually_exclusive_group(required=True)
    place.add_argument("--out", type=Path, metavar="FOLDER", help="a new store")
    place.add_argument("--in-place", action="store_true", help="replace the store when the new one is finished")
    parser.add_argument("--licence", metavar="TEXT", help="of the whole corpus (default: the store's)")
    _add_sizes(parser, "as the store was built, old and new text together")
    _add_reading(parser)


def _add_inspect(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(options=Inspect)
    _add_store(parser)
    parser.add_argument("--json", action="store_true", help="the card as it is")


def _add_query(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(options=Query)
    _add_store(parser)
    parser.add_argument("text", metavar="TEXT", help="what comes before")
    parser.add_argument("--top", type=number(int), default=8, help="continuations")
    add_model(parser)


def _add_verify(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(options=Verify)
    _add_store(parser)
    add_model(parser)


def _add_speed(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(options=Speed)
    _add_store(parser)
    parser.add_argument("--queries", type=number(int), default=5000, help="random places of the corpus")


def _add_selftext(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(options=SelfText)
    parser.add_argument(
        "--prompts", type=Path, metavar="FILE", help="jsonl rows with a user field (default: the project's own)"
    )
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="jsonl to write or to go on with")
    parser.add_argument("--max-new-tokens", type=number(int), default=256, help="where an answer is cut")
    parser.add_argument("--temperatures", type=numbers, default=(0.0, 0.7), help="each prompt is answered at each")
    parser.add_argument("--batch", type=number(int), default=8, help="prompts answered together")
    parser.add_argument("--seed", type=number(int), default=0, help="of the draws above temperature 0")
    add_network(parser)


def _add_store(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("store", type=Path, metavar="STORE", help="the folder of a finished datastore")


def _add_new_store(parser: argparse.ArgumentParser) -> None:
    base = BuildSettings()
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="the store's folder")
    parser.add_argument("--licence", default="not stated", metavar="TEXT", help="of the corpus, for the card")
    _add_sizes(parser, str(KEEP))
    parser.add_argument(
        "--no-refine", dest="refine", action="store_false", help="a random sample instead; nothing is scored"
    )
    parser.add_argument(
        "--random-sample-like",
        type=Path,
        metavar="STORE",
        help="an unrefined sample of the same corpus: random texts, with the settings and as many tokens as that store",
    )
    parser.add_argument("--window", type=number(int), default=base.window, help="longest text, in tokens")
    parser.add_argument("--min-tokens", type=number(int), default=base.min_tokens, help="shortest text")
    parser.add_argument(
        "--min-distinct", type=number(float), default=base.min_distinct, help="least share of distinct 4-grams"
    )
    parser.add_argument("--header", default=base.header, help="what opens every text: answer or none")
    parser.add_argument("--order", type=number(int), default=base.order, help="longest context of the index")
    parser.add_argument("--successors", type=number(int), default=base.successors, help="kept for each context")
    parser.add_argument("--batch-tokens", type=number(int), default=base.batch_tokens, help="scored at once")
    parser.add_argument("--seed", type=number(int), default=base.seed, help="of random samples")
    _add_reading(parser)


def _add_sizes(parser: argparse.ArgumentParser, default: str) -> None:
    parser.add_argument("--keep", type=number(int), help=f"texts of lowest perplexity (default: {default})")
    parser.add_argument("--keep-tokens", type=number(int), help="tokens of lowest perplexity")
    parser.add_argument("--score-tokens", type=number(int), help="score a random sample of that size, not everything")


def _add_reading(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--where", action=Where, default={}, metavar="FIELD=VALUE,...", help="rows to take")
    parser.add_argument(
        "--exclude", type=Path, metavar="FILE", help="sha256 of prompts whose answers are left out, one a line"
    )
    parser.add_argument("--skip-bad", action="store_true", help="count malformed rows instead of stopping")
    parser.add_argument("--force", action="store_true", help="replace a store, drop unfinished work of other settings")
    add_network(parser)


class Where(argparse.Action):
    """FIELD=VALUE,... -> field -> values."""

    def __call__(self, parser: Any, chosen: argparse.Namespace, text: Any, option: str | None = None) -> None:
        name, equals, values = text.partition("=")
        if not (name and equals and values):
            raise SpectraError("where", f"{text!r} is not FIELD=VALUE,...; write for example source=gsm8k,chat")
        chosen.where = {**chosen.where, name: tuple(values.split(","))}


def numbers(text: str) -> tuple[float, ...]:
    """Numbers between commas."""
    return tuple(number(float)(one) for one in text.split(","))
