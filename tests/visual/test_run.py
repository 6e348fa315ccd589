"""One race without a browser: messages are complete and in order, threads end, errors become one line."""

import json
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from fakes_engine import FakeEngine

from spectra.errors import SpectraError
from spectra.metrics import summarize
from visual.request import request_of
from visual.run.admission import AdmissionQueue
from visual.run.run import DRAW_SECONDS, Run, explain, stream, upto
from visual.wire.events import encode
from visual.wire.figures import level_of


def asked(prompt: str = "hello", tokens: int = 2000) -> Run:
    return Run.against_plain(request_of(prompt, "spectra", tokens, 0, 1))


def run(engine: FakeEngine, prompt: str = "hello", tokens: int = 120) -> tuple[Run, list[dict[str, Any]]]:
    race = asked(prompt, tokens)
    messages = [json.loads(encode(m)) for m in stream(engine, race, AdmissionQueue()) if m]
    return race, messages


def test_messages_hold_every_step_once_and_in_order() -> None:
    race, messages = run(FakeEngine(step_seconds=0.002))
    assert [m["kind"] for m in (messages[0], messages[-1])] == ["begin", "end"]
    for lane in ("plain", "method"):
        held: list[Any] = []
        for message in messages[1:-1]:
            assert message["from"][lane] == len(held)
            held += message["lanes"][lane]
        trace = race.traces[lane]
        assert [s for step in held for s in step["sources"]] == list(trace.sources)
        assert [tuple(piece) for step in held for piece in step["pieces"]] == trace.pieces
        assert messages[-1]["counts"][lane] == len(held) == len(trace.steps)


def test_final_figures_are_those_of_the_metrics() -> None:
    race, messages = run(FakeEngine(step_seconds=0))
    figures = messages[-1]["figures"]
    plain, method = (summarize(race.traces[lane].steps) for lane in ("plain", "method"))
    assert figures["speedup"] == pytest.approx(method.micro / plain.micro)
    assert figures["method"]["tau"] == pytest.approx(method.tau)
    assert figures["differs"] is None and figures["same"] == 120 and figures["whole"]


def test_a_race_tells_how_far_it_is_where_both_answers_are_equally_long() -> None:
    race, messages = run(FakeEngine(step_seconds=0.002))
    steps = {lane: race.traces[lane].steps for lane in race.lanes}
    assert messages[0]["lanes"] == {"plain": "autoregressive", "method": "spectra"}
    held = dict.fromkeys(steps, 0)
    levels = 0
    for message in messages[1:-1]:
        held = {lane: count + len(message["lanes"][lane]) for lane, count in held.items()}
        if held["method"]:
            plain, method = (steps[lane][: held[lane]] for lane in ("plain", "method"))
            assert message["level"] == pytest.approx(level_of(plain, method)._asdict())
            assert message["level"]["tokens"] == sum(len(step.tokens) for step in method)
            levels += 1
        else:
            assert "level" not in message
    assert levels and race.snapshot()["level"] == messages[-1]["figures"]["level"] == message["level"]


def test_a_run_of_other_lanes_has_no_level() -> None:
    request = request_of("hello", "spectra", 20, 0, 1)
    alone = Run(request, {"method": request})
    messages = [message for message in stream(FakeEngine(step_seconds=0), alone, AdmissionQueue()) if message]
    assert messages and all("level" not in message for message in messages)


def test_plain_is_measured_first_and_alone() -> None:
    engine = FakeEngine(step_seconds=0)
    run(engine)
    assert [answer.trace.method for answer in engine.answers] == ["autoregressive", "spectra"]
    assert all(answer.closed for answer in engine.answers)
    assert len(engine.answers[0].threads | engine.answers[1].threads) == 1
    assert threading.current_thread() not in engine.answers[0].threads


def test_a_snapshot_equals_the_deltas() -> None:
    race, messages = run(FakeEngine(step_seconds=0.001))
    snapshot = json.loads(encode(race.snapshot()))
    for lane in ("plain", "method"):
        assert snapshot["lanes"][lane] == [step for m in messages[1:-1] for step in m["lanes"][lane]]
    assert snapshot["end"] == messages[-1]


