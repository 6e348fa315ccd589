"""A corpus to a datastore: read, score, select, index, rename. Goes on where a killed build was.

Processes of one launch share the scoring; the first does the rest.
"""

import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from spectra.datastore.card import read_card
from spectra.datastore.corpus import Corpus
from spectra.datastore.finish import put_in_place, restore, write_store
from spectra.datastore.gather import Gathering
from spectra.datastore.index import token_type
from spectra.datastore.language import Language
from spectra.datastore.merge import adopt, check_base, merged_facts
from spectra.datastore.progress import bar
from spectra.datastore.sample import to_score
from spectra.datastore.score import batches, score
from spectra.datastore.select import select
from spectra.datastore.settings import BuildSettings
from spectra.datastore.sources import list_sha256, read_sources
from spectra.datastore.team import Team, gathered
from spectra.datastore.work import Work
from spectra.errors import SpectraError
from spectra.target.load import check_loading, load_network, load_tokenizer

DROPPED = ("duplicate", "similar", "short", "repetitive", "bad", "filtered", "excluded", "unscored")


@dataclass(frozen=True)
class Order:
    """What is to be built. base: a store whose texts are merged in. command: for the card.

    model, device, dtype: as for `load_target`. force: a store of this name and unfinished other work may go. loaded:
    (model, tokenizer, name) that are in memory, instead of `model`. progress: makes the bars, called like `bar`.
    """

    corpus: Corpus
    out: Path
    settings: BuildSettings
    model: str | None = None
    device: str | None = None
    dtype: str = "auto"
    licence: str = "not stated"
    command: str = ""
    base: Path | None = None
    force: bool = False
    loaded: tuple[Any, Any, str] | None = None
    progress: Callable[..., Any] = bar


def build(order: Order) -> dict[str, Any]:
    """Build the store; returns its card. Raises SpectraError naming what is wrong and what was kept."""
    tokenizer, name = order.loaded[1:] if order.loaded else load_tokenizer(order.model)
    language = Language(tokenizer, name)
    work = Work(order.out, np.dtype(token_type(language.vocabulary)))
    if order.settings.refine and not order.loaded:
        longest = order.settings.window + len(language.header(order.settings.header))
        context = check_loading(order.model, device=order.device, dtype=order.dtype)
        if longest > context:
            raise SpectraError("window", f"{longest} tokens do not fit the context of {context}; give a smaller one")
    try:
        with gathered(order.device) as team, ExitStack() as held:
            recipe: dict[str, Any] = {}
            if team.first:
                restore(order.out)
                recipe = describe(order, language)
                held.enter_context(work.locked(recipe, force=order.force))
                read(order, work, language)
            team.wait()
            if order.settings.refine:
                score_all(order, work, language, team)
            team.wait()
            return finish(order, work, language, recipe) if team.first else {}
    except OSError as error:
        reason = error.strerror or error
        raise SpectraError(
            "out", f"cannot write {order.out} ({reason}); free some space or make it writable: the work so far is kept"
        ) from error


def describe(order: Order, language: Language) -> dict[str, Any]:
    """All that the result depends on. Raises SpectraError for a store that is in the way or does not fit."""
    if order.out.exists() and not order.force and order.out != order.base:
        raise SpectraError("out", f"{order.out} exists; choose another folder or pass --force to replace it")
    if order.base is not None:
        check_base(read_card(order.base), language)
    return {
        "settings": order.settings.to_dict(),
        "corpus": order.corpus.facts(),
        "exclude": list_sha256(order.corpus.exclude),
        "model": language.model,
        "dtype": order.dtype,
        "tokenizer_sha256": language.sha256,
        "base": read_card(order.base)["sha256"] if order.base else None,
    }


def read(order: Order, work: Work, language: Language) -> None:
    """First phase, unless it is done."""
    state = work.read_progress()
    if state.get("done"):
        return
    gathering = Gathering(work, order.settings, language.encode)
    gathering.resume()
    if order.base is not None and not state:
        adopt(order.base, gathering)
    corpus = order.corpus
    with order.progress("reading", corpus.size or None, "B") as shown:
        gathering.run(corpus, lambda: shown.update(corpus.position - shown.n))
    if gathering.counts["texts"] == 0 or not gathering.rows:
        seen = gathering.counts
        why = ", ".join(f"{seen[name]} {name}" for name in DROPPED if seen[name])
        work.drop()
        raise SpectraError("corpus", f"no text of it is left of {seen['texts']} ({why or 'it is empty'}); give more")


def score_all(order: Order, work: Work, language: Language, team: Team) -> None:
    """Second phase: this process's share."""
    rows = work.read_progress()["rows"]
    wanted = to_score(work, rows, order.settings.score_tokens, order.settings.seed)
    if np.isnan(work.read_scores(rows)[wanted]).any():
        model, _, _ = order.loaded or load_network(order.model, device=order.device or team.device, dtype=order.dtype)
        model.eval()
        header = language.header(order.settings.header)
        share = sum(int(one["length"].sum()) for one in batches(work, wanted, order.settings.batch_tokens, len(header)))
        if team.first and team.processes > 1:
            print(f"scoring on {team.processes} processes", file=sys.stderr, flush=True)
        with order.progress("scoring", share // team.processes, " tokens", hidden=not team.first) as shown:
            score(
                work, wanted, model, header,
                budget=order.settings.batch_tokens,
                process=team.process,
                processes=team.processes,
                progress=shown.update,
            )  # fmt: skip


def finish(order: Order, work: Work, language: Language, recipe: Mapping[str, Any]) -> dict[str, Any]:
    """Third and last phase."""
    state = work.read_progress()
    selection = select(work, state["rows"], order.settings)
    counts = state["counts"]
    if order.settings.refine:
        counts["unscored"] = int(np.isnan(work.read_scores(state["rows"])).sum())
    facts = {
        "licence": order.licence,
        "command": order.command,
        "dtype": order.dtype,
        "corpus": recipe["corpus"],
        "exclude": recipe["exclude"],
        "seen": {"texts": counts.get("texts", 0), "tokens": counts.get("tokens", 0)},
        "dropped": {name: counts.get(name, 0) for name in DROPPED},
    }
    sources: set[str] = set()
    if order.base is not None:
        facts, selection = merged_facts(read_card(order.base), facts, selection)
        sources = read_sources(order.base)
    card = write_store(work, selection, order.settings, language, facts, sources)
    put_in_place(work)
    return card
