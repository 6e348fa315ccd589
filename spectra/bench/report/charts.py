"""Figures as plotly JSON, and as pages where plotly is there: tokens against steps, acceptance by source, sweeps."""

import importlib.util
import json
from collections.abc import Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any

from spectra.bench.report.figures import acceptance
from spectra.bench.report.tables import by_field
from spectra.bench.run.rows import Row, grouped, make_folder
from spectra.io.files import write_text

Figure = dict[str, Any]
"""`data` and `layout`, as plotly.js reads them."""


def run_figures(rows: Sequence[Row]) -> dict[str, Figure]:
    """File name -> figure of one run's rows: the paper's Figures 6 and 3, and tau side by side (for ablations)."""
    return {
        "accepted-tokens": tokens_against_steps(rows),
        "acceptance": acceptance_by_source(rows),
        "tau": tau_by_method(rows),
    }


def tokens_against_steps(rows: Sequence[Row]) -> Figure:
    """Cumulative tokens after each forward pass, the mean over answers; an answer that has ended keeps its count."""
    lines = []
    for method, some in grouped(rows, itemgetter("method")).items():
        answers = [row["step_tokens"] for row in some if row.get("step_tokens") and row["repeat"] == 0]
        if answers:
            means = mean_cumulative(answers)
            lines.append({"type": "scatter", "mode": "lines", "name": method, "x": list(range(len(means))), "y": means})
    return _figure(lines, "forward passes", "tokens, mean over prompts")


def mean_cumulative(answers: Sequence[Sequence[int]]) -> list[float]:
    """Mean over answers of the tokens written by the first 0, 1, 2, ... passes."""
    longest = max(len(steps) for steps in answers)
    total = 0
    means = [0.0]
    for at in range(longest):
        total += sum(steps[at] for steps in answers if at < len(steps))
        means.append(total / len(answers))
    return means


def acceptance_by_source(rows: Sequence[Row]) -> Figure:
    """Accepted / offered nodes whose parent was accepted, by method and source. With `--nodes` out of the way (the
    paper's Figure 3 lifts G) no source is cut in favour of another."""
    bars = []
    for method, some in grouped(rows, itemgetter("method")).items():
        rates = acceptance(some)
        if rates:
            bars.append({"type": "bar", "name": method, "x": list(rates), "y": list(rates.values())})
    return _figure(bars, "source", "accepted / offered")


def tau_by_method(rows: Sequence[Row]) -> Figure:
    """One bar a method and task, all tasks together first."""
    bars = []
    for name, table in by_field(rows, "task").items():
        taus = {method: figures.tau for method, figures in table.items() if figures.tau is not None}
        if taus:
            bars.append({"type": "bar", "name": name, "x": list(taus), "y": list(taus.values())})
    return _figure(bars, "method", "tau")


def sweep_figure(name: str, values: Sequence[float], columns: Mapping[str, Sequence[float | None]]) -> Figure:
    """One line a column (tau, speedup, ...) against the values of the setting that was varied."""
    lines = [
        {"type": "scatter", "mode": "lines+markers", "name": column, "x": list(values), "y": list(figures)}
        for column, figures in columns.items()
    ]
    return _figure(lines, name, "")


def write_figures(folder: Path, figures: Mapping[str, Figure]) -> None:
    """NAME.json each, and NAME.html (with plotly.min.js beside it) where plotly is installed. Empty ones are left out.

    Raises SpectraError where the folder cannot be written.
    """
    make_folder(folder)
    drawn = {name: figure for name, figure in figures.items() if figure["data"]}
    for name, figure in drawn.items():
        write_text(folder / f"{name}.json", json.dumps(figure) + "\n", "out")
    if drawn and importlib.util.find_spec("plotly") is not None:
        import plotly.io
        import plotly.offline

        # plotly's own write_html keeps a plotly.min.js that is there, cut short by a kill or of another version
        write_text(folder / "plotly.min.js", plotly.offline.get_plotlyjs(), "out")
        for name, figure in drawn.items():
            write_text(folder / f"{name}.html", plotly.io.to_html(figure, include_plotlyjs="directory"), "out")


def _figure(data: list[Figure], x: str, y: str) -> Figure:
    layout = {"xaxis": {"title": {"text": x}}, "yaxis": {"title": {"text": y}, "rangemode": "tozero"}}
    return {"data": data, "layout": layout}