@pytest.mark.parametrize(("drawn", "a_second"), [(False, 4), (True, 2)])
def test_a_browser_gets_few_messages_and_fewer_of_lanes_that_it_draws_while_they_are_compared(
    drawn: bool, a_second: int
) -> None:
    race = replace(asked(tokens=300), drawn=drawn)
    begun = time.monotonic()
    messages = [m for m in stream(FakeEngine(step_seconds=0.004), race, AdmissionQueue()) if m]
    seconds = time.monotonic() - begun
    assert 3 < len(messages) <= a_second * seconds + 3, "beside the first, the last and the end"


def test_nothing_is_decoded_for_a_moment_before_each_lane_that_is_drawn() -> None:
    begun = time.monotonic()
    race = replace(asked(tokens=1), drawn=True)
    list(stream(FakeEngine(step_seconds=0), race, AdmissionQueue()))
    assert race.state == "done" and time.monotonic() - begun >= 2 * DRAW_SECONDS


@pytest.mark.parametrize("tokens", [16, 40])
def test_a_lane_that_is_drawn_is_sent_to_its_end_before_the_next_one_begins(tokens: int) -> None:
    race = replace(asked(tokens=tokens), drawn=True)
    messages = [m for m in stream(FakeEngine(step_seconds=0.004), race, AdmissionQueue()) if m]
    news = [m["lanes"] for m in messages if m["kind"] == "delta"]
    assert any(each["plain"] for each in news) and any(each["method"] for each in news)
    assert not any(each["plain"] and each["method"] for each in news)


def ended(race: Run) -> bool:
    assert race.thread is not None
    race.thread.join(2)
    return not race.thread.is_alive()


def test_closing_the_stream_ends_the_decoding_thread() -> None:
    engine = FakeEngine(step_seconds=0.01)
    race = asked()
    messages: Iterator[Any] = stream(engine, race, AdmissionQueue())
    next(messages), next(messages)
    messages.close()  # type: ignore[attr-defined]
    assert ended(race)
    assert engine.answers[-1].closed and len(engine.answers) == 1


def test_halt_keeps_what_was_decoded() -> None:
    engine = FakeEngine(step_seconds=0.005)
    race = asked()
    messages = stream(engine, race, AdmissionQueue())
    next(messages), next(messages)
    race.halt()
    snapshot = race.snapshot()
    assert snapshot["end"]["state"] == "stopped"
    assert len(snapshot["lanes"]["plain"]) == len(race.traces["plain"].steps) > 0
    assert snapshot["end"]["figures"]["method"] is None


def test_a_step_that_outlives_its_stop_is_no_part_of_the_run() -> None:
    race = asked()
    messages = stream(FakeEngine(step_seconds=0.3), race, AdmissionQueue())
    next(messages), next(messages)
    race.halt(wait=0.01)
    shown = len(race.events["plain"])
    assert ended(race)
    trace = race.traces["plain"]
    assert len(trace.steps) == shown and race.snapshot()["end"]["counts"]["plain"] == shown
    assert sum(size for size, _ in trace.pieces) <= len(trace.tokens)


def test_the_first_steps_of_a_trace_have_the_text_that_they_completed() -> None:
    answer = FakeEngine(step_seconds=0).answer(asked(tokens=40).request)
    list(answer)
    trace = answer.trace
    for count in range(len(trace.steps) + 1):
        part = upto(trace, count)
        ends = [sum(size for size, _ in trace.pieces[: place + 1]) for place in range(len(trace.pieces))]
        assert len(part.steps) == count
        assert part.pieces == trace.pieces[: sum(end <= len(part.tokens) for end in ends)]
    assert upto(trace, len(trace.steps)).text == trace.text != ""


def test_a_second_race_waits_in_line_and_is_told_how_long() -> None:
    engine, admission = FakeEngine(step_seconds=0.001), AdmissionQueue()
    first = stream(engine, asked(tokens=60), admission)
    next(first)
    race = asked(tokens=8)
    second = stream(engine, race, admission)
    assert next(second) == {"kind": "waiting", "ahead": 1}
    assert len(engine.answers) <= 2
    list(first)
    kinds = [m["kind"] for m in second if m]
    assert kinds[-1] == "end" and "begin" in kinds and race.state == "done"
    assert [answer.limit for answer in engine.answers] == [60, 60, 8, 8]


def test_one_who_waits_can_leave_and_decodes_nothing() -> None:
    engine, admission = FakeEngine(step_seconds=0), AdmissionQueue()
    holder = admission.join()
    race = asked()
    messages = stream(engine, race, admission)
    next(messages)
    race.halt()
    assert race.state == "stopped" and not race.active
    assert [m["kind"] for m in messages if m] == ["left"]
    admission.leave(holder)
    assert not engine.answers and admission.ahead(admission.join()) == 0


