"""`python -m spectra.datastore`: build, look at, check and extend datastores, and have the model write their text.

Bad input ends with exit code 2 and one line on stderr; a stopped command goes on where it was when it is repeated.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from spectra.cli import Parser, command_line, exit_code, number
from spectra.datastore.commands import run_add, run_build, run_inspect, run_query, run_selftext, run_speed, run_verify
from spectra.datastore.hub import RECIPES
from spectra.datastore.settings import KEEP, BuildSettings

PROGRAM = "python -m spectra.datastore"
PLACES = "jsonl or txt (also .gz, .xz), parquet, a folder of Python sources, stdlib, hf:NAME[:SPLIT[:PART]]"


def build_parser() -> Parser:
    parser = Parser(prog=PROGRAM, description="Datastores for SPECTRA-RETRIEVAL.")
    names = "{build,recipe,add,inspect,query,verify,speed,selftext}"
    commands = parser.add_subparsers(dest="command", required=True, metavar=names)
    build = commands.add_parser("build", help="a corpus to a datastore")
    build.add_argument("--corpus", nargs="+", required=True, metavar="PLACE", help=PLACES)
    recipe = commands.add_parser("recipe", help="one of the paper's stores, where the hub can be reached")
    recipe.add_argument("name", choices=sorted(RECIPES))
    for one in (build, recipe):
        one.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="the store's folder")
        one.add_argument("--licence", default="not stated", metavar="TEXT", help="of the corpus, for the card")
        _add_sizes(one, str(KEEP))
        _add_settings(one)
        _add_reading(one)
    add = commands.add_parser("add", help="merge new text into a store; only the new text is scored")
    add.add_argument("store", type=Path, metavar="STORE")
    add.add_argument("--corpus", nargs="+", required=True, metavar="PLACE", help=PLACES)
    place = add.add_mutually_exclusive_group(required=True)
    place.add_argument("--out", type=Path, metavar="FOLDER", help="a new store")
    place.add_argument("--in-place", action="store_true", help="replace the store when the new one is finished")
    add.add_argument("--licence", metavar="TEXT", help="of the whole corpus (default: the store's)")
    _add_sizes(add, "as the store was built, old and new text together")
    _add_reading(add)
    inspect = commands.add_parser("inspect", help="what a store was made of")
    inspect.add_argument("store", type=Path, metavar="STORE")
    inspect.add_argument("--json", action="store_true", help="the card as it is")
    query = commands.add_parser("query", help="what a store knows to follow a text")
    query.add_argument("store", type=Path, metavar="STORE")
    query.add_argument("text", metavar="TEXT")
    query.add_argument("--top", type=number(int), default=8, help="continuations (default: 8)")
    verify = commands.add_parser("verify", help="check every byte; exit code 1 with what is wrong")
    verify.add_argument("store", type=Path, metavar="STORE")
    speed = commands.add_parser("speed", help="time to open and to answer, and memory")
    speed.add_argument("store", type=Path, metavar="STORE")
    speed.add_argument("--queries", type=number(int), default=5000, help="random places of the corpus (default: 5000)")
    for one in (query, verify):
        _add_model(one)
    _add_selftext(commands.add_parser("selftext", help="the model's own answers to prompts, as jsonl"))
    return parser


def _add_model(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model", help="a hub id or a folder (default: the embedded SmolLM2-135M-Instruct)")


def _add_network(parser: argparse.ArgumentParser) -> None:
    _add_model(parser)
    parser.add_argument("--device", help="cpu, cuda, cuda:1, ... (default: a GPU where there is one)")
    parser.add_argument("--dtype", default="auto", help="auto, bf16, fp16 or fp32")


def _add_reading(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--where", action="append", default=[], metavar="FIELD=VALUE,...", help="rows to take")
    parser.add_argument(
        "--exclude", type=Path, metavar="FILE", help="sha256 of prompts whose answers are left out, one a line"
    )
    parser.add_argument("--skip-bad", action="store_true", help="count malformed rows instead of stopping")
    parser.add_argument("--force", action="store_true", help="replace a store, drop unfinished work of other settings")
    _add_network(parser)


def _add_sizes(parser: argparse.ArgumentParser, default: str) -> None:
    parser.add_argument("--keep", type=number(int), help=f"texts of lowest perplexity (default: {default})")
    parser.add_argument("--keep-tokens", type=number(int), help="tokens of lowest perplexity")
    parser.add_argument("--score-tokens", type=number(int), help="score a random sample of that size, not everything")


def _add_settings(parser: argparse.ArgumentParser) -> None:
    base = BuildSettings()
    parser.add_argument("--no-refine", action="store_true", help="a random sample instead; nothing is scored")
    parser.add_argument(
        "--twin-of", type=Path, metavar="STORE", help="a random sample with the settings and tokens of that store"
    )
    parser.add_argument("--window", type=number(int), default=base.window, help="longest text, in tokens")
    parser.add_argument("--min-tokens", type=number(int), default=base.min_tokens, help="shortest text")
    parser.add_argument(
        "--min-distinct", type=number(float), default=base.min_distinct, help="least share of distinct 4-grams"
    )
    parser.add_argument("--header", default=base.header, help="what opens every text: answer (default) or none")
    parser.add_argument("--order", type=number(int), default=base.order, help="longest context of the index")
    parser.add_argument("--successors", type=number(int), default=base.successors, help="kept for each context")
    parser.add_argument("--batch-tokens", type=number(int), default=base.batch_tokens, help="scored at once")
    parser.add_argument("--seed", type=number(int), default=base.seed)


def _add_selftext(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--prompts", type=Path, required=True, metavar="FILE", help="jsonl rows with a user field")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="jsonl to write or to go on with")
    parser.add_argument("--max-new-tokens", type=number(int), default=256)
    parser.add_argument(
        "--temperatures", type=numbers, default=(0.0, 0.7), help="each prompt is answered at each (default: 0,0.7)"
    )
    parser.add_argument("--batch", type=number(int), default=8, help="prompts answered together")
    parser.add_argument("--seed", type=number(int), default=0)
    _add_network(parser)


def numbers(text: str) -> tuple[float, ...]:
    """Numbers between commas."""
    return tuple(number(float)(one) for one in text.split(","))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code (2 with one line for bad input)."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    chosen = build_parser().parse_args(given)
    readers = {
        "inspect": run_inspect,
        "query": run_query,
        "verify": run_verify,
        "speed": run_speed,
        "selftext": run_selftext,
    }

    def go() -> int:
        if chosen.command in readers:
            return readers[chosen.command](chosen)
        run = run_add if chosen.command == "add" else run_build
        return run(chosen, command_line(PROGRAM, given))

    return exit_code("spectra.datastore", go, resumes=True)


if __name__ == "__main__":
    sys.exit(main())
