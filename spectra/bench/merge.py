"""`python -m spectra.bench report DIR...`: tables over the rows of several runs, one section a device and setting."""

import argparse
import json
from pathlib import Path

from spectra.bench.charts import run_figures, write_figures
from spectra.bench.figures import Row, by_method
from spectra.bench.report import markdown, speeds, throughputs
from spectra.bench.rows import ROWS, make_folder, read_rows
from spectra.errors import SpectraError
from spectra.trace import write_text

SETTING = (
    "model", "dtype", "numerics", "step", "processor", "threads", "temperature", "top_p", "max_new_tokens", "nodes",
    "seed", "datastores", "cost", "drafts", "assistant",
)  # fmt: skip
"""Rows that agree in these belong in one table."""
UNSAID = {"step": "eager"}
NEEDED = (
    "task", "id", "category", "method", "repeat", "seconds", "new_tokens", "steps", "tau", "mac_tp", "identical",
    "distinct4", "sources",
)  # fmt: skip
"""What the tables read of every row."""
AGAIN = "again"
"""Marks a row whose prompt and method are in an earlier folder too."""


def run_report(chosen: argparse.Namespace) -> int:
    """The subcommand `report`."""
    sections = merge(chosen.folders)
    text = report(sections)
    if chosen.charts is not None:
        make_folder(chosen.charts)  # FILE may be in it
    if chosen.out is not None:
        write_text(chosen.out, text, "out")
    for number, rows in enumerate(sections.values(), 1):
        if chosen.charts is not None:
            write_figures(chosen.charts / f"{number}" if len(sections) > 1 else chosen.charts, run_figures(rows))
    print(text)
    return 0


def merge(folders: list[Path]) -> dict[str, list[Row]]:
    """Rows by setting, in words. A run that an earlier folder has too (plain decoding's, as a rule) is one repeat more.

    Raises SpectraError for a folder without rows, a damaged row, and a row that is there twice.
    """
    groups: dict[tuple[object, ...], list[Row]] = {}
    seen: dict[tuple[object, ...], list[tuple[Path, Row]]] = {}
    for folder in folders:
        rows = read_rows(folder / ROWS, "folders", NEEDED)
        if not rows:
            raise SpectraError("folders", f"no rows in {folder / ROWS}; give folders that `run` has written")
        for row in rows:
            setting = tuple(_said(row.get(name, UNSAID.get(name))) for name in SETTING)
            runs = seen.setdefault((setting, row["task"], row["id"], row["method"]), [])
            for other, known in runs:
                if known == row or (other == folder and known["repeat"] == row["repeat"]):
                    raise SpectraError("folders", f"{folder} and {other} hold the same rows; give one of them")
            again = any(other != folder for other, _ in runs)
            groups.setdefault(setting, []).append(row | {"repeat": len(runs), AGAIN: True} if again else row)
            runs.append((folder, row))
    varied = [i for i in range(len(SETTING)) if len({setting[i] for setting in groups}) > 1]
    return {_words(setting, varied): rows for setting, rows in groups.items()}


def report(sections: dict[str, list[Row]]) -> str:
    """The tables of each section; before them, where there are several, one of all side by side (Tables 3 and 5)."""
    if len(sections) == 1:
        return _section(*sections.values())
    together = {name: by_method(rows) for name, rows in sections.items()}
    parts = [
        "# Side by side\n\nSpeedup by Mac-TP and tau, all tasks together.\n\n" + speeds(together),
        "Tokens/s, and the speedup by Mic-TP.\n\n" + throughputs(together),
    ]
    parts += [f"# {name}\n\n{_section(rows)}" for name, rows in sections.items()]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _section(rows: list[Row]) -> str:
    """The tables, and which methods several folders ran on the same prompts."""
    methods = dict.fromkeys(row["method"] for row in rows if AGAIN in row)
    note = f"In several of the folders, counted as repeats: {', '.join(methods)}.\n\n" if methods else ""
    return note + markdown(rows)


def _said(value: object) -> object:
    """A list as text, so that it can be compared and printed."""
    return json.dumps(value) if isinstance(value, list) else value


def _words(setting: tuple[object, ...], varied: list[int]) -> str:
    """What tells the section from the others; everything where there is one."""
    shown = varied or range(len(SETTING))
    plain = ("model", "processor", "dtype", "numerics")  # names that speak for themselves
    return ", ".join(str(setting[i]) if SETTING[i] in plain else f"{SETTING[i]} {setting[i]}" for i in shown)
