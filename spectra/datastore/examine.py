"""A store examined: its card in words, what is wrong with its files, how fast it opens and answers. No torch."""

import random
import resource
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from spectra.datastore.card import altered_files, check_tokenizer, read_card, settled
from spectra.datastore.language import Language
from spectra.datastore.layout import CORPUS, TEXTS
from spectra.datastore.store import Store
from spectra.errors import SpectraError
from spectra.settings import check_number

WIDTH = 40
"""Characters of the longest bar of a histogram."""
NODES = 16
"""Nodes of a timed tree: what the drafter asks for."""


def describe_card(card: Mapping[str, Any]) -> Iterator[str]:
    """What a datastore was made of, what was kept, how large it is, in lines to print."""
    kept = card["kept"]
    seen = card["seen"]
    index = card["index"]
    dropped = ", ".join(f"{count:,} {why}" for why, count in card["dropped"].items() if count)
    yield f"{card['name']}: {'lowest perplexity' if card['refined'] else 'random sample'}, for {card['model']}"
    yield f"texts    {kept['texts']:,} of {seen['texts']:,} kept{f'; dropped: {dropped}' if dropped else ''}"
    yield f"tokens   {kept['tokens']:,} of {seen['tokens']:,}"
    yield f"index    {index['contexts']:,} contexts up to {index['order']} long, {index['successors']:,} successors"
    yield f"size     {card['bytes']:,} bytes in {len(card['files'])} files"
    for place in card["corpus"]:
        yield f"corpus   {place['name']}, {_identity(place)}"
    yield f"prompts  {card['sources']:,} source prompts are listed as hashes"
    yield f"licence  {card['licence']}"
    yield f"built by {card['command']}"
    yield f"sha256   {card['sha256']}"
    if card["refined"] and card["perplexity"]["cutoff"] is not None:
        yield f"perplexity, cut off at {card['perplexity']['cutoff']:.2f} (# kept, . scored)"
        yield from _histogram(card["perplexity"])


def _identity(place: Mapping[str, Any]) -> str:
    if "revision" in place:
        return f"revision {place['revision']}"
    return f"{place['bytes']:,} bytes, sha256 {place['sha256'][:16]}"


def _histogram(perplexity: Mapping[str, Any]) -> Iterator[str]:
    """A bar for each bin that is not empty; a bin of which any is kept shows at least one mark of it."""
    bins = list(zip(perplexity["edges"], perplexity["scored"], perplexity["kept"], strict=False))
    unit = max(1, max((scored for _, scored, _ in bins), default=1)) / WIDTH
    for low, scored, kept in bins:
        if scored:
            full = max(1, round(scored / unit))
            dark = min(full, max(1, round(kept / unit))) if kept else 0
            yield f"{low:10.1f}  {'#' * dark}{'.' * (full - dark)} {kept:,} of {scored:,}"


def problems(folder: Path) -> list[str]:
    """A line for each thing that is wrong with the card, the files or the index; empty when the store is whole."""
    try:
        return settled(folder, partial(_problems, folder))
    except SpectraError as error:
        return [str(error)]


def _problems(folder: Path, card: Mapping[str, Any]) -> list[str]:
    found = [f"datastore: {folder / name} was altered; build it again" for name in altered_files(folder, card)]
    try:
        if len(Store.open(folder)) != card["index"]["contexts"]:
            found.append(f"datastore: {folder} holds another index than its card says; build it again")
    except SpectraError as error:
        found.append(str(error))
    return found or list(_text_problems(folder, card))


def tokenizer_problems(folder: Path, language: Language) -> list[str]:
    """What keeps this tokenizer from using the store."""
    try:
        check_tokenizer(read_card(folder), language.sha256, language.model)
    except SpectraError as error:
        return [str(error)]
    return []


def _text_problems(folder: Path, card: Mapping[str, Any]) -> list[str]:
    texts = np.load(folder / TEXTS, mmap_mode="r", allow_pickle=False)
    tokens = np.load(folder / CORPUS, mmap_mode="r", allow_pickle=False)
    kept = card["kept"]
    in_texts = int(texts["length"].sum(dtype=np.int64))
    if len(texts) == kept["texts"] and len(tokens) == kept["tokens"] == in_texts:
        return []
    return [f"datastore: {folder}: {TEXTS} and {CORPUS} do not fit together; build it again"]


@dataclass(frozen=True, slots=True)
class StoreSpeed:
    """opened: seconds. resident: bytes that opening added. Seconds of each answer, sorted, misses left out: queries are
    single lookups (what followed the longest known suffix), trees ask for NODES nodes, each with lookups of its own.
    """

    contexts: int
    ngrams: int
    opened: float
    resident: int
    queries: list[float]
    trees: list[float]

    def lines(self) -> Iterator[str]:
        """To print."""
        yield f"index    {self.ngrams:,} n-grams counted, {self.contexts:,} contexts"
        yield f"open     {self.opened * 1000:.1f} ms, {self.resident / 1e6:.1f} MB resident"
        yield f"query    {_shares(self.queries)}, one lookup each"
        yield f"tree     {_shares(self.trees)}, {NODES} nodes each"


def measure(folder: Path, queries: int, seed: int = 0) -> StoreSpeed:
    """Open the store and ask what follows at random places of its own corpus.

    Memory is right only in a process that has done nothing else.
    """
    check_number("queries", queries, 1, 1_000_000, whole=True)
    before = _resident()
    began = time.perf_counter()
    store = Store.open(folder)
    opened = time.perf_counter() - began
    resident = _resident() - before
    corpus = np.load(folder / CORPUS, mmap_mode="r", allow_pickle=False)
    draws = random.Random(seed)

    def timed(ask: Callable[[Sequence[int]], bool]) -> list[float]:
        times = []
        for _ in range(queries):
            end = draws.randrange(1, len(corpus) + 1)
            context = corpus[max(0, end - store.order) : end].tolist()
            began = time.perf_counter()
            hit = ask(context)
            if hit:
                times.append(time.perf_counter() - began)
        return sorted(times)

    lookups = timed(lambda context: bool(store.successors(context).pairs))
    trees = timed(lambda context: bool(store.continuations(context, NODES)))
    if not lookups or not trees:
        raise SpectraError("queries", f"{queries} found nothing; ask for more")
    return StoreSpeed(len(store), store.card["index"]["ngrams"], opened, resident, lookups, trees)


def _shares(times: Sequence[float]) -> str:
    middle = times[int(len(times) * 0.5)]
    high = times[int(len(times) * 0.95)]
    return f"p50 {middle * 1e6:.0f} us, p95 {high * 1e6:.0f} us of {len(times):,} hits"


def _resident() -> int:
    """Bytes of this process in memory (its peak, where the system does not tell)."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * resource.getpagesize()
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
