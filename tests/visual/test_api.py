"""The public endpoint through `gradio_client`: typed, streamed, refused in one line, and the only one."""

import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import gradio as gr
import pytest
from fakes_engine import FakeEngine
from gradio.server_messages import EstimationMessage
from gradio_client import Client

from visual.page import build_page
from visual.serve import launch_options, queued

KEYS = {"lane", "text", "tokens", "tokens_per_second", "done", "shared"}


@pytest.fixture(scope="module")
def engine() -> FakeEngine:
    return FakeEngine(step_seconds=0.003)


@pytest.fixture(scope="module")
def page(engine: FakeEngine) -> Iterator[gr.Blocks]:
    page = queued(build_page(engine, max_visitors=12), 64)
    page.launch(prevent_thread_lock=True, quiet=True, **launch_options())
    yield page
    page.close()


@pytest.fixture(scope="module")
def served(engine: FakeEngine, page: gr.Blocks) -> tuple[FakeEngine, str]:
    return engine, page.local_url


def test_the_line_of_requests_looks_for_work_less_often_than_gradios_own() -> None:
    own, ours = (vars(page._queue) for page in (gr.Blocks().queue(), queued(gr.Blocks(), 4)))
    for pause in ("sleep_when_free", "progress_update_sleep_when_free"):
        assert own[pause] < ours[pause] < 0.1
    kept = "pending_messages_per_session"
    assert ours[kept].max_size == 16 < own[kept].max_size


def test_visitors_who_left_are_forgotten_and_those_who_listen_are_not() -> None:
    queue = queued(gr.Blocks(), 4)._queue
    for books, most in ((queue.pending_event_ids_session, 10_000), (queue.pending_messages_per_session, 16)):
        books["listens"] = "an answer that is being fetched"
        for number in range(most + 9):
            books[f"left-{number}"] = "an answer that nobody fetched"
            assert books["listens"]
        assert len(books) == most
        assert books.get("left-0") is None and books.get("nobody") is None


def test_a_message_for_a_visitor_who_is_forgotten_goes_nowhere() -> None:
    """It ended gradio's queue for all visitors."""
    queue = queued(gr.Blocks(), 4)._queue
    forgotten: Any = SimpleNamespace(alive=True, session_hash="gone", _id="one")
    queue.send_message(forgotten, EstimationMessage(queue_size=1))
    assert "gone" not in queue.pending_messages_per_session


def test_who_listens_twice_and_hangs_up_leaves_no_task_behind() -> None:
    """gradio lets such a visitor go twice; the error left a task that woke every 15 seconds until the server ended."""
    messages = queued(gr.Blocks(), 4)._queue.pending_messages_per_session
    messages["twice"] = "an answer"
    for _ in range(2):
        del messages["twice"]
    assert len(messages) == 0


def test_no_table_of_past_requests_is_made(page: gr.Blocks) -> None:
    for _ in range(3):
        Client(page.local_url, verbose=False).predict("hello", "spectra", 3, 0.0, 7, api_name="/compare")
    assert len(page._queue.event_analytics) == 1
    assert page._queue.cached_event_analytics_summary == {"functions": {}}


def ask(url: str, prompt: str, tokens: int) -> list[dict[str, Any]]:
    """Every dict that one call streams."""
    job = Client(url, verbose=False).submit(prompt, "spectra", tokens, 0.0, 7, api_name="/compare")
    job.result(timeout=60)
    return list(job.outputs())


def test_both_lanes_are_streamed_to_their_end(served: tuple[FakeEngine, str]) -> None:
    """The first lane waits at 40 tokens, and at 80, until the caller has one dict more."""
    engine, url = served
    received = threading.Semaphore(0)
    halts = [40, 80]

    def wait_for_the_caller(tokens: int) -> None:
        if halts and tokens >= halts[0]:
            halts.pop(0)
            assert received.acquire(timeout=60)

    engine.before_step = wait_for_the_caller
    rows = []
    for row in Client(url, verbose=False).submit("hello", "spectra", 150, 0.0, 7, api_name="/compare"):
        rows.append(row)
        received.release()
    engine.before_step = None
    assert all(set(row) == KEYS for row in rows)
    assert len([row for row in rows if row["lane"] == "plain" and not row["done"]]) >= 2
    last = {row["lane"]: row for row in rows}
    plain, method = engine.answers[-2:]
    assert last["plain"]["text"] == plain.trace.text == last["method"]["text"] == method.trace.text
    assert last["plain"]["tokens"] == 150 and last["plain"]["done"] and last["method"]["done"]
    assert last["method"]["tokens_per_second"] > last["plain"]["tokens_per_second"] > 0
    for lane in last:
        counts = [row["tokens"] for row in rows if row["lane"] == lane]
        assert counts == sorted(counts)


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"prompt": " "}, "prompt: it is empty"),
        ({"max_new_tokens": 0}, "max_new_tokens: 0 is out of range"),
        ({"temperature": 9}, "temperature: 9 is out of range"),
        ({"prompt": "refuse"}, "prompt: 9000 tokens do not fit"),
    ],
)
def test_bad_input_is_one_line_with_its_field(
    served: tuple[FakeEngine, str], changed: dict[str, Any], text: str
) -> None:
    asked = {"prompt": "hi", "method": "spectra", "max_new_tokens": 8, "temperature": 0.0, "seed": 1, **changed}
    with pytest.raises(Exception, match=text):
        Client(served[1], verbose=False).predict(**asked, api_name="/compare")


def test_nothing_else_can_be_called(served: tuple[FakeEngine, str]) -> None:
    api = Client(served[1], verbose=False).view_api(return_format="dict")
    assert list(api["named_endpoints"]) == ["/compare"] and not api["unnamed_endpoints"]


def test_ten_visitors_at_once_get_their_own_text_and_leave_no_thread(served: tuple[FakeEngine, str]) -> None:
    engine, url = served
    before = len(engine.answers)
    sizes = [20 + 3 * i for i in range(10)]
    got: dict[int, list[dict[str, Any]]] = {}
    visitors = [threading.Thread(target=lambda n=n: got.update({n: ask(url, f"visitor {n}", n)})) for n in sizes]
    for visitor in visitors:
        visitor.start()
    for visitor in visitors:
        visitor.join(60)
    answers = {answer.trace.prompt: answer.trace for answer in engine.answers[before:]}
    assert sorted(got) == sizes and len(engine.answers) == before + 20
    for n, rows in got.items():
        last = {row["lane"]: row for row in rows}
        assert {row["tokens"] for row in last.values()} == {n}
        assert last["method"]["text"] == answers[f"visitor {n}"].text and last["method"]["done"]
    pairs = zip(engine.answers[before::2], engine.answers[before + 1 :: 2], strict=True)
    assert all(a.trace.prompt == b.trace.prompt for a, b in pairs)
    decoded = {thread for answer in engine.answers for thread in answer.threads}
    for thread in decoded:
        thread.join(10)
    assert not [thread for thread in decoded if thread.is_alive()]


def test_a_call_that_is_cancelled_ends_its_decoding(served: tuple[FakeEngine, str]) -> None:
    engine, url = served
    job = Client(url, verbose=False).submit("long", "spectra", 2000, 0.0, 7, api_name="/compare")
    while not job.outputs():
        assert not job.done()
    job.cancel()
    answer = engine.answers[-1]
    waiting = threading.Event()
    for _ in range(60):
        if answer.closed:
            break
        waiting.wait(0.1)
    assert answer.closed and len(answer.trace.tokens) < 2000
