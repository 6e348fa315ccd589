"""Rows to Markdown: the layouts of the paper's Tables 1 and 4, then everything that is known of each task."""

from collections.abc import Callable, Mapping, Sequence

from spectra.bench.report.figures import Figures, by_method, macro, micro, ratio
from spectra.bench.run.rows import Row
from spectra.methods.presets import PLAIN

STOCK = "hf-generate"

OVERALL = "all"
DETAILS = (
    "| method | tokens/s | against hf-generate | against plain | slowest tenth | tau | query tokens a pass | Mac-TP "
    "| identical | distinct 4-grams | share of output by source |\n|---|" + "---:|" * 9 + "---|"
)
Table = dict[str, Figures]


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
    return _wide(tables, {"speedup": lambda f, plain: number_cell(ratio(f, plain, macro), 2), "tau": _tau})


def throughputs(tables: Mapping[str, Table]) -> str:
    """A row a method; for each task Mac-TP, Mic-TP and the speedup by Mic-TP."""
    return _wide(
        tables,
        {
            "Mac-TP": lambda f, _: number_cell(f.macro, 1),
            "Mic-TP": lambda f, _: number_cell(f.micro, 1),
            "speedup": lambda f, plain: number_cell(ratio(f, plain, micro), 2),
        },
    )


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


Cell = Callable[[Figures, Figures | None], str]


def _wide(tables: Mapping[str, Table], columns: Mapping[str, Cell]) -> str:
    """methods x (tables x columns), all tasks together last; a method that a table does not have gets blank cells."""
    order = sorted(tables, key=lambda name: name == OVERALL)
    names = [f"{task} {column}" for task in order for column in columns]
    lines = ["| method | " + " | ".join(names) + " |", "|---|" + "---:|" * len(names)]
    for method in dict.fromkeys(method for table in tables.values() for method in table):
        cells = [
            cell(tables[task][method], tables[task].get(PLAIN)) if method in tables[task] else ""
            for task in order
            for cell in columns.values()
        ]
        lines.append("| " + " | ".join([method, *cells]) + " |")
    return "\n".join(lines)


def _tau(figures: Figures, _: Figures | None) -> str:
    return number_cell(figures.tau, 2)


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
