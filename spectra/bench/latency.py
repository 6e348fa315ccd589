"""`python -m spectra.bench latency`: T(q), the time of one forward pass over q query tokens, by context length; and
what share of the memory's speed a one-token pass gets.
"""

import argparse
from pathlib import Path
from typing import Any

from spectra.bench.values import names, numbers
from spectra.cli import quiet_target
from spectra.errors import SpectraError
from spectra.target.protocol import StepCost
from spectra.trace import check_writable, write_text


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own arguments."""
    parser.add_argument("--shape", metavar="SHAPE", help="random weights in this shape instead of a model")
    parser.add_argument("--contexts", type=names, default=["256", "1024"], help="tokens in the cache")
    powers = [str(2**power) for power in range(8)]
    parser.add_argument("--queries", type=names, default=powers, help="query tokens of a pass")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the table as Markdown")


def run_latency(chosen: argparse.Namespace) -> int:
    """The subcommand `latency`. Prints milliseconds, the ratio to one token, and bytes a second."""
    contexts, queries = (sizes(name, getattr(chosen, name)) for name in ("contexts", "queries"))
    if chosen.out is not None:
        check_writable(chosen.out, "out")
    target = shaped(chosen) if chosen.shape else quiet_target(chosen)
    fitting = [q for q in queries if q <= target.widest]
    if not fitting:
        raise SpectraError("queries", f"{queries[0]} is more than a step takes here; give {target.widest} or less")
    longest = contexts[-1] + fitting[-1] + 1
    if longest > target.context:
        raise SpectraError("contexts", f"{longest} positions do not fit the context of {target.context}; ask for less")
    facts = ", ".join(f"{name} {value}" for name, value in target.facts.items())
    costs = measured(target, contexts, fitting)
    parts = [facts, table(costs, fitting), reading(target, costs)]
    if len(fitting) < len(queries):
        parts.append(f"Left out: {', '.join(f'q={q}' for q in queries[len(fitting) :])}; {target.widest} fit a step.")
    text = "\n\n".join(parts)
    print(text)
    if chosen.out is not None:
        write_text(chosen.out, text + "\n", "out")
    return 0


def sizes(field: str, texts: list[str]) -> list[int]:
    """In rising order. Raises SpectraError naming `field`."""
    found = sorted(int(number) for number in numbers(field, texts, int))
    if found[0] < 1:
        raise SpectraError(field, f"{found[0]} is out of range; give 1 or more")
    return found


def measured(target: Any, contexts: list[int], queries: list[int]) -> dict[int, StepCost]:
    """T(q) by context, for these query counts and for one token."""
    from spectra.target.preflight import measure_cost

    return {context: measure_cost(target, sorted({1, *queries}), context=context) for context in contexts}


def table(costs: dict[int, StepCost], queries: list[int]) -> str:
    """Markdown: a row a context, a column a query count, each cell ms and T(q)/T(1)."""
    lines = [
        "| context | " + " | ".join(f"q={q}" for q in queries) + " |",
        "|---:" * (len(queries) + 1) + "|",
    ]
    for context, cost in costs.items():
        cells = [f"{cost.seconds(q) * 1000:.1f} ({cost.seconds(q) / cost.seconds(1):.2f})" for q in queries]
        lines.append(f"| {context} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def reading(target: Any, costs: dict[int, StepCost]) -> str:
    """Markdown: what a plain step reads at each context, how fast, and beside that how fast a copy is here."""
    from spectra.target.bandwidth import copy_bandwidth, token_bytes, weight_bytes

    weights, token, copy = weight_bytes(target), token_bytes(target), copy_bandwidth(target.device)
    lines = ["| context | a plain step reads, GB | GB/s | share of a copy's GB/s |", "|---:" * 4 + "|"]
    for context, cost in costs.items():
        size = weights + context * token
        speed = size / cost.seconds(1)
        lines.append(f"| {context} | {size / 1e9:.3f} | {speed / 1e9:.1f} | {speed / copy:.0%} |")
    meaning = "Read: every weight once, keys and values of the context. A copy's bytes count twice, read and written"
    return "\n".join([*lines, "", f"{meaning}: {copy / 1e9:.1f} GB/s here."])


def shaped(chosen: argparse.Namespace) -> Any:
    """A target with random weights in the shape that was asked for."""
    from spectra.target.shapes import shaped_target

    return shaped_target(
        chosen.shape, device=chosen.device, dtype=chosen.dtype, numerics=chosen.numerics, step=chosen.step
    )
