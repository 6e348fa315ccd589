"""A store of text that the model writes, without a browser: what it costs, how far it is, Stop, limits, refusals."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from fakes_engine import FakeEngine

from spectra.errors import SpectraError
from spectra.settings import TextOrder
from visual.run.admission import UNHEARD, AdmissionQueue
from visual.run.store_build import StoreBuild, TextWriting, WrittenStore, stream, written_store
from visual.tabs.write_store import offer_text, order_of, wanted
from visual.wire.writing_cost import writing_cost

ORDER = TextOrder(("one", "two"), 3, 40)


def messages(own: WrittenStore, admission: AdmissionQueue | None = None) -> list[dict[str, Any]]:
    return list(own.stream(admission or AdmissionQueue()))


def until(stream: Iterator[dict[str, Any]], texts: int) -> dict[str, Any]:
    return next(message for message in stream if message.get("texts", 0) >= texts)


@pytest.mark.parametrize(
    ("speed", "already", "words"),
    [
        (40.0, 0, "It writes 4,800 tokens at most; about 2 minutes at the 40 tokens/s that plain decoding has here. "),
        (0.0, 0, "It writes 4,800 tokens at most; how long it takes is not measured yet: the first text will tell. "),
        (2.0, 4, "It writes 4,000 tokens at most; about 33 minutes at the 2 tokens/s"),
        (2.0, 4, "4 texts are written already and stay."),
        (0.5, 0, "about 2.7 hours"),
        (2345.0, 0, "about 2 seconds at the 2,345 tokens/s that"),
        (9600.0, 0, "about a second at the 9,600 tokens/s that"),
        (40.0, 24, "24 texts are written already: only the store is built, 83 kB at most."),
        (40.0, 30, "30 texts are written already: only the store is built, 102 kB at most."),
        (1.2, 0, "about 67 minutes at the 1.2 tokens/s"),
    ],
)
def test_the_cost_is_said_from_what_was_measured(speed: float, already: int, words: str) -> None:
    assert words in writing_cost(TextOrder((), 24, 200), speed, 600, already)


@pytest.mark.parametrize(("speed", "cut"), [(40.0, False), (8.0, False), (7.9, True), (0.0, True)])
def test_a_cost_beyond_one_turn_says_when_the_turn_ends(speed: float, cut: bool) -> None:
    """A large model on a CPU was said to write for 33 minutes, and was stopped after ten."""
    said = "A turn ends after 10 minutes, and a store is built from the texts that are finished; start again to go on."
    assert (said in writing_cost(TextOrder((), 24, 200), speed, 600)) == cut


def test_the_time_left_goes_by_the_texts_of_this_turn() -> None:
    """Four of six texts are there, two of them from before; the other two took five seconds each."""
    writing = TextWriting("a", FakeEngine(), TextOrder((), 6, 40), already=2, texts=2, begun=100.0, latest=100.0)
    assert writing.left(103.0) is None
    writing.texts, writing.latest = 4, 110.0
    assert (writing.left(110.0), writing.left(113.0), writing.left(130.0)) == (10.0, 7.0, 0.0)


def test_texts_are_written_then_a_store_is_built_of_them() -> None:
    engine = FakeEngine(step_seconds=0.04)
    heard = messages(written_store(engine, "a", ORDER, 1000))
    kinds = [message["kind"] for message in heard]
    writing = [message for message in heard if message["kind"] == "writing"]
    assert kinds[0] == "writing" and kinds[-1] == "built" and "written" in kinds
    assert writing[0]["left"] is None and writing[-1]["left"] < 2 and writing[-1]["of"] == 3
    assert heard[kinds.index("written")] == {"kind": "written", "texts": 3, "of": 3, "tokens": 120}
    assert heard[-1]["card"]["kept"]["texts"] == 3 and engine.stores("a")[0] == heard[-1]["card"]
    assert [card["name"] for card in engine.stores("b")] == ["smollm2-code"]


def test_the_end_of_the_server_stops_what_goes_on_and_waits_for_it() -> None:
    """The process was aborted where a thread was inside torch when the interpreter ended."""
    admission = AdmissionQueue()
    own = written_store(FakeEngine(step_seconds=0.02), "a", TextOrder(("one",), 300, 40), 1000)
    running = own.stream(admission)
    until(running, 1)
    assert admission.served == 1
    admission.close(5.0)
    assert admission.served == 0 and own.writing.stop.is_set()
    with pytest.raises(SpectraError, match="the server is being stopped"):
        list(running)  # no build of what was written


def test_stop_keeps_what_is_written_and_it_goes_on_later() -> None:
    engine = FakeEngine(step_seconds=0.02)
    many = TextOrder(("one",), 300, 40)
    own = written_store(engine, "a", many, 1000)
    running = own.stream(AdmissionQueue())
    until(running, 2)
    own.stop.set()
    rest = list(running)
    assert [message["kind"] for message in rest if message["kind"] != "building"] == ["written", "built"]
    kept = rest[-1]["card"]["kept"]["texts"]
    assert 2 <= kept < 20 and engine.written("a", many) == kept
    assert messages(written_store(engine, "a", TextOrder(("one",), kept + 1, 40), 1000))[-1]["card"]["kept"] == {
        "texts": kept + 1,
        "tokens": 99,
    }


def test_stop_before_the_first_text_builds_nothing_and_the_line_is_free() -> None:
    engine, admission = FakeEngine(step_seconds=0.1), AdmissionQueue()
    own = written_store(engine, "a", ORDER, 1000)
    running = own.stream(admission)
    next(running)
    own.stop.set()
    assert [message["kind"] for message in running] == ["halted"]
    assert engine.own == {} and admission.served == 0


def test_a_page_that_closes_ends_the_writing_and_nothing_is_built() -> None:
    engine, admission = FakeEngine(step_seconds=0.02), AdmissionQueue()
    running = written_store(engine, "a", TextOrder((), 300, 40), 1000).stream(admission)
    until(running, 1)
    running.close()  # type: ignore[attr-defined]
    deadline = time.monotonic() + 5
    while admission.served:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert engine.own == {}


class Gone:
    """Nobody listens any more after so many seconds."""

    def __init__(self, after: float) -> None:
        self.after = after

    def address(self, visitor: str) -> str:
        return ""

    def left(self, visitor: str, since: float) -> bool:
        return time.monotonic() - since > self.after


@pytest.mark.parametrize("waits", [False, True])
def test_a_build_that_ended_because_nobody_listened_says_so_to_whom_it_reaches(waits: bool) -> None:
    """The bar went away without a word."""

    def build(on_progress: Callable[[str, int, int], None]) -> dict[str, Any]:
        while True:
            time.sleep(0.01)
            on_progress("scoring", 1, 2)

    admission = AdmissionQueue(visitors=Gone(0.5))
    first = admission.join("b") if waits else None
    heard = list(stream(StoreBuild("a", build), admission))
    assert heard[-1] == {"kind": "refused", "field": "", "text": UNHEARD}
    assert ("queued" in [message["kind"] for message in heard]) == waits
    assert admission.served == (first is not None)


def test_nothing_is_built_for_one_who_left_while_it_was_written() -> None:
    engine = FakeEngine(step_seconds=0.02)
    heard = messages(written_store(engine, "a", TextOrder((), 300, 40), 1000), AdmissionQueue(visitors=Gone(0.6)))
    assert heard[-2]["kind"] == "written" and heard[-2]["texts"] > 0 and engine.own == {}
    assert heard[-1] == {"kind": "refused", "field": "", "text": UNHEARD}


def test_the_time_limit_ends_the_writing_and_what_is_there_is_built() -> None:
    engine = FakeEngine(step_seconds=0.02)
    own = written_store(engine, "a", TextOrder((), 300, 40), 1000)
    own.writing.max_seconds = 0.6
    assert messages(own)[-1]["kind"] == "built"
    assert 0 < engine.written("a", TextOrder((), 300, 40)) < 300


def test_a_build_that_takes_too_long_is_stopped_and_says_so() -> None:
    """Others waited for as long as a large model took to score 50,000 tokens."""

    def build(on_progress: Callable[[str, int, int], None]) -> dict[str, Any]:
        while True:
            time.sleep(0.01)
            on_progress("scoring", 1, 2)

    admission = AdmissionQueue()
    heard = list(stream(StoreBuild("a", build, max_seconds=0.3), admission))
    text = "Stopped after 0.3 seconds, for others wait; give less text."
    assert heard[-1] == {"kind": "refused", "field": "", "text": text} and admission.served == 0
    assert StoreBuild("a", build).max_seconds == 600


def test_writing_lets_others_decode_beside_it_and_waits_for_who_is_alone() -> None:
    admission = AdmissionQueue(together=lambda: 2)
    other = admission.join("b")
    own = written_store(FakeEngine(step_seconds=0.01), "a", ORDER, 1000)
    running = own.stream(admission)
    assert next(running)["kind"] == "writing"
    heard = until(running, 3)
    while heard["kind"] != "queued":
        heard = next(running)
    assert heard["ahead"] == 1  # the build is alone
    admission.leave(other)
    assert list(running)[-1]["kind"] == "built"


def test_what_the_engine_refuses_is_one_message_at_the_field() -> None:
    heard = messages(written_store(FakeEngine(), "a", TextOrder(("refuse",), 3, 40), 1000))
    assert heard[-1] == {"kind": "refused", "field": "texts", "text": "one of 9000 tokens does not fit; shorten it"}


def test_a_visitor_with_enough_runs_is_refused() -> None:
    admission = AdmissionQueue(max_own=1)
    admission.join("a")
    with pytest.raises(SpectraError, match="go: 1 of your runs"):
        list(stream(TextWriting("a", FakeEngine(), ORDER), admission))


@pytest.mark.parametrize(
    ("prompts", "texts", "tokens", "problem"),
    [
        ("", "", 40, "texts: it is empty; give a number"),
        ("", 0, 40, "texts: 0 is out of range; give a whole number from 1 to 400"),
        ("", 3.5, 40, "texts: 3.5 is not a whole number"),
        ("", 24, 8, "text-tokens: 8 is out of range; give a whole number from 32 to 1024"),
        ("", 400, 1024, "texts: 409,600 tokens in all; give at most 50,000"),
        ("x" * 20_001, 24, 40, "prompts: 1 lines of 20001 characters"),
        ("a\n" * 401, 24, 40, "prompts: 401 lines"),
        ("\ud800", 24, 40, "prompts: they are not valid Unicode"),
    ],
)
def test_bad_values_are_named(prompts: str, texts: object, tokens: object, problem: str) -> None:
    with pytest.raises(SpectraError) as error:
        order_of(prompts, texts, tokens)
    assert str(error.value).startswith(problem)


def test_prompts_are_the_lines_that_hold_something() -> None:
    assert order_of(" one \n\n two\n", 24.0, "40") == TextOrder(("one", "two"), 24, 40)


def test_the_offer_is_made_where_no_store_fits() -> None:
    assert not wanted(FakeEngine())
    without = FakeEngine(shared=(), model="Some<b>-7B")
    assert wanted(without)
    assert "No datastore fits Some&lt;b&gt;-7B yet, so let it write one. It writes 4,608 tokens" in offer_text(without)
