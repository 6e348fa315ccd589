"""Rows to Markdown as in the paper's Tables 1, 2 and 4: under each method's row one with the paper's figures."""

from collections.abc import Mapping, Sequence

from spectra.bench.paper.figures import MAC_TP, MIC_TP, SPEEDUP, TAU, Cell, Cells, PaperFigures
from spectra.bench.report.tables import OVERALL, SPEEDS, THROUGHPUTS, Table, by_field, grid, own_cell, uneven
from spectra.bench.run.rows import Row
from spectra.methods.presets import PLAIN

COMPARED = (
    "anpd", "lookahead", "rest", "lookahead-rest", "spectra-paper-core", "spectra-paper-retrieval", "spectra-paper"
)  # fmt: skip
ABLATIONS = (
    "spectra-paper-core-no-forward", "spectra-paper-core-no-backward", "spectra-paper-core-no-subngram",
    "spectra-paper-retrieval-no-ppl",
)  # fmt: skip
TABLE_2 = ("spectra-paper-core", *ABLATIONS[:3], "spectra-paper-retrieval", ABLATIONS[3])
"""Each ablation below what it is one of."""
CELLS = {**THROUGHPUTS, **SPEEDS}
PAPER = "paper: "
"""Before a method's name in the row of the paper's figures."""


def paper_tables(rows: Sequence[Row], methods: Sequence[str], model: str, figures: PaperFigures) -> str:
    """rows: of all tasks. methods: without plain decoding; those that were not run get rows of the paper's figures."""
    theirs = figures.of(model)
    tables = by_field(rows, "task")
    compared = [PLAIN, *(method for method in methods if method not in ABLATIONS)]
    ablated = [method for method in TABLE_2 if method in methods]
    wanted = {
        "## Table 1: speedup and tau\n\nThe speedup is that of Mac-TP over plain decoding's.": (compared, SPEEDUP, TAU),
        "## Table 2: ablations": (ablated, SPEEDUP, TAU),
        "## Table 4: throughput\n\nTokens/s: Mac-TP is the mean over steps, Mic-TP all tokens over all time, prefill "
        "included.": (compared, MAC_TP, MIC_TP),
    }
    tasks = sorted(tables, key=lambda task: task == OVERALL)
    parts, complete = [], True
    for heading, (some, *columns) in wanted.items():
        if some:
            parts.append(f"{heading}\n\n{_table(tables, tasks, some, columns, theirs)}{uneven(tables[OVERALL])}")
            complete &= all(Cell(task, method, c) in theirs for task in tasks for method in some for c in columns)
    return "\n\n".join([*parts, _about(model, figures, theirs, complete=complete)]) + "\n"


def _table(
    tables: Mapping[str, Table], tasks: Sequence[str], methods: Sequence[str], columns: Sequence[str], theirs: Cells
) -> str:
    def cell(task: str, row: str, column: str) -> str:
        if row.startswith(PAPER):
            figure = theirs.get(Cell(task, row.removeprefix(PAPER), column))
            return "" if figure is None else f"{figure:.2f}"
        return own_cell(tables, task, row, CELLS[column])

    return grid(tasks, [row for method in methods for row in (method, f"{PAPER}{method}")], columns, cell)


def _about(model: str, figures: PaperFigures, theirs: Cells, *, complete: bool) -> str:
    """Where the paper's figures are from, and why cells are empty."""
    lines = [f"The paper's figures: {figures.source}."]
    if not complete:
        known = f"only some figures of {model} are" if theirs else f"no figure of {model} is"
        lines.append(
            f"Empty cells of the paper's rows: {known} in the file of figures; `--figures FILE` takes another."
        )
    if figures.stated:
        lines.append("Known of the paper besides: " + "; ".join(figures.stated) + ".")
    return "\n\n".join(lines)
