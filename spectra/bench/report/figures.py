"""The figures of one method on some prompts: throughput, tau and speedups, medians over repeats."""

import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter

from spectra.bench.run.rows import Row, grouped
from spectra.methods.presets import PLAIN

Key = tuple[str, str]
"""(task, id) of a prompt."""


@dataclass(frozen=True, slots=True)
class Figures:
    """micro: all tokens / all time (Mic-TP). macro: mean over prompts of Mac-TP (SPECTRA 5.2). tau: tokens / passes.

    queries: query tokens a pass. slowest: 10th percentile over prompts of the speedup against plain decoding.
    identical: (prompts with plain decoding's output, prompts compared). macro, tau, queries: None for a peer.
    """

    prompts: int
    micro: float
    macro: float | None
    tau: float | None
    queries: float | None
    slowest: float | None
    identical: tuple[int, int]
    distinct4: float
    sources: dict[str, float]
    """Share of the output by source, the largest first; empty for a peer."""
    by_prompt: Mapping[Key, Row]
    """What `medians` gives, for `ratio`."""


def figures_of(rows: Sequence[Row], plain: Sequence[Row]) -> Figures:
    """rows: of one method, never empty. plain: plain decoding's on the same prompts."""
    ours = medians(rows)
    theirs = {_key(row): row for row in medians(plain)}
    ratios = sorted(rate(row) / base for row in ours if _key(row) in theirs and (base := rate(theirs[_key(row)])) > 0)
    stepped = [row for row in ours if row["tau"] is not None]
    passes = sum(row["steps"] for row in stepped)
    widths = [(row["queries"], row["steps"]) for row in stepped if row.get("queries")]  # not in the oldest rows
    compared = [row["identical"] for row in rows if row["repeat"] == 0 and row["identical"] is not None]
    credit: Counter[str] = Counter()
    for row in stepped:
        credit.update(row["sources"] or {})
    return Figures(
        prompts=len(ours),
        micro=micro(ours),
        macro=macro(ours),
        tau=sum(row["new_tokens"] for row in stepped) / passes if passes else None,
        queries=sum(width * steps for width, steps in widths) / sum(n for _, n in widths) if widths else None,
        slowest=ratios[len(ratios) // 10] if ratios else None,
        identical=(compared.count(True), len(compared)),
        distinct4=statistics.mean(row["distinct4"] for row in ours),
        sources={source: count / max(credit.total(), 1) for source, count in credit.most_common()},
        by_prompt={_key(row): row for row in ours},
    )


def micro(rows: Sequence[Row]) -> float:
    """Mic-TP: all tokens over all time."""
    return float(sum(row["new_tokens"] for row in rows) / sum(row["seconds"] for row in rows))


def macro(rows: Sequence[Row]) -> float | None:
    """The mean over prompts of Mac-TP; None for a peer."""
    stepped = [row["mac_tp"] for row in rows if row["mac_tp"] is not None]
    return statistics.mean(stepped) if stepped else None


def ratio(ours: Figures, base: Figures | None, measure: Callable[[Sequence[Row]], float | None]) -> float | None:
    """`micro` or `macro` over the base's, both on the prompts that both have; None where either is missing."""
    common = [prompt for prompt in ours.by_prompt if base is not None and prompt in base.by_prompt]
    if base is None or not common:
        return None
    above, below = (measure([figures.by_prompt[prompt] for prompt in common]) for figures in (ours, base))
    return above / below if above is not None and below else None


def by_method(rows: Iterable[Row]) -> dict[str, Figures]:
    """Figures of every method, in the order they ran."""
    groups = grouped(rows, itemgetter("method"))
    return {method: figures_of(some, groups.get(PLAIN, [])) for method, some in groups.items()}


def medians(rows: Iterable[Row]) -> list[Row]:
    """One row a prompt: its seconds and Mac-TP are the medians over repeats."""
    groups = grouped(rows, _key).values()
    return [group[0] | {name: _median(group, name) for name in ("seconds", "mac_tp")} for group in groups]


def acceptance(rows: Iterable[Row]) -> dict[str, float]:
    """Accepted / offered by source over all rows; empty for a peer."""
    offered: Counter[str] = Counter()
    accepted: Counter[str] = Counter()
    for row in rows:
        for source, count in (row.get("offered") or {}).items():
            offered[source] += count
            accepted[source] += round(row["acceptance"][source] * count)
    return {source: accepted[source] / count for source, count in offered.most_common()}


def rate(row: Row) -> float:
    """Tokens a second."""
    return float(row["new_tokens"] / row["seconds"])


def _key(row: Row) -> Key:
    return row["task"], row["id"]


def _median(rows: list[Row], name: str) -> float | None:
    values = [row[name] for row in rows if row[name] is not None]
    return statistics.median(values) if values else None
