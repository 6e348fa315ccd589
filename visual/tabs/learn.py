"""The Learn tab: a guided tour on the visitor's own last race. The browser has all it needs; nothing runs here."""

from visual import palette
from visual.engine import Engine
from visual.run.race_file import RaceFile
from visual.serve import ASSETS
from visual.widgets import wire
from visual.wire.divergence_file import read_divergence

RECORDED = ASSETS / "learn"
"""What the chapters show besides the last race."""


def build_learn(engine: Engine) -> None:
    """Lay the tab out inside the current one."""
    drafts = RECORDED / "two-drafts.json"
    facts = {
        "cost": [list(row) for row in engine.cost],
        "badges": list(engine.badges),
        "legend": palette.legend(),
        "divergence": read_divergence(RECORDED / "half-precision.json"),
        "drafts": RaceFile.read(drafts).snapshot() if drafts.exists() else None,
    }
    wire("learn", facts)
