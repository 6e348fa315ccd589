"""Recorded races: what a file must hold, what one that is none is told, and that the shipped ones are whole."""

import json
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from fakes_engine import recorded_race

from spectra.errors import SpectraError
from spectra.methods.presets import METHODS
from spectra.metrics import first_difference
from visual.run.race_file import MAX_VALUES, METHOD, RaceFile, shipped
from visual.serve import ASSETS
from visual.tabs import replay
from visual.wire.divergence_file import read_divergence
from visual.wire.events import encode, trace_events


def test_a_recording_shows_every_step_and_piece() -> None:
    race = RaceFile.from_json(encode(recorded_race()))
    message = json.loads(encode(race.snapshot()))
    for lane, trace in (("plain", race.plain), ("method", race.method)):
        events = message["lanes"][lane]
        assert len(events) == len(trace.steps) == message["end"]["counts"][lane]
        assert "".join(text for event in events for _, text in event["pieces"]) == trace.text
        assert [source for event in events for source in event["sources"]] == list(trace.sources)
    assert message["end"]["figures"]["differs"] is None
    assert "Fake-135M" in race.note and "2 threads of Fake CPU" in race.note and "bf16" in race.note
    race.method.environment["threads"] = 1
    assert "1 thread of Fake CPU" in race.note


def test_a_race_that_was_stopped_says_so() -> None:
    data = recorded_race()
    assert "stopped" not in RaceFile.from_json(encode(data)).note
    data["method"]["steps"][-1]["finish"] = ""
    assert RaceFile.from_json(encode(data)).note.endswith(", stopped before its end")


def test_what_a_file_says_of_itself_is_cut_to_a_line() -> None:
    race = RaceFile.from_json(encode({**recorded_race(), "title": "t" * 500}))
    assert len(race.title) == 120


def test_a_race_of_every_preset_can_be_read() -> None:
    """docs/drafter.md says what a name may be."""
    assert not [name for name in METHODS if not METHOD.fullmatch(name)]
    assert not METHOD.fullmatch("my_pairs") and not METHOD.fullmatch("Pairs")


def test_a_piece_belongs_to_the_step_that_completed_it() -> None:
    race = RaceFile.from_json(encode(recorded_race()))
    done = 0
    for step, event in zip(race.method.steps, trace_events(race.method), strict=True):
        done += len(step.tokens) - sum(tokens for tokens, _ in event["pieces"])
        assert 0 <= done < 4


def test_a_step_without_guesses_has_the_token_before_it() -> None:
    race = RaceFile.from_json(encode(recorded_race()))
    for trace in (race.plain, race.method):
        plain = [(step, event) for step, event in zip(trace.steps, trace_events(trace), strict=True) if "last" in event]
        assert [step for step, _ in plain] == [step for step in trace.steps if len(step.tree) == 1]
        assert all("tree" not in event and event["last"] == step.tree.tokens[0] for step, event in plain)


def changed(change: Callable[[dict[str, Any]], object]) -> str:
    race = json.loads(encode(recorded_race()))
    change(race)
    return encode(race)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "not JSON"),
        ("[1]", "this is no race"),
        ("[" * 100_000, "not JSON"),
        ('{"format": "spectra-trace"}', "this is no race"),
        ('{"format": "spectra-race", "version": 9}', "version"),
        ('{"format": "spectra-race", "version": 1}', '"plain" is missing'),
        ('{"format": "spectra-race", "version": 1, "plain": {}, "method": {}}', "plain: this is no trace"),
        (changed(lambda race: race["plain"]["steps"][3].pop("tokens")), "plain: damaged"),
        (changed(lambda race: race["method"].update(steps=[], pieces=[])), "method: it holds no steps"),
        (changed(lambda race: race["method"]["steps"].clear()), "method: damaged"),
        (
            changed(lambda race: [step.update(seconds=0.0) for step in race["plain"]["steps"]]),
            "plain: its steps took no",
        ),
        (changed(lambda race: race["method"]["steps"][0].update(sources=["<b>"])), "method: damaged"),
        (changed(lambda race: race.update(recorded=-1)), "recorded: '-1' is no day such as 2026-11-24"),
        (changed(lambda race: race.update(recorded="yesterday")), "recorded: 'yesterday' is no day"),
        (changed(lambda race: race.update(title=["a"])), """title: "['a']" is no text"""),
    ],
)
def test_a_file_that_is_no_race_is_told_why(text: str, problem: str) -> None:
    with pytest.raises(SpectraError) as refused:
        RaceFile.from_json(text)
    assert refused.value.field == "file" and problem in str(refused.value) and "\n" not in str(refused.value)


