"""The Learn tab: a guided tour on the visitor's own last race. The browser has all it needs; nothing runs here."""

from pathlib import Path

from visual import palette
from visual.engine import Engine
from visual.run.race_file import RaceFile
from visual.serve import ASSETS
from visual.widgets import wire
from visual.wire.parting_file import read_parting


def build_learn(engine: Engine, recorded: Path = ASSETS / "learn") -> None:
    """Lay the tab out inside the current one. recorded: folder of what the chapters show besides the last race."""
    drafts = recorded / "two-drafts.json"
    facts = {
        "cost": [list(row) for row in engine.cost],
        "badges": list(engine.badges),
        "legend": palette.legend(),
        "parting": read_parting(recorded / "half-precision.json"),
        "drafts": RaceFile.read(drafts).snapshot() if drafts.exists() else None,
    }
    wire("learn", facts)
