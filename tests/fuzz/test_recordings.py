"""Traces and race files with any part changed: a short refusal, or a message that a browser can read."""

import json
import math
from typing import Any

import pytest
from damage import changed, is_one_short_line, places, texts, values
from fakes_engine import recorded_race
from hypothesis import example, given
from hypothesis import strategies as st

from spectra.errors import SpectraError
from spectra.metrics import summarize
from spectra.trace import Trace
from visual.run.race_file import METHOD, RaceFile
from visual.wire.events import send

RACE = json.loads(json.dumps(recorded_race(12, explain=True)))
PLACES = places(RACE)


def no_constant(text: str) -> Any:
    raise AssertionError(f"{text} is no JSON")


def shown(text: str) -> None:
    """Refused, or a message with finite numbers, a known lane and text that can be sent."""
    try:
        race = RaceFile.from_json(text)
    except SpectraError as error:
        assert error.field == "file" and is_one_short_line(error)
        return
    message = send(race.snapshot())
    assert "<" not in message
    data = json.loads(message.encode(), parse_constant=no_constant)
    for lane, steps in data["lanes"].items():
        assert steps and METHOD.fullmatch(data["begin"]["lanes"][lane])
        assert all(math.isfinite(step["seconds"]) and step["seconds"] >= 0 for step in steps)
    assert len(data["begin"]["recorded"]) < 2000


@given(st.sampled_from(PLACES), values)
@example(("plain", "method"), "__proto__")
@example(("method", "method"), "constructor")
@example(("method", "steps", 0, "seconds"), float("nan"))
@example(("method", "steps", 0, "seconds"), -1.0)
@example(("plain", "steps", 0, "prefill_seconds"), float("inf"))
@example(("plain", "pieces", 0, 1), "\ud800")
@example(("plain", "settings"), {"a": float("nan")})
@example(("plain", "environment", "threads"), ["x"] * 9000)
@example(("method", "environment", "threads"), "x" * 100_000)
@example(("method", "environment", "processor"), "x" * 100_000)
@example(("plain", "environment", "dtype"), [1])
@example(("title",), "\ud800")
@example(("version",), "x" * 100_000)
@example(("plain", "steps"), [])
@example(("plain", "steps", 0, "tokens"), "12")
@example(("method", "steps", 0, "inside", "hits", 0, "perplexity"), float("nan"))
@example(("method", "steps", 0, "inside", "hits", 0, "perplexity"), "inf")
@example(("method", "steps", 0, "inside", "hits", 0, "store"), "\ud800")
@example(("method", "steps", 0, "inside", "learned", 0, "origin"), "\ud800")
@example(("method", "steps", 0, "inside", "hits", 0, "token"), 10**400)
@example(("method", "settings", "temperature"), 10**400)
@example(("method", "settings", "shared"), 10**400)
def test_a_changed_part(place: tuple[Any, ...], value: Any) -> None:
    shown(json.dumps(changed(RACE, place, value)))


@given(st.binary(max_size=8), st.integers(0, len(json.dumps(RACE))), st.integers(0, 40))
def test_changed_bytes(bytes_in: bytes, at: int, out: int) -> None:
    text = json.dumps(RACE)
    shown(text[:at] + bytes_in.decode("latin-1") + text[at + out :])


@given(values)
def test_any_json(data: Any) -> None:
    shown(json.dumps(data))


@given(texts)
@example("1" * 5000)
def test_any_text(text: str) -> None:
    shown(text)
    try:
        Trace.from_json(text)
    except SpectraError as error:
        assert error.field == "trace" and is_one_short_line(error)


@given(st.sampled_from(places(RACE["method"])), values)
def test_a_trace_of_the_command_line(place: tuple[Any, ...], value: Any) -> None:
    text = json.dumps(changed(RACE["method"], place, value))
    try:
        trace = Trace.from_json(text)
    except SpectraError as error:
        assert error.field == "trace" and is_one_short_line(error)
        return
    again = Trace.from_json(trace.to_json())
    assert again == trace
    summarize(trace.steps)


def guessed_step() -> int:
    """The first step of the method that accepted a guess."""
    return next(number for number, step in enumerate(RACE["method"]["steps"]) if step["path"])


