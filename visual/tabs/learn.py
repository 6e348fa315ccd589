"""The Learn tab: a guided tour on the visitor's own last race. The browser has all it needs; nothing runs here."""

from visual import palette
from visual.engine import Engine
from visual.widgets import wire


def build_learn(engine: Engine) -> None:
    """Lay the tab out inside the current one."""
    wire(
        "learn", {"cost": [list(row) for row in engine.cost], "badges": list(engine.badges), "legend": palette.legend()}
    )
