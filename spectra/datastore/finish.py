"""Last phase of a build: the kept texts become a store beside its place, complete and synced, then one rename."""

import contextlib
import json
import shutil
from collections.abc import Collection, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spectra.datastore import card as cards
from spectra.datastore.index import IndexFacts, build_index
from spectra.datastore.language import Language
from spectra.datastore.select import EDGES, Selection, bins
from spectra.datastore.settings import BuildSettings
from spectra.datastore.sources import write_sources
from spectra.datastore.work import Work, replace, sync_folder

CORPUS, TEXTS = "corpus.npy", "texts.npy"
TEXT = np.dtype([("start", "<i8"), ("length", "<i4"), ("perplexity", "<f4"), ("hash", "S16")])
PACKAGES = ("numpy", "marisa-trie", "tokenizers", "transformers", "torch")


def write_store(
    work: Work,
    selection: Selection,
    settings: BuildSettings,
    language: Language,
    facts: Mapping[str, Any],
    more_sources: Collection[str] = (),
) -> dict[str, Any]:
    """Put the store together in `work.store`; returns its card. facts: what else the card says.

    more_sources: hashes of prompts that texts of an older store answer.
    """
    shutil.rmtree(work.store, ignore_errors=True)
    work.store.mkdir()
    index = _write_texts(work, selection.kept, settings, language)
    sources = {bytes(source) for source in selection.kept["source"].tolist()}
    count = write_sources(work.store, sources | {bytes.fromhex(text) for text in more_sources})
    kept = selection.kept["perplexity"]
    card = {
        "format": cards.FORMAT,
        "version": cards.VERSION,
        "name": work.out.name,
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
    files = cards.describe_files(work.store)
    size = sum(one["bytes"] for one in files.values())
    card = cards.seal({**card, "bytes": size, "files": files})
    replace(work.store / cards.FILE, f"{json.dumps(card, indent=1)}\n".encode())
    sync_folder(work.store)
    return card


def _write_texts(work: Work, kept: NDArray[Any], settings: BuildSettings, language: Language) -> IndexFacts:
    texts = [work.read_tokens(start, size) for start, size in zip(kept["start"], kept["length"], strict=True)]
    np.save(work.store / CORPUS, np.concatenate(texts))
    table = np.empty(len(kept), TEXT)
    for name in ("length", "perplexity", "hash"):
        table[name] = kept[name]
    table["start"] = np.cumsum(table["length"], dtype=np.int64) - table["length"]
    np.save(work.store / TEXTS, table)
    try:
        return build_index(
            texts,
            work.store,
            vocabulary=language.vocabulary,
            order=settings.order,
            successors=settings.successors,
            header=language.header(settings.header),
            banned=language.banned,
        )
    except RuntimeError as error:  # what the trie's writer raises on a full disk
        raise OSError(str(error)) from error


def put_in_place(work: Work) -> None:
    """The finished folder takes its name; what had it goes last. Killed in between, `restore` puts the old one back."""
    old = _old(work.out)
    if work.out.exists():
        work.out.rename(old)
    work.store.rename(work.out)
    sync_folder(work.out)
    for folder in (old, work.folder):
        if folder.exists():
            shutil.rmtree(folder)


def restore(out: Path) -> None:
    """Undo a replacement that was killed half way."""
    old = _old(out)
    with contextlib.suppress(FileNotFoundError):  # another process of the same launch was faster
        if old.exists():
            shutil.rmtree(old) if out.exists() else old.rename(out)


def _old(out: Path) -> Path:
    return out.with_name(f".{out.name}.old")
