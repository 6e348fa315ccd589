"""A few visitors for some seconds who stop, reload, upload and leave: a short form of tests/tools/load.py."""

import importlib.util
from pathlib import Path
from types import ModuleType

TOOL = Path(__file__).parents[1] / "tools" / "load.py"


def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("load", TOOL)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_visitors_get_their_own_answers_and_leave_nothing_behind(tmp_path: Path) -> None:
    enough = {"whole answers": 3, "stopped in the middle": 1, "reload": 1, "deaf": 1, "upload": 1, "read": 1}
    counts, rows = tool().run(5, 150.0, tmp_path, enough)
    assert {name: counts[name] for name in enough if counts[name] < enough[name]} == {}, counts
    assert counts["asked last, answered"] == 1
    assert not {name: counts[name] for name in ("mixed", "neither", "no end within a minute") if counts[name]}
    assert not [name for name in counts if name.startswith("broken off")], counts
    assert not counts["threads left over"]
    assert rows
    assert (tmp_path / "load.csv").read_text().startswith("seconds,") and "<svg" in (tmp_path / "load.svg").read_text()