CONTRADICTIONS: dict[str, tuple[tuple[Any, ...], Any]] = {
    "not those of its path": (("sources", 0), "model"),
    "not those that the model picked": (("tokens", 0), 9999),
    "accepted a node that was no guess": (("tree", "eligible", 1), False),
    "do not follow one another": (("index",), 77),
    "goes on after its end": (("finish",), "eos"),
    "is below zero": (("offered",), -3),
    "is not a number from 0": (("seconds",), -0.5),
}


@pytest.mark.parametrize("said", CONTRADICTIONS)
def test_a_step_that_contradicts_itself_is_refused(said: str) -> None:
    place, value = CONTRADICTIONS[said]
    step = guessed_step()
    assert RACE["method"]["steps"][step]["path"][0] == 1 and step + 1 < len(RACE["method"]["steps"])
    with pytest.raises(SpectraError, match=said):
        RaceFile.from_json(json.dumps(changed(RACE, ("method", "steps", step, *place), value)))


def test_answers_that_are_no_race_are_refused() -> None:
    for said, race in {
        "not follow one another": changed(RACE, ("method", "steps"), RACE["method"]["steps"][1:]),
        "the text is of": changed(RACE, ("method", "pieces"), RACE["method"]["pieces"][1:]),
        "spectra is not plain decoding": {**RACE, "plain": RACE["method"]},
        "not of one model to one prompt": changed(RACE, ("plain", "prompt"), "another one"),
    }.items():
        with pytest.raises(SpectraError, match=said):
            RaceFile.from_json(json.dumps(race))


@pytest.mark.parametrize("place", ["settings", "environment"])
def test_facts_that_are_nested_as_deeply_as_can_be_read(place: str) -> None:
    """They could be read and not written again."""
    text = json.dumps({**RACE["method"], place: {"deep": "HERE"}})
    for depth in range(850, 1000):
        try:
            Trace.from_json(text.replace('"HERE"', "[" * depth + "]" * depth))
        except SpectraError as error:
            assert error.field == "trace" and is_one_short_line(error)


def test_a_setting_of_hundreds_of_digits_is_refused() -> None:
    """The page would make a float of it."""
    with pytest.raises(SpectraError, match="a number of 401 digits is no setting"):
        RaceFile.from_json(json.dumps(changed(RACE, ("method", "settings", "temperature"), 10**400)))


def test_a_tree_larger_than_any_method_makes_is_refused() -> None:
    """A chain of 30,000 guesses, in a file of 1 MB, held up the browser's tab for over a minute."""
    step = guessed_step()
    tree = RACE["method"]["steps"][step]["tree"]

    def chain(size: int) -> str:
        more = range(len(tree["tokens"]), size)
        grown = {
            "tokens": [*tree["tokens"], *(7 for _ in more)],
            "parents": [*tree["parents"], *(node - 1 for node in more)],
            "sources": [*tree["sources"], *(["forward"] for _ in more)],
            "eligible": [*tree["eligible"], *(True for _ in more)],
            "probability": [*tree["probability"], *(0.5 for _ in more)],
        }
        return json.dumps(changed(RACE, ("method", "steps", step, "tree"), grown))

    assert len(RaceFile.from_json(chain(1025)).method.steps[step].tree) == 1025
    with pytest.raises(SpectraError, match=r"^file: method: a tree of 1026 nodes, over 1025; record it again$"):
        RaceFile.from_json(chain(1026))


@pytest.mark.parametrize("lane", ["plain", "method"])
def test_more_text_than_a_browser_can_lay_out_is_refused(lane: str) -> None:
    """A million letters in one piece held the tab up for 20 seconds."""

    def long(letters: int) -> str:
        tokens, text = RACE[lane]["pieces"][0]
        rest = sum(len(piece) for _, piece in RACE[lane]["pieces"][1:])
        return json.dumps(changed(RACE, (lane, "pieces", 0), [tokens, (text + "ab " * letters)[: letters - rest]]))

    RaceFile.from_json(long(300_000))
    with pytest.raises(SpectraError, match=rf"^file: {lane}: its answer has over 300,000 letters; record another$"):
        RaceFile.from_json(long(300_001))
    both = changed(RACE, ("plain", "prompt"), "x" * 300_001)
    with pytest.raises(SpectraError, match=r"^file: plain: its prompt has over 300,000 letters; "):
        RaceFile.from_json(json.dumps(changed(both, ("method", "prompt"), "x" * 300_001)))
