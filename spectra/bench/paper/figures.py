"""The paper's own figures, from a JSON file: the one beside this file, or `--figures`. docs/measuring.md has its form.

Only what has a source is in it; a cell that is not there stays empty in the tables.
"""

import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from spectra.bench.report.tables import OVERALL
from spectra.errors import SpectraError
from spectra.io.file_kinds import FileKind
from spectra.io.json_text import read_json
from spectra.io.resources import package_root
from spectra.methods.presets import METHODS

KIND = FileKind("spectra-paper-figures", 1)
LARGEST = sys.float_info.max
SPEEDUP, TAU, MAC_TP, MIC_TP = COLUMNS = ("speedup", "tau", "Mac-TP", "Mic-TP")
"""What a cell may be: the speedup by Mac-TP, new tokens a forward pass, tokens/s."""


class Cell(NamedTuple):
    """Where a figure stands."""

    task: str
    method: str
    column: str


Cells = Mapping[Cell, float]


@dataclass(frozen=True, slots=True)
class PaperFigures:
    """source: where they are printed. stated: what is known besides, in words. models: cells by model."""

    source: str
    stated: tuple[str, ...]
    models: Mapping[str, Cells]

    def of(self, model: str) -> Cells:
        """Those of a hub id, or of a folder with its last part as the name; empty where there are none."""
        name = Path(model).name
        return next((cells for own, cells in self.models.items() if Path(own).name == name), {})


def read_figures(file: Path | None, tasks: Collection[str]) -> PaperFigures:
    """file: None is the one that comes with the project. tasks: those that may stand in it.

    Raises SpectraError naming `figures` and the place for what is no figure of a known task, method and column.
    """
    path = file or package_root() / "spectra" / "bench" / "paper" / "figures.json"
    try:
        data = read_json(path)
        if not KIND.fits(data) or data.get("version") != KIND.version:
            raise ValueError(f"it is no {KIND.format} of version {KIND.version}")
        stated = data.get("stated", [])
        if not isinstance(stated, list):
            raise ValueError("stated is no list")
        models = {model: dict(_cells(model, own, tasks)) for model, own in _items(data.get("models"), "models")}
        return PaperFigures(_text(data.get("source"), "source"), tuple(_text(one, "stated") for one in stated), models)
    except (OSError, ValueError) as error:
        raise SpectraError("figures", f"{path}: {' '.join(str(error).split())[:160]}; see docs/measuring.md") from error


def _cells(model: str, own: Any, tasks: Collection[str]) -> list[tuple[Cell, float]]:
    cells = []
    for task, methods in _items(own, model):
        _known(task, [*tasks, OVERALL], "task", model)
        for method, figures in _items(methods, f"{model}, {task}"):
            _known(method, METHODS, "method", f"{model}, {task}")
            for column, figure in _items(figures, f"{model}, {task}, {method}"):
                _known(column, COLUMNS, "column", f"{model}, {task}, {method}")
                if isinstance(figure, bool) or not isinstance(figure, int | float) or not 0 < figure <= LARGEST:
                    raise ValueError(f"{model}, {task}, {method}, {column} is no number above 0")
                cells.append((Cell(task, method, column), float(figure)))
    return cells


def _items(data: Any, where: str) -> list[tuple[str, Any]]:
    if not isinstance(data, dict):
        raise ValueError(f"{where} is no JSON object")
    return list(data.items())


def _known(name: str, names: Collection[str], what: str, where: str) -> None:
    if name not in names:
        raise ValueError(f"{where}: {name[:40]!r} is no {what}")


def _text(text: Any, where: str) -> str:
    if not isinstance(text, str) or not text.strip():
        raise ValueError(f"{where} is no text")
    return text
