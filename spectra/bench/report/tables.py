"""Rows to Markdown: the layouts of the paper's Tables 1 and 4, then everything that is known of each task."""

from collections.abc import Callable, Mapping, Sequence

from spectra.bench.report.figures import Figures, by_method, macro, micro, ratio
from spectra.bench.run.rows import Row
from spectra.methods.presets import PLAIN
from spectra.target.choices import STOCK

OVERALL = "all"
DETAILS = (
    "| method | tokens/s | against hf-generate | against plain | slowest tenth | tau | query tokens a pass | Mac-TP "
    "| identical | distinct 4-grams | share of output by source |\n|---|" + "---:|" * 9 + "---|"
)
Table = dict[str, Figures]
Cell = Callable[[Figures, Figures | None], str]
"""(a method's figures, plain decoding's) -> text."""


def markdown(rows: Sequence[Row]) -> str:
    """All tables over one run's rows."""
    tables = by_field(rows, "task")
    parts = [
        "## Speedup and tau\n\nSpeedup: Mac-TP over plain decoding's, as in the paper's Table 1.\n\n"
        + speeds(tables)
        + uneven(tables[OVERALL]),
        "## Throughput\n\nTokens/s: Mac-TP is the mean over steps, Mic-TP all tokens over all time, prefill included, "
        "as in the paper's Table 4; the speedup is that of Mic-TP.\n\n" + throughputs(tables),
    ]
    for name, table in tables.items():
        parts.append(f"## {name} ({_prompts(table)} prompts)\n\n{details(table)}{uneven(table)}")
        kinds = by_field([row for row in rows if row["task"] == name], "category")
        if len(kinds) > 2:
            parts.append(f"Speedup (Mac-TP) and tau by category:\n\n{speeds(kinds)}")
    return "\n\n".join(parts) + "\n"


def by_field(rows: Sequence[Row], field: str) -> dict[str, Table]:
    """Figures by task or category, and method; all rows together first."""
    values = dict.fromkeys(row[field] for row in rows)
    return {OVERALL: by_method(rows)} | {value: by_method(r for r in rows if r[field] == value) for value in values}


def speeds(tables: Mapping[str, Table]) -> str:
    """A row a method; for each task its speedup by Mac-TP and tau."""
    return _wide(tables, SPEEDS)


def throughputs(tables: Mapping[str, Table]) -> str:
    """A row a method; for each task Mac-TP, Mic-TP and the speedup by Mic-TP."""
    return _wide(tables, THROUGHPUTS)


def details(table: Table) -> str:
    """One row a method with all its figures."""
    lines = [DETAILS]
    for method, f in table.items():
        same, of = f.identical
        cells = [
            method,
            number_cell(f.micro, 1),
            number_cell(ratio(f, table.get(STOCK), micro), 2),
            number_cell(ratio(f, table.get(PLAIN), micro), 2),
            number_cell(f.slowest, 2),
            number_cell(f.tau, 2),
            number_cell(f.queries, 1),
            number_cell(f.macro, 1),
            f"{same} of {of}" if of else "",
            number_cell(f.distinct4, 2),
            ", ".join(f"{source} {share:.0%}" for source, share in f.sources.items()),
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _wide(tables: Mapping[str, Table], columns: Mapping[str, Cell]) -> str:
    """methods x (tables x columns), all tasks together last."""
    order = sorted(tables, key=lambda name: name == OVERALL)
    methods = list(dict.fromkeys(method for table in tables.values() for method in table))
    return grid(order, methods, list(columns), lambda task, method, name: own_cell(tables, task, method, columns[name]))


def grid(
    groups: Sequence[str], rows: Sequence[str], columns: Sequence[str], cell: Callable[[str, str, str], str]
) -> str:
    """rows x (groups x columns). cell: (group, row, column) -> text."""
    names = [f"{group} {column}" for group in groups for column in columns]
    lines = ["| method | " + " | ".join(names) + " |", "|---|" + "---:|" * len(names)]
    for row in rows:
        cells = [cell(group, row, column) for group in groups for column in columns]
        lines.append("| " + " | ".join([row, *cells]) + " |")
    return "\n".join(lines)


def own_cell(tables: Mapping[str, Table], task: str, method: str, cell: Cell) -> str:
    """Blank for a method that the table does not have."""
    table = tables[task]
    return cell(table[method], table.get(PLAIN)) if method in table else ""


def uneven(table: Table) -> str:
    """A paragraph for a table whose methods ran on different prompts; else nothing."""
    if len({frozenset(figures.by_prompt) for figures in table.values()}) < 2:
        return ""
    counts = ", ".join(f"{method} {figures.prompts}" for method, figures in table.items())
    return f"\n\nPrompts: {counts}. A ratio is over those that both methods ran; other figures are over each one's own."


def _prompts(table: Table) -> int:
    return max((figures.prompts for figures in table.values()), default=0)


def number_cell(value: float | None, digits: int) -> str:
    """Blank where there is none."""
    return "" if value is None else f"{value:.{digits}f}"


SPEEDS: Mapping[str, Cell] = {
    "speedup": lambda figures, plain: number_cell(ratio(figures, plain, macro), 2),
    "tau": lambda figures, _: number_cell(figures.tau, 2),
}
THROUGHPUTS: Mapping[str, Cell] = {
    "Mac-TP": lambda figures, _: number_cell(figures.macro, 1),
    "Mic-TP": lambda figures, _: number_cell(figures.micro, 1),
    "speedup": lambda figures, plain: number_cell(ratio(figures, plain, micro), 2),
}
