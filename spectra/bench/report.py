"""Rows to Markdown tables: tokens/s, speedup against stock and plain decoding, tau, identity, sources."""

import statistics
from collections import Counter
from collections.abc import Iterable
from typing import Any

Row = dict[str, Any]
HEADER = (
    "| method | tokens/s | against hf-generate | against plain | slowest tenth | tau | Mac-TP | identical "
    "| distinct 4-grams | share of output by source |\n|---|---:|---:|---:|---:|---:|---:|---:|---:|---|"
)


def markdown(rows: list[Row]) -> str:
    """One table over all rows and one a task. Speedups: all tokens / all time over all tokens / all time."""
    tasks = list(dict.fromkeys(row["task"] for row in rows))
    parts = [f"## All ({len({r['id'] for r in rows})} prompts)\n\n{table(rows)}"]
    for task in tasks:
        some = [row for row in rows if row["task"] == task]
        parts.append(f"## {task} ({len({r['id'] for r in some})} prompts)\n\n{table(some)}")
    return "\n\n".join(parts) + "\n"


def table(rows: Iterable[Row]) -> str:
    """Methods in the order they ran. slowest tenth: 10th percentile over prompts of the speedup against plain."""
    by_method: dict[str, list[Row]] = {}
    for row in rows:
        by_method.setdefault(row["method"], []).append(row)
    rate = {method: throughput(some) for method, some in by_method.items()}
    lines = [HEADER]
    for method, some in by_method.items():
        ours = {row["id"]: row for row in medians(some)}
        plain = {row["id"]: row for row in medians(by_method.get("autoregressive", []))}
        ratios = sorted(
            (ours[i]["new_tokens"] / ours[i]["seconds"]) / (plain[i]["new_tokens"] / plain[i]["seconds"])
            for i in ours.keys() & plain.keys()
        )
        stepped = [row for row in some if row["tau"] is not None]
        tau = sum(r["new_tokens"] for r in stepped) / sum(r["steps"] for r in stepped) if stepped else None
        macro = statistics.mean(r["mac_tp"] for r in stepped) if stepped else None
        first = [row for row in some if row["repeat"] == 0]
        cells = [
            method,
            f"{rate[method]:.1f}",
            _ratio(rate[method], rate.get("hf-generate")),
            _ratio(rate[method], rate.get("autoregressive")),
            f"{ratios[len(ratios) // 10]:.2f}" if ratios else "",
            f"{tau:.2f}" if tau else "",
            f"{macro:.1f}" if macro else "",
            f"{sum(r['identical'] for r in first)} of {len(first)}",
            f"{statistics.mean(r['distinct4'] for r in some):.2f}",
            shares(stepped),
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def medians(rows: Iterable[Row]) -> list[Row]:
    """One row a prompt, its seconds the median over repeats."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(row["id"], []).append(row)
    return [group[0] | {"seconds": statistics.median(r["seconds"] for r in group)} for group in groups.values()]


def throughput(rows: Iterable[Row]) -> float:
    """All tokens / all time."""
    rows = medians(rows)
    return float(sum(row["new_tokens"] for row in rows) / sum(row["seconds"] for row in rows))


def shares(rows: list[Row]) -> str:
    total: Counter[str] = Counter()
    for row in rows:
        total.update(row["sources"])
    everything = sum(total.values())
    return ", ".join(f"{source} {count / everything:.0%}" for source, count in total.most_common())


def _ratio(a: float, b: float | None) -> str:
    return f"{a / b:.2f}" if b else ""
