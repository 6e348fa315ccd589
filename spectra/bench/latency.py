"""`python -m spectra.bench latency`: T(q), the time of one forward pass over q query tokens, by context length."""

import argparse
from typing import Any

from spectra.bench.values import names, numbers
from spectra.cli import quiet_target
from spectra.errors import SpectraError
from spectra.trace import write_text


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own arguments."""
    parser.add_argument("--shape", metavar="SHAPE", help="random weights in this shape instead of a model")
    parser.add_argument("--contexts", type=names, default=["256", "1024"])
    parser.add_argument("--queries", type=names, default=["1", "2", "4", "8", "16", "32", "64", "128"])
    parser.add_argument("--out", metavar="FILE", help="write the table as Markdown")


def run_latency(chosen: argparse.Namespace) -> int:
    """The subcommand `latency`. Prints milliseconds, and the ratio to one token."""
    contexts, queries = (sizes(name, getattr(chosen, name)) for name in ("contexts", "queries"))
    target = shaped(chosen) if chosen.shape else quiet_target(chosen)
    longest = contexts[-1] + queries[-1] + 1
    if longest > target.context:
        raise SpectraError("contexts", f"{longest} positions do not fit the context of {target.context}; ask for less")
    text = f"{', '.join(f'{k} {v}' for k, v in target.facts.items())}\n\n" + table(target, contexts, queries)
    print(text)
    if chosen.out:
        write_text(chosen.out, text + "\n", "out")
    return 0


def sizes(field: str, texts: list[str]) -> list[int]:
    """In rising order. Raises SpectraError naming `field`."""
    found = sorted(int(number) for number in numbers(field, texts, int))
    if found[0] < 1:
        raise SpectraError(field, f"{found[0]} is out of range; give 1 or more")
    return found


def table(target: Any, contexts: list[int], queries: list[int]) -> str:
    """Markdown: a row a context, a column a query count, each cell ms and T(q)/T(least)."""
    from spectra.target.preflight import measure_cost

    widest = target.widest
    queries = [q for q in queries if q <= widest]
    lines = [
        "| context | " + " | ".join(f"q={q}" for q in queries) + " |",
        "|---:" * (len(queries) + 1) + "|",
    ]
    for context in contexts:
        cost = measure_cost(target, queries, context=context)
        first = cost.seconds(queries[0])
        cells = [f"{cost.seconds(q) * 1000:.1f} ({cost.seconds(q) / first:.2f})" for q in queries]
        lines.append(f"| {context} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def shaped(chosen: argparse.Namespace) -> Any:
    """A target with random weights in the shape that was asked for."""
    from spectra.target.shapes import shaped_target

    return shaped_target(
        chosen.shape, device=chosen.device, dtype=chosen.dtype, numerics=chosen.numerics, step=chosen.step
    )
