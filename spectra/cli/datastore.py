"""`python -m spectra.datastore`: build, look at, check and extend datastores, and have the model write their text.

Here is what may be typed; `datastore_commands.py` does it. Bad input ends with exit code 2 and one line on stderr; a
stopped command goes on where it was when it is repeated.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from spectra.cli.arguments import MODEL_HELP, Parser, add_model, add_options, exit_code, read_options
from spectra.cli.datastore_commands import Add, Build, Inspect, Query, Recipe, SelfText, Speed, Verify
from spectra.datastore.build.hub import RECIPES
from spectra.datastore.build.settings import KEEP
from spectra.errors import SpectraError
from spectra.io.command_line import command_line

PROGRAM = "python -m spectra.datastore"
PLACES = "jsonl or txt (also .gz, .xz), parquet, a folder of Python sources, stdlib, hf:NAME[:SPLIT[:PART]]"


HELP = {
    **MODEL_HELP,
    "batch": "prompts answered together",
    "batch_tokens": "scored at once; other values give other bytes: perplexities move by up to a percent",
    "corpus": PLACES,
    "exclude": "sha256 of prompts whose answers are left out, one a line",
    "force": "replace a store, drop unfinished work of other settings",
    "header": "what opens every text: answer or none",
    "json": "the card as it is",
    "keep": f"texts of lowest perplexity (default: {KEEP})",
    "keep_tokens": "tokens of lowest perplexity",
    "licence": "of the corpus, for the card",
    "max_new_tokens": "where an answer is cut",
    "min_distinct": "least share of distinct 4-grams",
    "min_tokens": "shortest text",
    "name": "; ".join(f"{name}: {recipe.about}" for name, recipe in sorted(RECIPES.items())),
    "order": "longest context of the index",
    "out": "the store's folder",
    "prompts": "jsonl rows with a user field (default: the project's own)",
    "queries": "random places of the corpus",
    "random_sample_like": "an unrefined sample of the same corpus: random texts, with the settings and as many tokens "
    "as that store",
    "refine": "a random sample instead; nothing is scored",
    "score_tokens": "score a random sample of that size, not everything",
    "seed": "of random samples",
    "skip_bad": "count malformed rows instead of stopping",
    "store": "the folder of a finished datastore",
    "successors": "kept for each context",
    "temperatures": "each prompt is answered at each",
    "text": "what comes before",
    "top": "continuations",
    "window": "longest text, in tokens; longer ones become several",
}
"""What each option says of itself; commands where it means something else say so."""
NEW_SIZE = "(default: as the store was built, old and new text together)"


class StoreCommand(NamedTuple):
    """options: what it does, a dataclass. summary: one-line description. texts: help of its own."""

    options: type
    summary: str
    texts: Mapping[str, str] = MappingProxyType({})


COMMANDS = {
    "build": StoreCommand(Build, "make a datastore out of a corpus"),
    "recipe": StoreCommand(Recipe, "make a datastore out of a known corpus of the Hugging Face hub"),
    "add": StoreCommand(
        Add, "merge new text into a store; only the new text is scored",
        {"licence": "of the whole corpus (default: the store's)", "keep": f"texts of lowest perplexity {NEW_SIZE}"},
    ),
    "inspect": StoreCommand(Inspect, "print what a store was made of and how large it is"),
    "query": StoreCommand(Query, "print what a store knows to follow a text"),
    "verify": StoreCommand(Verify, "check every byte of a store; exit code 1 with what is wrong"),
    "speed": StoreCommand(Speed, "measure how fast a store opens and answers, and its memory"),
    "selftext": StoreCommand(
        SelfText, "write the model's own answers to prompts, as jsonl",
        {"out": "jsonl to write or to go on with", "seed": "of the draws above temperature 0"},
    ),
}  # fmt: skip


def build_parser() -> Parser:
    """Of `python -m spectra.datastore`."""
    parser = Parser(prog=PROGRAM, description="Datastores for SPECTRA-RETRIEVAL.")
    commands = parser.add_subparsers(dest="command", required=True)
    for name, command in COMMANDS.items():
        one = commands.add_parser(name, help=command.summary, description=command.summary)
        one.set_defaults(options=command.options)
        apart = {"command_line", "where"}
        if command.options in (Query, Verify):
            add_model(one)
            apart.add("model")
        if command.options is Add:
            place = one.add_mutually_exclusive_group(required=True)
            place.add_argument("--out", type=Path, metavar="PATH", help="a new store")
            place.add_argument("--in-place", action="store_true", help="replace the store when the new one is finished")
            apart |= {"out", "in_place"}
        if command.options in (Build, Recipe, Add):
            one.add_argument("--where", action=Where, default={}, metavar="FIELD=VALUE,...", help="rows to take")
        add_options(
            one, command.options, {**HELP, **command.texts},
            positional=("name", "store", "text"), defaults={"keep": None}, without=apart,
        )  # fmt: skip
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


class Where(argparse.Action):
    """FIELD=VALUE,... -> field -> values."""

    def __call__(self, parser: Any, chosen: argparse.Namespace, text: Any, option: str | None = None) -> None:
        name, equals, values = text.partition("=")
        if not (name and equals and values):
            raise SpectraError("where", f"{text!r} is not FIELD=VALUE,...; write for example source=gsm8k,chat")
        chosen.where = {**chosen.where, name: tuple(values.split(","))}
