"""`python -m spectra.datastore`: build, look at, check and extend datastores, and have the model write their text."""

import argparse
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from spectra.cli import Parser, number
from spectra.datastore.corpus import Corpus
from spectra.datastore.settings import KEEP, BuildSettings
from spectra.errors import SpectraError

PROGRAM = "python -m spectra.datastore"


def build_parser() -> Parser:
    parser = Parser(prog=PROGRAM, description="Datastores for SPECTRA-RETRIEVAL.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="{build}")
    one = commands.add_parser("build", help="a corpus to a datastore")
    add_corpus_arguments(one)
    one.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="the store's folder")
    add_build_arguments(one)
    return parser


def add_corpus_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--corpus", nargs="+", required=True, metavar="PLACE",
        help="jsonl or txt (also .gz, .xz), parquet, a folder of Python sources, stdlib, hf:NAME[:SPLIT[:FOLDER]]",
    )  # fmt: skip
    parser.add_argument("--where", action="append", default=[], metavar="FIELD=VALUE,...", help="rows to take")
    parser.add_argument("--skip-bad", action="store_true", help="count malformed rows instead of stopping")
    parser.add_argument("--licence", default="not stated", metavar="TEXT", help="of the corpus, for the card")
    parser.add_argument("--model", help="a hub id or a folder (default: the embedded SmolLM2-135M-Instruct)")
    parser.add_argument("--device", help="cpu, cuda, cuda:1, ... (default: a GPU where there is one)")
    parser.add_argument("--dtype", default="auto", help="auto, bf16, fp16 or fp32")
    parser.add_argument("--force", action="store_true", help="replace a store, drop unfinished work of other settings")


def add_build_arguments(parser: argparse.ArgumentParser) -> None:
    base = BuildSettings()
    parser.add_argument("--keep", type=number(int), help=f"texts of lowest perplexity (default: {KEEP})")
    parser.add_argument("--keep-tokens", type=number(int), help="tokens of lowest perplexity")
    parser.add_argument("--no-refine", action="store_true", help="a random sample instead; nothing is scored")
    parser.add_argument("--window", type=number(int), default=base.window, help="longest text, in tokens")
    parser.add_argument("--min-tokens", type=number(int), default=base.min_tokens)
    parser.add_argument("--min-distinct", type=number(float), default=base.min_distinct, help="share of 4-grams")
    parser.add_argument("--header", default=base.header, help="answer (default) or none: what comes before every text")
    parser.add_argument("--order", type=number(int), default=base.order, help="longest context of the index")
    parser.add_argument("--successors", type=number(int), default=base.successors, help="kept for each context")
    parser.add_argument("--batch-tokens", type=number(int), default=base.batch_tokens, help="scored at once")
    parser.add_argument("--seed", type=number(int), default=base.seed)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code (2 with one line for bad input)."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    chosen = build_parser().parse_args(given)
    try:
        return run_build(chosen, command_line(given))
    except SpectraError as error:
        print(f"spectra.datastore: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nspectra.datastore: stopped; the same command goes on from here", file=sys.stderr)
        return 130


def command_line(arguments: Sequence[str]) -> str:
    """The command as it can be typed again; of absolute paths only the last part."""
    return f"{PROGRAM} {shlex.join(Path(one).name if one.startswith('/') else one for one in arguments)}"


def run_build(chosen: argparse.Namespace, command: str) -> int:
    from spectra.datastore.build import Order, build

    quiet()
    settings = BuildSettings(
        keep=chosen.keep or (None if chosen.keep_tokens else KEEP),
        keep_tokens=chosen.keep_tokens,
        refine=not chosen.no_refine,
        window=chosen.window,
        min_tokens=chosen.min_tokens,
        min_distinct=chosen.min_distinct,
        where=parse_where(chosen.where),
        skip_bad=chosen.skip_bad,
        header=chosen.header,
        order=chosen.order,
        successors=chosen.successors,
        batch_tokens=chosen.batch_tokens,
        seed=chosen.seed,
    )
    order = Order(
        Corpus(chosen.corpus, settings.where, settings.skip_bad), chosen.out, settings,
        model=chosen.model, device=chosen.device, dtype=chosen.dtype,
        licence=chosen.licence, command=command, force=chosen.force,
    )  # fmt: skip
    card = build(order)
    if card:
        print(f"{chosen.out}: {card['kept']['texts']} of {card['seen']['texts']} texts, {card['bytes']:,} bytes")
    return 0


def quiet() -> None:
    """No progress bars and notices of transformers: stderr is for our lines."""
    from transformers.utils import logging

    logging.disable_progress_bar()
    logging.set_verbosity_error()


def parse_where(conditions: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """FIELD=VALUE,... -> field -> values."""
    where = {}
    for text in conditions:
        name, equals, values = text.partition("=")
        if not (name and equals and values):
            raise SpectraError("where", f"{text!r} is not FIELD=VALUE,...; write for example source=gsm8k,chat")
        where[name] = tuple(values.split(","))
    return where


if __name__ == "__main__":
    sys.exit(main())
