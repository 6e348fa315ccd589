"""What each command does, given its parsed arguments; returns the exit code."""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from spectra.datastore.card import check_tokenizer, read_card
from spectra.datastore.check import problems, tokenizer_problems
from spectra.datastore.corpus import Corpus
from spectra.datastore.describe import describe_card
from spectra.datastore.finish import restore
from spectra.datastore.hub import RECIPES
from spectra.datastore.language import Language
from spectra.datastore.progress import bar
from spectra.datastore.query import query
from spectra.datastore.settings import KEEP, BuildSettings
from spectra.datastore.sources import list_sha256, read_hashes
from spectra.datastore.speed import measure
from spectra.datastore.store import Store
from spectra.errors import SpectraError
from spectra.settings import check_number
from spectra.trace import check_writable


def run_build(chosen: argparse.Namespace, command: str) -> int:
    settings = twin_settings(chosen) if chosen.twin_of else settings_of(chosen)
    places = chosen.corpus if chosen.command == "build" else [RECIPES[chosen.name]]
    order = _order(chosen, command, places, chosen.out, settings)
    if chosen.twin_of:
        card = read_card(chosen.twin_of)
        if (order.corpus.facts(), list_sha256(order.corpus.exclude)) != (card["corpus"], card["exclude"]):
            raise SpectraError("corpus", f"it is not what {chosen.twin_of} was made of; give the same files")
    return _build(order)


def run_add(chosen: argparse.Namespace, command: str) -> int:
    """The store's own settings, but for sizes that were given; `where` and `skip_bad` are of the new text."""
    if chosen.in_place:
        restore(chosen.store)
    card = read_card(chosen.store)
    where = {name: list(values) for name, values in parse_where(chosen.where).items()}
    new: dict[str, Any] = {"where": where, "skip_bad": chosen.skip_bad}
    if chosen.keep is not None or chosen.keep_tokens is not None:
        new |= {"keep": chosen.keep, "keep_tokens": chosen.keep_tokens}
    if chosen.score_tokens is not None:
        new["score_tokens"] = chosen.score_tokens
    settings = BuildSettings.from_dict({**card["settings"], **new})
    if chosen.licence is None:
        chosen.licence = card["licence"]
    out = chosen.store if chosen.in_place else chosen.out
    return _build(_order(chosen, command, chosen.corpus, out, settings, base=chosen.store))


def _order(
    chosen: argparse.Namespace,
    command: str,
    places: Sequence[str],
    out: Path,
    settings: BuildSettings,
    base: Path | None = None,
) -> Any:
    from spectra.datastore.build import Order

    exclude = read_hashes(chosen.exclude) if chosen.exclude else frozenset()
    corpus = Corpus(places, settings.where, settings.skip_bad, exclude)
    return Order(
        corpus, out, settings,
        model=chosen.model, device=chosen.device, dtype=chosen.dtype,
        licence=chosen.licence or "not stated", command=command, base=base, force=chosen.force,
    )  # fmt: skip


def _build(order: Any) -> int:
    from spectra.datastore.build import build

    quiet()
    card = build(order)
    if card:
        print(f"{order.out}: {card['kept']['texts']:,} of {card['seen']['texts']:,} texts, {card['bytes']:,} bytes")
    return 0


def run_inspect(chosen: argparse.Namespace) -> int:
    card = read_card(chosen.store)
    print(json.dumps(card, indent=1) if chosen.json else "\n".join(describe_card(card)))
    return 0


def run_query(chosen: argparse.Namespace) -> int:
    check_number("top", chosen.top, 1, 64, whole=True)
    store = Store.open(chosen.store)
    language = load_language(chosen.model)
    check_tokenizer(store.card, language.sha256, language.model)
    found = query(store, language, chosen.text, chosen.top)
    for one in found:
        node = one.node
        print(f"{node.chance:.2f}  {node.times}/{node.seen} after {node.match} tokens  {one.text!r}")
    if not found:
        print(f"{store.card['name']} knows nothing that follows this text", file=sys.stderr)
    return 0


def run_verify(chosen: argparse.Namespace) -> int:
    """Exit code 1 with what is wrong. Without a model, a store of the embedded one is checked against that."""
    from spectra.target.embedded import NAME

    wrong = problems(chosen.store)
    if not wrong and (chosen.model is not None or read_card(chosen.store)["model"] == NAME):
        wrong = tokenizer_problems(chosen.store, load_language(chosen.model))
    print("\n".join(wrong) or f"{chosen.store} is whole", file=sys.stderr if wrong else sys.stdout)
    return int(bool(wrong))


def run_selftext(chosen: argparse.Namespace) -> int:
    from spectra.datastore.selftext import Writing, read_questions, write_answers
    from spectra.target.load import load_network

    quiet()
    writing = Writing(chosen.max_new_tokens, chosen.temperatures, chosen.batch, chosen.seed)
    questions = read_questions(chosen.prompts, writing.temperatures)
    check_writable(chosen.out, "out")
    model, tokenizer, name = load_network(chosen.model, device=chosen.device, dtype=chosen.dtype)
    if not tokenizer.chat_template:
        raise SpectraError("model", f"{name} has no chat template, so it cannot answer; name one that has")
    with bar("answering", len(questions), " prompts") as shown:
        write_answers(model.eval(), tokenizer, questions, chosen.out, writing, shown.update)
    return 0


def settings_of(chosen: argparse.Namespace) -> BuildSettings:
    return BuildSettings(
        keep=KEEP if chosen.keep is None and chosen.keep_tokens is None else chosen.keep,
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
        score_tokens=chosen.score_tokens,
        batch_tokens=chosen.batch_tokens,
        seed=chosen.seed,
    )


def twin_settings(chosen: argparse.Namespace) -> BuildSettings:
    """Those of the store, but a random sample of as many tokens."""
    card = read_card(chosen.twin_of)
    same = {"refine": False, "keep": None, "keep_tokens": card["kept"]["tokens"], "seed": chosen.seed}
    return BuildSettings.from_dict({**card["settings"], **same})


def parse_where(conditions: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """FIELD=VALUE,... -> field -> values."""
    where = {}
    for text in conditions:
        name, equals, values = text.partition("=")
        if not (name and equals and values):
            raise SpectraError("where", f"{text!r} is not FIELD=VALUE,...; write for example source=gsm8k,chat")
        where[name] = tuple(values.split(","))
    return where


def load_language(model: str | None) -> Language:
    from spectra.target.load import load_tokenizer

    quiet()
    return Language(*load_tokenizer(model))


def quiet() -> None:
    """No progress bars and notices of transformers: stderr is for our lines."""
    from transformers.utils import logging

    logging.disable_progress_bar()
    logging.set_verbosity_error()


def run_speed(chosen: argparse.Namespace) -> int:
    for line in measure(chosen.store, chosen.queries).lines():
        print(line)
    return 0
