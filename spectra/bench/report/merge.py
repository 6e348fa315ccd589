"""`python -m spectra.bench report DIR...`: tables over the rows of several runs, one section a device and setting."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from spectra.bench.report.charts import run_figures, write_figures
from spectra.bench.report.figures import by_method
from spectra.bench.report.tables import markdown, speeds, throughputs
from spectra.bench.run.rows import ROWS, Row, lacking, make_folder, read_rows
from spectra.errors import SpectraError
from spectra.io.files import write_text

UNSAID = {"step": "eager"}
NEEDED = (
    "task", "id", "category", "method", "repeat", "seconds", "new_tokens", "steps", "tau", "mac_tp", "identical",
    "distinct4", "sources",
)  # fmt: skip
"""What the tables read of every row."""
WORDS, NUMBERS = ("task", "id", "method"), ("seconds", "new_tokens", "repeat", "distinct4")
OF_STEPS = ("steps", "tau", "mac_tp", "queries")
"""Numbers that the rows of a peer lack."""
MOST = 1e15
AGAIN = "again"
"""Marks a row whose prompt and method are in an earlier folder too."""


class Setting(NamedTuple):
    """The values of a row, lists as text. Rows that agree in these belong in one table."""

    model: object
    dtype: object
    numerics: object
    step: object
    processor: object
    threads: object
    temperature: object
    top_p: object
    max_new_tokens: object
    nodes: object
    seed: object
    datastores: object
    cost: object
    drafts: object
    assistant: object
    weights: object


class _Run(NamedTuple):
    """What a repeat has in common with the run it repeats."""

    setting: Setting
    task: object
    id: object
    method: object


@dataclass(frozen=True, slots=True)
class ReportOptions:
    """folders: that `run` has written. out: a file for the tables. charts: a folder for the figures."""

    folders: tuple[Path, ...]
    out: Path | None = None
    charts: Path | None = None


class _Found(NamedTuple):
    """A row, and where it stands."""

    folder: Path
    row: Row


def run_report(options: ReportOptions) -> int:
    """The subcommand `report`."""
    sections = merge(options.folders)
    text = report(sections)
    if options.charts is not None:
        make_folder(options.charts, "charts")  # the tables may go there too
    if options.out is not None:
        write_text(options.out, text, "out")
    for number, rows in enumerate(sections.values(), 1):
        if options.charts is not None:
            folder = options.charts / f"{number}" if len(sections) > 1 else options.charts
            write_figures(folder, run_figures(rows))
    print(text)
    return 0


def merge(folders: Sequence[Path]) -> dict[str, list[Row]]:
    """Rows by setting, in words. A run that an earlier folder has too (plain decoding's, as a rule) is one repeat more.

    Raises SpectraError for a folder without rows, a damaged row, and a row that is there twice.
    """
    found = list(_read(folders))
    settings = _completed([_setting_of(one.row) for one in found])
    groups: dict[Setting, list[Row]] = {}
    seen: dict[_Run, list[_Found]] = {}
    for setting, one in zip(settings, found, strict=True):
        row = one.row
        runs = seen.setdefault(_Run(setting, row["task"], row["id"], row["method"]), [])
        for other in runs:
            if other.row == row or (other.folder == one.folder and other.row["repeat"] == row["repeat"]):
                raise SpectraError("folders", f"{one.folder} and {other.folder} hold the same rows; give one of them")
        again = any(other.folder != one.folder for other in runs)
        groups.setdefault(setting, []).append(row | {"repeat": len(runs), AGAIN: True} if again else row)
        runs.append(one)
    varied = [i for i in range(len(Setting._fields)) if len({setting[i] for setting in groups}) > 1]
    return {_words(setting, varied): rows for setting, rows in groups.items()}


def _read(folders: Sequence[Path]) -> Iterator[_Found]:
    for folder in folders:
        rows = read_rows(folder / ROWS, "folders")
        if all(lacking(row, NEEDED) for row in rows):  # a whole row of another benchmark is not damaged
            none = "no rows of `run`" if rows else "no rows"
            raise SpectraError("folders", f"{none} in {folder / ROWS}; give folders that `run` has written")
        for number, row in enumerate(rows, 1):
            problem = lacking(row, NEEDED)
            if not problem and (name := _wrong(row)):
                problem = f"{name} is not as written"
            if problem:
                raise SpectraError("folders", f"{folder / ROWS} line {number} is damaged ({problem}); remove that line")
            yield _Found(folder, row)


def _wrong(row: Row) -> str:
    """The name of a value that `run` does not write, or ""."""
    stepped = row["tau"] is not None
    counts = {name: row.get(name) or {} for name in ("sources", "offered", "acceptance")}
    fine = {
        **{name: isinstance(row[name], str) for name in WORDS},
        **{name: _is_number(row[name]) for name in NUMBERS},
        **{name: row.get(name) is None or _is_number(row[name]) for name in OF_STEPS},
        "category": isinstance(row["category"], str | int | float | None),  # as a file of tasks has it
        "identical": row["identical"] is None or isinstance(row["identical"], bool),
        **{name: isinstance(some, dict) and all(map(_is_number, some.values())) for name, some in counts.items()},
        "step_tokens": isinstance(given := row.get("step_tokens") or [], list) and all(map(_is_number, given)),
    }
    if wrong := next((name for name, whole in fine.items() if not whole), ""):
        return wrong
    if row["seconds"] <= 0:
        return "seconds"
    if counts["offered"].keys() - counts["acceptance"].keys():
        return "acceptance"
    return "steps" if stepped and not row["steps"] else ""


def _is_number(value: object) -> bool:
    """Of those that a measurement gives."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= MOST


def _setting_of(row: Row) -> Setting:
    values = (row.get(name, UNSAID.get(name)) for name in Setting._fields)
    return Setting(*(json.dumps(value) if isinstance(value, list | dict) else value for value in values))


def _completed(settings: Sequence[Setting]) -> list[Setting]:
    """The same, where a row whose run used no draft model belongs to the one that did and agrees in everything else.

    Where there are several of these, it belongs to none of them.
    """
    drafts: dict[Setting, set[object]] = {}
    for setting in settings:
        if setting.drafts is not None:
            drafts.setdefault(setting._replace(drafts=None), set()).add(setting.drafts)
    completed = []
    for setting in settings:
        known = drafts.get(setting, set())  # empty for one that names its own
        completed.append(setting._replace(drafts=next(iter(known))) if len(known) == 1 else setting)
    return completed


def report(sections: Mapping[str, list[Row]]) -> str:
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


def _words(setting: Setting, varied: Sequence[int]) -> str:
    """What tells the section from the others; everything where there is one."""
    names = setting._fields
    plain = ("model", "processor", "dtype", "numerics")  # names that speak for themselves
    shown = varied or range(len(names))
    return ", ".join(str(setting[i]) if names[i] in plain else f"{names[i]} {setting[i]}" for i in shown)
