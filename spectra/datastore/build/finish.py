"""Last phase of a build: the kept texts become a store beside its place, complete and synced, then one rename."""

import json
import shutil
from collections.abc import Collection, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spectra.datastore import card as cards
from spectra.datastore.build.index import IndexFacts, build_index
from spectra.datastore.build.select import EDGES, Selection, bins
from spectra.datastore.build.settings import BuildSettings
from spectra.datastore.build.workdir import Workdir
from spectra.datastore.language import Language
from spectra.datastore.layout import CARD, CORPUS, TEXT, TEXTS
from spectra.datastore.sources import write_sources
from spectra.io.arrays import save_array
from spectra.io.exchange import exchange
from spectra.io.locks import in_turn
from spectra.io.workdir import beside, note_placed, replace, sync_folder, where

PACKAGES = ("numpy", "marisa-trie", "tokenizers", "transformers", "torch")
"""Their versions go on the card."""


def write_store(
    workdir: Workdir,
    selection: Selection,
    settings: BuildSettings,
    language: Language,
    facts: Mapping[str, Any],
    more_sources: Collection[str] = (),
) -> dict[str, Any]:
    """Put the store together in `workdir.store`; returns its card. facts: what else the card says.

    more_sources: hashes of prompts that texts of an older store answer.
    """
    store = workdir.store
    shutil.rmtree(store, ignore_errors=True)
    store.mkdir()
    index = _write_texts(workdir, selection.kept, settings, language)
    sources = {bytes(source) for source in selection.kept["source"].tolist()}
    count = write_sources(store, sources | {bytes.fromhex(text) for text in more_sources})
    kept = selection.kept["perplexity"]
    card = {
        "format": cards.FORMAT,
        "version": cards.VERSION,
        "name": workdir.out.name,
        "model": language.model,
        "tokenizer_sha256": language.sha256,
        **facts,
        "refined": settings.refine,
        "kept": {"texts": len(kept), "tokens": int(selection.kept["length"].sum(dtype=np.int64))},
        "perplexity": {
            "edges": [round(float(edge), 4) for edge in EDGES],
            "scored": selection.histogram.tolist(),
            "kept": bins(kept).tolist(),
            "cutoff": float(kept[-1]) if settings.refine else None,
        },
        "index": index.to_dict(),
        "sources": count,
        "settings": settings.to_dict(),
        "versions": {name: version(name) for name in PACKAGES},
    }
    files = cards.describe_files(store)
    size = sum(one["bytes"] for one in files.values())
    card = cards.seal({**card, "bytes": size, "files": files})
    replace(store / CARD, f"{json.dumps(card, indent=1)}\n".encode())
    sync_folder(store)
    return card


def _write_texts(workdir: Workdir, kept: NDArray[Any], settings: BuildSettings, language: Language) -> IndexFacts:
    texts = [workdir.read_tokens(start, size) for start, size in zip(kept["start"], kept["length"], strict=True)]
    save_array(workdir.store / CORPUS, np.concatenate(texts))
    table = np.empty(len(kept), TEXT)
    for name in ("length", "perplexity", "hash"):
        table[name] = kept[name]
    table["start"] = np.cumsum(table["length"], dtype=np.int64) - table["length"]
    save_array(workdir.store / TEXTS, table)
    return build_index(
        texts,
        workdir.store,
        vocabulary=language.vocabulary,
        order=settings.order,
        successors=settings.successors,
        header=language.header(settings.header),
        banned=language.banned,
    )


def put_in_place(workdir: Workdir) -> None:
    """The finished folder takes its name; what had it goes last.

    At every moment one of the two has the name, but where folders cannot be exchanged: killed in between there,
    `restore` puts the old one back.
    """
    out = where(workdir.out)  # a link stays one
    note_placed(workdir.folder, workdir.store / CARD)
    if not out.exists():
        workdir.store.rename(out)
    elif not exchange(workdir.store, out):
        _rename_both(workdir.store, out)
    sync_folder(out)
    workdir.drop()


def _rename_both(store: Path, out: Path) -> None:
    """`restore` of another process waits meanwhile: it would take this one for killed."""
    old = beside(out, "old")
    with in_turn(out.parent):
        out.rename(old)
        store.rename(out)
        sync_folder(out)
        shutil.rmtree(old)


def restore(out: Path) -> None:
    """Undo a replacement that was killed half way. One that goes on is waited for."""
    out = where(out)
    old = beside(out, "old")
    if not old.exists():
        return
    with in_turn(out.parent):
        if not old.exists():
            return
        if out.exists():
            shutil.rmtree(old)
        else:
            old.rename(out)