def test_signs_without_a_look_of_their_own_are_left_out_of_the_note() -> None:
    """U+202E turned the rest of the line around."""
    race = RaceFile.from_json(
        changed(lambda race: [race[lane].update(model="a\u202eb\n") for lane in ("plain", "method")])
    )
    assert race.note.split(", ")[0] == "ab"


def test_a_file_that_is_no_text_is_told_why(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(b"\xff\xfe\x00")
    for path in (tmp_path / "a.json", tmp_path / "missing.json"):
        with pytest.raises(SpectraError, match="cannot be read as text"):
            RaceFile.read(path)


def test_a_file_of_many_values_is_refused_before_they_are_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """31 MB of empty lists needed over a gigabyte, and kept the whole server waiting for 17 seconds."""
    race = encode(recorded_race())
    (tmp_path / "a.json").write_text(race)
    assert RaceFile.read(tmp_path / "a.json").plain.tokens
    monkeypatch.setattr("spectra.io.json_text.parse_json", None)
    (tmp_path / "a.json").write_text(f'{race[:-1]}, "more": [{"[]," * (MAX_VALUES // 2)}0]}}')
    with pytest.raises(SpectraError, match="over 3,000,000 values"):
        RaceFile.read(tmp_path / "a.json")


def test_the_shipped_races_are_whole_small_and_identical() -> None:
    files = shipped(ASSETS / "races")
    assert files
    for path in files.values():
        race = RaceFile.read(path)
        assert path.stat().st_size < 300_000
        assert race.title and race.recorded and race.method.finish
        assert first_difference(race.plain.tokens, race.method.tokens) is None


def test_the_shipped_divergence_is_one() -> None:
    shown = read_divergence(ASSETS / "learn" / "half-precision.json")
    assert shown is not None
    (a, b), (c, d) = shown["stock"]["alone"], shown["stock"]["wide"]
    assert a >= b and d >= c and (a - b, c - d) != (0, 0)  # each token is the best of its own pass
    assert shown["exact"]["alone"] == shown["exact"]["wide"] and shown["stock"]["rows"] > 1
    assert shown["tokens"][0] != shown["tokens"][1] and shown["dtype"] == "bf16"


def test_a_divergence_of_another_kind_is_refused(tmp_path: Path) -> None:
    assert read_divergence(tmp_path / "none.json") is None
    (tmp_path / "other.json").write_text('{"format": "spectra-race", "version": 1}')
    with pytest.raises(SpectraError, match="no spectra-divergence file"):
        read_divergence(tmp_path / "other.json")


def test_race_files_are_read_one_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """32 MB of empty lists take a gigabyte while they are read, and a visitor may bring four such files at once."""
    inside: list[int] = []
    most: list[int] = []

    def read(path: Path) -> RaceFile:
        inside.append(1)
        most.append(len(inside))
        time.sleep(0.05)
        inside.pop()
        raise SpectraError("file", "it is none")

    monkeypatch.setattr(replay.RaceFile, "read", read)
    with ThreadPoolExecutor(4) as visitors:
        assert all("refused" in text for text in visitors.map(replay.ReplayHandlers({}).load, [tmp_path] * 4))
    assert most == [1] * 4
