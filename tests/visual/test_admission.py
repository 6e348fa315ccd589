"""Who is served: several together, one that wants to be alone by itself, and all in order of arrival."""

import threading
from itertools import islice
from typing import Any

import pytest
from fakes_engine import FakeEngine

from app import AppOptions
from spectra.errors import SpectraError
from spectra.service.loading import ModelOptions
from spectra.settings import AnswerRequest
from visual.engine import ProgressCallback
from visual.guard import Guard, RequestLimits
from visual.request import request_of
from visual.run.admission import UNHEARD, AdmissionQueue
from visual.run.run import Run, stream


def queue(together: int = 3, **options: Any) -> AdmissionQueue:
    return AdmissionQueue(together=lambda: together, **options)


def test_so_many_are_served_together_and_the_rest_waits_in_order() -> None:
    line = queue()
    tickets = [line.join() for _ in range(5)]
    assert [line.ahead(ticket) for ticket in tickets] == [0, 0, 0, 1, 2]
    line.leave(tickets[1])
    assert [line.ahead(ticket) for ticket in (tickets[0], *tickets[2:])] == [0, 0, 0, 1]


def test_one_who_is_to_be_alone_waits_for_all_before_and_all_after_wait_for_it() -> None:
    line = queue()
    first, second = line.join(), line.join()
    alone = line.join(alone=True)
    later = [line.join() for _ in range(4)]
    assert [line.ahead(ticket) for ticket in (first, second, alone, *later)] == [0, 0, 2, 3, 3, 3, 4]
    line.leave(first)
    assert line.ahead(alone) == 1
    line.leave(second)
    assert [line.ahead(ticket) for ticket in (alone, *later)] == [0, 1, 1, 1, 2]
    line.leave(alone)
    assert [line.ahead(ticket) for ticket in later] == [0, 0, 0, 1]


def test_a_turn_is_alone() -> None:
    line = queue()
    holder = line.join()
    served = threading.Event()

    def turn() -> None:
        with line.turn():
            served.set()

    thread = threading.Thread(target=turn)
    thread.start()
    assert not served.wait(0.1)
    line.leave(holder)
    thread.join(5)
    assert served.is_set()


def test_turns_of_a_visitor_who_listens_to_nothing_shut_nobody_out() -> None:
    """They counted for nobody, so those of one visitor filled the queue, and each stayed until it was its turn."""
    line = queue(together=1, visitors=Guard(RequestLimits(grace=0.2)))
    holder = line.join()
    said: list[str] = []

    def turn() -> None:
        try:
            with line.turn("deaf"):
                said.append("served")
        except SpectraError as error:
            said.append(str(error))

    threads = [threading.Thread(target=turn) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    many = "go: 3 of your runs are going on or waiting; stop one of them first"
    assert sorted(said) == [*[many] * 2, *[f"go: {UNHEARD}"] * 3]
    line.leave(holder)
    assert line.ahead(line.join()) == 0


def test_more_may_wait_where_more_are_served() -> None:
    line = queue(together=4, max_visitors=2)
    for _ in range(5):
        line.join()
    with pytest.raises(SpectraError, match="5 others are waiting"):
        line.join()


def race(*, alone: bool = False) -> Run:
    return Run.against_plain(request_of("hello", "spectra", 40, 0, 1), alone=alone)


def test_a_race_does_not_run_on_a_model_that_was_chosen_while_it_waited() -> None:
    """It was answered by the other model without a word, with settings that its panel had for the first."""
    engine, line = FakeEngine(step_seconds=0.01), queue(together=1)
    holder, waits = line.join(), race()
    messages = stream(engine, waits, line)
    assert next(messages) == {"kind": "waiting", "ahead": 1}
    engine.choose("Fake-1B")
    line.leave(holder)
    assert next(message for message in messages if message != {"kind": "waiting", "ahead": 1}) == {"kind": "left"}
    with pytest.raises(SpectraError, match="go: another visitor chose Fake-1B; look at its settings"):
        next(messages)
    assert not waits.active and waits.thread is None
    assert line.ahead(line.join()) == 0


def test_two_races_run_at_once_and_one_alone_after_them() -> None:
    engine, line = FakeEngine(step_seconds=0.01), queue()
    two = [stream(engine, race(), line) for _ in range(2)]
    assert [next(messages)["kind"] for messages in two] == ["begin", "begin"]  # type: ignore[index]
    last = race(alone=True)
    messages = stream(engine, last, line)
    assert next(messages) == {"kind": "waiting", "ahead": 2}
    for each in two:
        assert [message["kind"] for message in each if message][-1] == "end"
    assert [message["kind"] for message in messages if message][-1] == "end" and last.state == "done"


def test_a_shared_race_claims_no_speedup_and_keeps_its_counts() -> None:
    engine = FakeEngine(step_seconds=0.002, others=3)
    run = race()
    messages = [message for message in stream(engine, run, queue()) if message]
    deltas, figures = messages[1:-1], messages[-1]["figures"]
    assert all(message["shared"] == 3 and "level" not in message for message in deltas)
    assert figures["speedup"] is None and figures["shared"] == 3
    assert figures["method"]["tau"] > 1 and figures["differs"] is None
    assert run.snapshot()["shared"] == 3


@pytest.mark.parametrize("together", [0, 33])
def test_so_many_together_are_refused(together: int) -> None:
    with pytest.raises(SpectraError, match="together: "):
        AppOptions(ModelOptions(), together=together)


def test_a_gpu_that_is_lent_serves_one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPACES_ZERO_GPU", "true")
    assert AppOptions(ModelOptions(), together=1).together == 1
    with pytest.raises(SpectraError, match="together: a GPU that is lent"):
        AppOptions(ModelOptions(), together=2)


class Builds(FakeEngine):
    """Its store is built as soon as `may` is set."""

    may = threading.Event()

    def ready(self, request: AnswerRequest, on_progress: ProgressCallback) -> None:
        if self.builds(request):
            on_progress("indexing", 0, 1)
            self.may.wait(20)
            self.built += 1


def test_nobody_decodes_beside_a_run_that_builds_a_datastore() -> None:
    """A race beside it was slowed down and claimed the speedup of its two lanes all the same."""
    engine, line = Builds(step_seconds=0.01), queue()
    first = stream(engine, race(), line)
    assert next(first)["kind"] == "begin"  # type: ignore[index]
    building = stream(engine, Run.against_plain(request_of("hello", "rest", 40, 0, 1)), line)
    assert next(building) == {"kind": "waiting", "ahead": 1}
    assert [message["kind"] for message in first if message][-1] == "end"
    assert [message["kind"] for message in islice(building, 2) if message] == ["begin", "building"]
    beside = stream(engine, race(), line)
    assert next(beside) == {"kind": "waiting", "ahead": 1}
    engine.may.set()
    while next(beside)["kind"] == "waiting":  # type: ignore[index]
        continue
    assert line.served == 2  # once the store is there
    for each in (building, beside):
        assert [message["kind"] for message in each if message][-1] == "end"
