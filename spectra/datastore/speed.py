"""How fast a store opens and answers, and what memory it takes: measured in a process that has done nothing else."""

import random
import resource
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from spectra.datastore.finish import CORPUS
from spectra.datastore.store import Store
from spectra.errors import SpectraError
from spectra.settings import check_number

NODES = 16
"""Nodes of a tree: what the drafter asks for."""


@dataclass(frozen=True, slots=True)
class Speed:
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
        """For people."""
        yield f"index    {self.ngrams:,} n-grams counted, {self.contexts:,} contexts"
        yield f"open     {self.opened * 1000:.1f} ms, {self.resident / 1e6:.1f} MB resident"
        yield f"query    {_shares(self.queries)}, one lookup each"
        yield f"tree     {_shares(self.trees)}, {NODES} nodes each"


def measure(folder: Path, queries: int, seed: int = 0) -> Speed:
    """Open the store and ask what follows at random places of its own corpus."""
    check_number("queries", queries, 1, 1_000_000, whole=True)
    before = _resident()
    began = time.perf_counter()
    store = Store.open(folder)
    opened = time.perf_counter() - began
    resident = _resident() - before
    corpus = np.load(folder / CORPUS, mmap_mode="r", allow_pickle=False)
    dice = random.Random(seed)

    def timed(ask: Callable[[Sequence[int]], bool]) -> list[float]:
        times = []
        for _ in range(queries):
            end = dice.randrange(1, len(corpus) + 1)
            context = corpus[max(0, end - store.order) : end].tolist()
            began = time.perf_counter()
            hit = ask(context)
            if hit:
                times.append(time.perf_counter() - began)
        return sorted(times)

    lookups = timed(lambda context: bool(store.successors(context)[2]))
    trees = timed(lambda context: bool(store.continuations(context, NODES)))
    if not lookups or not trees:
        raise SpectraError("queries", f"{queries} found nothing; ask for more")
    return Speed(len(store), store.card["index"]["ngrams"], opened, resident, lookups, trees)


def _shares(times: Sequence[float]) -> str:
    middle, high = (times[int(len(times) * share)] * 1e6 for share in (0.5, 0.95))
    return f"p50 {middle:.0f} us, p95 {high:.0f} us of {len(times):,} hits"


def _resident() -> int:
    """Bytes of this process in memory (its peak, where the system does not tell)."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * resource.getpagesize()
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
