"""The Learn tab: a guided tour on the visitor's own last race. The browser has all it needs; nothing runs here."""

from visual import palette
from visual.engine import Engine
from visual.run.race_file import RaceFile
from visual.serve import ASSETS
from visual.widgets import wire
from visual.wire.parting_file import read_parting

RECORDED = ASSETS / "learn"
"""What the chapters show besides the last race."""


def build_learn(engine: Engine) -> None:
    """Lay the tab out inside the current one."""
    drafts = RECORDED / "two-drafts.json"
    facts = {
        "cost": [list(row) for row in engine.cost],
        "badges": list(engine.badges),
        "legend": palette.legend(),
        "parting": read_parting(RECORDED / "half-precision.json"),
        "drafts": RaceFile.read(drafts).snapshot() if drafts.exists() else None,
    }
    wire("learn", facts)
