"""A corpus to a datastore: read, score, select, index, rename. Goes on where a killed build was.

Processes of one launch share the scoring; the first does the rest.
"""

import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from spectra.datastore.build.corpus import Corpus
from spectra.datastore.build.finish import put_in_place, restore, write_store
from spectra.datastore.build.gather import Gathering
from spectra.datastore.build.index import token_type
from spectra.datastore.build.merge import adopt, check_base, merge_facts, merge_histogram
from spectra.datastore.build.score import batches, score
from spectra.datastore.build.select import select, to_score
from spectra.datastore.build.settings import BuildSettings
from spectra.datastore.build.workdir import Workdir, check_place
from spectra.datastore.card import read_card, seal
from spectra.datastore.language import Language
from spectra.datastore.sources import list_sha256, read_sources
from spectra.errors import SpectraError
from spectra.io.progress import Progress, bar
from spectra.target.distributed import Distributed, distributed
from spectra.target.load import PlainNetwork, check_loading, load_network, load_tokenizer

DROPPED = ("duplicate", "similar", "short", "repetitive", "bad", "filtered", "excluded", "unscored")


@dataclass(frozen=True)
class Order:
    """What is to be built. base: a store whose texts are merged in. command: for the card.

    model, device, dtype: as for `load_target`; loading: more of its arguments. force: a store of this name and
    unfinished other work may go. loaded: one that is in memory, instead of `model`. progress:
    makes the bars, called like `bar`.
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
    loaded: PlainNetwork | None = None
    progress: Callable[..., Progress] = bar
    loading: Mapping[str, Any] = field(default_factory=dict)


def build(order: Order) -> dict[str, Any]:
    """Build the store; returns its card. Raises SpectraError naming what is wrong and what was kept."""
    if order.loaded is None:
        language = Language(*load_tokenizer(order.model))
    else:
        _, tokenizer, name = order.loaded
        language = Language(tokenizer, name)
    workdir = Workdir(order.out, np.dtype(token_type(language.vocabulary)))
    if order.settings.refine and order.loaded is None:
        check_window(order, language)
    try:
        with distributed(order.device) as processes, ExitStack() as held:
            recipe: dict[str, Any] = {}
            card: dict[str, Any] = {}
            if processes.first:
                restore(order.out)
                workdir.tidy()
                recipe = describe(order, language)
                held.enter_context(workdir.held(recipe, force=order.force))
                check_place_again(order, workdir)
                if card := added(order, recipe):
                    print(f"{order.out} has this corpus already", file=sys.stderr, flush=True)
                    workdir.drop()
                else:
                    read(order, workdir, language)
            processes.wait()
            if order.settings.refine:
                score_share(order, workdir, language, processes)
            processes.wait()
            return finish(order, workdir, language, recipe) if processes.first and not card else card
    except OSError as error:
        reason = error.strerror or error
        raise SpectraError(
            "out", f"cannot write {order.out} ({reason}); free some space or make it writable: the work so far is kept"
        ) from error


def check_window(order: Order, language: Language) -> None:
    """Raise SpectraError where the model cannot be loaded or a text of the longest kind does not fit its context."""
    longest = order.settings.window + len(language.header(order.settings.header))
    context = check_loading(order.model, device=order.device, dtype=order.dtype, **order.loading)
    if longest > context:
        raise SpectraError("window", f"{longest} tokens do not fit the context of {context}; give a smaller one")


def check_place_again(order: Order, workdir: Workdir) -> None:
    """`check_place` once nobody else may build there: another process may have finished since. Leaves no empty work."""
    try:
        check_place(order.out, order.base, force=order.force)
    except SpectraError:
        if not workdir.read_progress():
            workdir.drop()
        raise


def describe(order: Order, language: Language) -> dict[str, Any]:
    """All that the result depends on. Raises SpectraError for a store that is in the way or does not fit."""
    check_place(order.out, order.base, force=order.force)
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


def added(order: Order, recipe: Mapping[str, Any]) -> dict[str, Any]:
    """The card of a store that is to grow in its place, where the same was last added to it: the run before this one
    ended, or was killed when its store had the place. Else nothing.
    """
    if order.base is None or order.base != order.out:
        return {}
    card = read_card(order.base)
    wanted = seal({**recipe, "licence": order.licence})
    last = card["corpus"][-len(wanted["corpus"]) :]
    same = all(card.get(name) == wanted[name] for name in ("settings", "exclude", "dtype", "licence"))
    return card if "base" in card and same and last == wanted["corpus"] else {}


def read(order: Order, workdir: Workdir, language: Language) -> None:
    """First phase, unless it is done."""
    state = workdir.read_progress()
    gathering = Gathering(workdir, order.settings, language.encode)
    if state.get("done"):
        gathering.check()
        return
    gathering.resume()
    if order.base is not None and not state:
        adopt(order.base, gathering)
    corpus = order.corpus
    with order.progress("reading", corpus.size or None, "B") as shown:
        gathering.run(corpus, lambda: shown.update(corpus.position - shown.n))
    if gathering.counts["texts"] == 0 or not gathering.rows:
        seen = gathering.counts
        why = ", ".join(f"{seen[name]} {name}" for name in DROPPED if seen[name])
        workdir.drop()
        raise SpectraError("corpus", f"no text of it is left of {seen['texts']} ({why or 'it is empty'}); give more")


def score_share(order: Order, workdir: Workdir, language: Language, processes: Distributed) -> None:
    """Second phase: what this process scores. Nothing where the corpus was added already."""
    settings = order.settings
    rows = workdir.read_progress().get("rows", 0)
    wanted = to_score(workdir, rows, settings.score_tokens, settings.seed)
    if not np.isnan(workdir.read_scores(rows)[wanted]).any():
        return
    if order.loaded is None:
        device = order.device or (None if "device_map" in order.loading else processes.device)
        model, _, _ = load_network(order.model, device=device, dtype=order.dtype, **order.loading)
    else:
        model, _, _ = order.loaded
    model.eval()
    header = language.header(settings.header)
    tokens = sum(int(one["length"].sum()) for one in batches(workdir, wanted, settings.batch_tokens, len(header)))
    if processes.first and processes.world_size > 1:
        print(f"scoring on {processes.world_size} processes", file=sys.stderr, flush=True)
    share = tokens // processes.world_size
    with order.progress("scoring", share, " tokens", hidden=not processes.first) as shown:
        score(
            workdir,
            wanted,
            model,
            header,
            budget=settings.batch_tokens,
            process=processes.rank,
            processes=processes.world_size,
            progress=shown.update,
        )


def finish(order: Order, workdir: Workdir, language: Language, recipe: Mapping[str, Any]) -> dict[str, Any]:
    """Third and last phase."""
    state = workdir.read_progress()
    selection = select(workdir, state["rows"], order.settings)
    counts = state["counts"]
    if order.settings.refine:
        counts["unscored"] = int(np.isnan(workdir.read_scores(state["rows"])).sum())
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
        base = read_card(order.base)
        facts = merge_facts(base, facts)
        selection = merge_histogram(base, selection)
        sources = read_sources(order.base)
    card = write_store(workdir, selection, order.settings, language, facts, sources)
    put_in_place(workdir)
    return card