class Gone:
    """Nobody listens any more after so many seconds."""

    def address(self, visitor: str) -> str:
        return ""

    def left(self, visitor: str, since: float) -> bool:
        return time.monotonic() - since > 0.3


def test_a_run_that_nobody_listened_to_says_so_to_who_comes_back() -> None:
    """A connection that stood still for a while, without a word in the browser: the page showed "Stopped" and no
    reason."""
    race, admission = asked(), AdmissionQueue(visitors=Gone())
    last = [m for m in stream(FakeEngine(step_seconds=0.01), race, admission) if m][-1]
    assert (last["kind"], last["state"], ended(race)) == ("end", "stopped", True)
    assert "connection was lost" in last["problem"]["text"]
    holder = admission.join()
    waits = stream(FakeEngine(), asked(), admission)
    heard: list[str] = []
    with pytest.raises(SpectraError, match="connection was lost") as refused:
        heard.extend(message["kind"] for message in waits if message)
    assert refused.value.field == "go" and set(heard) == {"waiting", "left"}
    admission.leave(holder)


def test_a_run_that_takes_too_long_is_stopped_and_says_so() -> None:
    race = asked()
    last = [m for m in stream(FakeEngine(step_seconds=0.01), race, AdmissionQueue(), max_seconds=0.3) if m][-1]
    assert last["state"] == "stopped" and "ask for fewer tokens" in last["problem"]["text"]
    assert ended(race) and 0 < len(race.traces["plain"].tokens) < 2000
    many = Run(race.request, {**race.lanes, "another": race.request})
    last = [m for m in stream(FakeEngine(step_seconds=0.01), many, AdmissionQueue(), max_seconds=0.3) if m][-1]
    assert last["problem"]["text"] == "Stopped after 0.3 seconds; ask for fewer methods or tokens."


def test_closing_a_stream_that_waits_leaves_the_line() -> None:
    admission = AdmissionQueue()
    holder = admission.join()
    messages = stream(FakeEngine(), asked(), admission)
    next(messages)
    messages.close()  # type: ignore[attr-defined]
    admission.leave(holder)
    assert admission.ahead(admission.join()) == 0


def test_a_full_line_is_refused_at_the_button() -> None:
    admission = AdmissionQueue(1)
    admission.join()
    with pytest.raises(SpectraError, match="waiting; try again") as refused:
        next(stream(FakeEngine(), asked(), admission))
    assert refused.value.field == "go"


def test_an_engines_refusal_names_its_field() -> None:
    _, messages = run(FakeEngine(step_seconds=0), prompt="refuse")
    assert messages[-1]["state"] == "failed"
    assert messages[-1]["problem"] == {"field": "prompt", "text": "9000 tokens do not fit; give at most 8192"}


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_crash_is_one_line_without_its_details() -> None:
    _, messages = run(FakeEngine(step_seconds=0), prompt="break")
    text = messages[-1]["problem"]["text"]
    assert "secret" not in text and "\n" not in text and "RuntimeError" in text


@pytest.mark.parametrize(
    ("field", "change"),
    [
        ("prompt", {"prompt": "  "}),
        ("prompt", {"prompt": "x" * 20_001}),
        ("prompt", {"prompt": ["hi"]}),
        ("prompt", {"prompt": 5}),
        ("max_new_tokens", {"max_new_tokens": 0}),
        ("max_new_tokens", {"max_new_tokens": 2049}),
        ("max_new_tokens", {"max_new_tokens": 3.5}),
        ("max_new_tokens", {"max_new_tokens": None}),
        ("temperature", {"temperature": 2.01}),
        ("temperature", {"temperature": None}),
        ("temperature", {"temperature": float("nan")}),
        ("seed", {"seed": -1}),
        ("seed", {"seed": "seven"}),
        ("top_p", {"top_p": 0}),
    ],
)
def test_the_form_refuses_what_is_out_of_range(field: str, change: dict[str, Any]) -> None:
    good = {"prompt": "hi", "method": "spectra", "max_new_tokens": 16.0, "temperature": 0, "seed": 7.0}
    assert request_of(**good).max_new_tokens == 16
    with pytest.raises(SpectraError) as refused:
        request_of(**{**good, **change})
    assert explain(refused.value)["field"] == field
