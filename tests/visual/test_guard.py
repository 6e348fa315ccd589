"""What the server refuses whatever is asked, what it says in every header, and that nobody can shut others out."""

import asyncio
import http.client
import json
import secrets
import select
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import gradio as gr
import pytest
from browsing import serve
from fakes_engine import FakeEngine

from spectra.errors import SpectraError
from visual.asgi import declared
from visual.guard import UNHEARD, Guard, RequestLimits, address_of, listener_of, read_data, session_of
from visual.kept_tabs import KeptTabs
from visual.page import build_page
from visual.presence import OpenPages
from visual.run.admission import AdmissionQueue
from visual.serve import launch

GRACE = 0.6
LIMITS = RequestLimits(body=20_000, upload=60_000, starts=70, uploads=4, grace=GRACE, patience=1.0, upload_patience=1.0)
API = "/gradio_api"
ROOT = str(Path(__file__).parents[2]).encode()


class Server:
    """A served page with a slow model. ids: gradio's number of each handler that it names."""

    def __init__(self) -> None:
        self.engine = FakeEngine(models=("Fake-135M", "Other-1B"), step_seconds=0.05)
        self.guard = Guard(LIMITS)
        self.page, self.url = serve(self.engine, max_visitors=6, guard=self.guard)
        self.host = urlsplit(self.url).netloc
        config = json.loads(self.ask("GET", "/config")[1])
        self.ids = {one["api_name"]: one["id"] for one in config["dependencies"]}

    def ask(self, method: str, path: str, body: bytes | None = None, **headers: str) -> tuple[int, bytes, Any]:
        connection = http.client.HTTPConnection(self.host, timeout=20)
        try:
            connection.request(method, path, body, {"content-type": "application/json", **headers})
            answer = connection.getresponse()
            return answer.status, answer.read(), answer.headers
        finally:
            connection.close()

    def start(self, visitor: str, tokens: int = 2000) -> int:
        """The status of a race that is asked for by hand, its answers never fetched."""
        data = ["go on", "spectra", tokens, 0, 7]
        body = {"data": data, "fn_index": self.ids["compare"], "session_hash": visitor}
        return self.ask("POST", f"{API}/queue/join", json.dumps(body).encode())[0]

    def running(self) -> int:
        return sum(not answer.closed for answer in self.engine.answers)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    served = Server()
    yield served
    served.page.close()


def until(happened: Any, seconds: float = 15.0) -> None:
    end = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < end
        time.sleep(0.03)


def test_every_answer_says_what_may_be_loaded_and_who_may_frame_it(server: Server) -> None:
    for path in ("/", "/spectra/js/tabs/race.js", "/nothing", f"{API}/info"):
        headers = server.ask("GET", path)[2]
        policy = dict(part.strip().split(" ", 1) for part in headers["content-security-policy"].split(";"))
        assert policy["default-src"] == policy["frame-ancestors"] == "'self'"
        assert policy["object-src"] == "'none'"
        assert not [part for rule in policy.values() for part in rule.split() if part.startswith("http") or part == "*"]
        assert headers["x-content-type-options"] == "nosniff" and headers["x-frame-options"] == "SAMEORIGIN"


def test_on_a_space_it_may_be_framed_there(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPACE_ID", "a/b")
    headers = server.ask("GET", "/")[2]
    assert "frame-ancestors 'self' https://huggingface.co" in headers["content-security-policy"]
    assert headers["x-frame-options"] is None


def test_runs_that_nobody_listens_to_shut_nobody_out(server: Server) -> None:
    before = len(server.engine.answers)
    assert [server.start(f"deaf-{number}") for number in range(8)] == [200] * 8  # more than the line holds
    until(lambda: len(server.engine.answers) > before)
    until(lambda: not server.running(), 8 * GRACE + 8)
    from gradio_client import Client

    job = Client(server.url, verbose=False).submit("hello", "spectra", 20, 0.0, 7, api_name="/compare")
    assert job.result(timeout=10)["done"]


def test_a_visitor_who_never_listens_is_refused_after_a_few_starts(server: Server) -> None:
    """gradio kept the messages of every run, without end where each was of the same visitor."""
    server.guard._asked.clear()
    assert [server.start("deaf", 1) for _ in range(UNHEARD + 2)] == [200] * UNHEARD + [429] * 2
    line = listening(server, "deaf", "/queue/data?session_hash=")
    line.getresponse().read1(200)
    assert [server.start("deaf", 1) for _ in range(UNHEARD)] == [200] * UNHEARD  # somebody listens meanwhile
    line.close()
    until(lambda: not server.running(), 8 * GRACE + 8)
    server.guard._asked.clear()


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/nothing/call/{}"),
        ("GET", f"{API}/queue/data?session_hash={{}}&session_hash=nobody"),
        ("GET", f"{API}/queue/data?session_hash={{}}&session_hash="),
        ("GET", f"{API}/queue/data/?session_hash={{}}"),
        ("HEAD", f"{API}/queue/data?session_hash={{}}"),
    ],
)
def test_who_only_seems_to_listen_is_refused_after_a_few_starts(server: Server, method: str, path: str) -> None:
    """Such a request before each start, and gradio kept the messages of every run again."""
    server.guard._asked.clear()
    visitor = f"seems-{secrets.token_hex(4)}"

    def started() -> int:
        server.ask(method, path.format(visitor))
        return server.start(visitor, 1)

    assert [started() for _ in range(UNHEARD + 1)] == [200] * UNHEARD + [429]
    until(lambda: not server.running(), 8 * GRACE + 8)
    server.guard._asked.clear()


def test_who_hangs_up_at_once_is_refused_after_a_few_starts_and_who_hears_the_end_is_not(server: Server) -> None:
    server.guard._asked.clear()

    def started(visitor: str) -> int:
        status = server.start(visitor, 1 if visitor == "hears" else 200)
        line = listening(server, visitor, "/queue/data?session_hash=")
        if visitor == "hears":
            line.getresponse().read()
        line.close()
        return status

    assert [started("hears") for _ in range(UNHEARD + 1)] == [200] * (UNHEARD + 1)
    assert [started("hangs-up") for _ in range(UNHEARD + 1)] == [200] * UNHEARD + [429]
    until(lambda: not server.running(), 8 * GRACE + 8)
    server.guard._asked.clear()


def test_a_run_whose_visitor_listens_goes_on(server: Server) -> None:
    from gradio_client import Client

    tokens = int(3 * GRACE / 0.05)
    job = Client(server.url, verbose=False).submit("hello", "spectra", tokens, 0.0, 7, api_name="/compare")
    assert job.result(timeout=30)["tokens"] == tokens


@pytest.mark.parametrize("name", ["renew", "switch"])
def test_what_waits_to_have_the_model_alone_counts_too(server: Server, name: str) -> None:
    """One visitor's measuring, by hand, filled the queue."""
    server.guard._asked.clear()
    visitor = f"alone-{name}"
    running = listening(server, call(server))
    running.getresponse().read1(200)
    values = ["Other-1B", None, "spectra"] if name == "switch" else [None]
    body = json.dumps({"data": values, "fn_index": server.ids[name], "session_hash": visitor}).encode()
    assert [server.ask("POST", f"{API}/queue/join", body)[0] for _ in range(4)] == [200] * 4
    line = listening(server, visitor, "/queue/data?session_hash=")
    answer, heard = line.getresponse(), b""
    while b"3 others are waiting" not in heard:  # half of six may wait
        more = answer.read1(4000)
        assert more
        heard += more
    for each in (line, running):
        each.close()
    until(lambda: not server.running(), 8 * GRACE + 8)


def call(server: Server, **more: str) -> str:
    """The event of a race that is asked for as a program would."""
    body = json.dumps({"data": ["go on", "spectra", 2000, 0, 7], **more}).encode()
    status, text, _ = server.ask("POST", f"{API}/call/compare", body)
    assert status == 200
    return str(json.loads(text)["event_id"])


def listening(server: Server, name: str, path: str = "/call/compare/") -> http.client.HTTPConnection:
    connection = http.client.HTTPConnection(server.host, timeout=20)
    connection.request("GET", f"{API}{path}{name}")
    return connection


def test_calls_without_a_visitor_have_their_address(server: Server) -> None:
    """Thirty of them filled the queue: each was a visitor of its own, and of no address."""
    server.guard._asked.clear()
    until(lambda: not server.running())
    lines = [listening(server, call(server)) for _ in range(5)]
    refused = set()

    def read_what_came() -> int:
        for socket_ in select.select([line.sock for line in lines], [], [], 0)[0]:
            if b"others are waiting" in socket_.recv(4000):
                refused.add(socket_)
        return server.running() and len(refused)

    until(lambda: read_what_came() == 2)  # half of six may wait
    time.sleep(GRACE / 2)
    assert read_what_came() == 2
    for line in lines:
        line.close()
    until(lambda: not server.running(), 8 * GRACE + 8)


@pytest.mark.parametrize("visitor", [{}, {"session_hash": "a-program"}], ids=["unnamed", "named"])
def test_a_call_that_is_listened_to_by_its_event_goes_on(server: Server, visitor: dict[str, str]) -> None:
    """One that named its visitor was ended after the grace, and half an answer was called complete."""
    line = listening(server, call(server, **visitor))
    answer = line.getresponse()
    answer.read1(200)
    time.sleep(4 * GRACE)
    assert server.running() == 1
    line.close()
    until(lambda: not server.running(), 8 * GRACE + 8)


def test_long_names_of_visitors_are_refused(server: Server) -> None:
    """gradio keeps the names of thousands of visitors, whatever their length."""
    body = json.dumps({"data": [], "fn_index": server.ids["compare"], "session_hash": "x" * 201}).encode()
    for path in ("/queue/join", "/run/predict", "/call/compare"):
        status, text, _ = server.ask("POST", f"{API}{path}", body)
        assert status == 400 and b"session_hash: 201 characters" in text
    assert len(listener_of(f"{API}/call/compare/{'x' * 50_000}", "")) == 200


@pytest.mark.parametrize("name", ["", " ", "a<gradio-sep>b", "\ud800", "a\nb", "é"], ids=ascii)
def test_what_is_no_name_of_a_visitor_is_refused(server: Server, name: str) -> None:
    """After one request of an empty name gradio's queue answered every visitor that it is stopped."""
    body = json.dumps({"data": ["go on", "spectra", 1, 0, 7], "fn_index": server.ids["compare"], "session_hash": name})
    for path in ("/queue/join", "/run/predict", "/call/compare"):
        status, text, _ = server.ask("POST", f"{API}{path}", body.encode())
        assert status == 400 and b"session_hash: it is no name" in text


def test_one_visitor_has_a_few_runs_and_one_address_half_of_the_queue() -> None:
    guard = Guard()
    for number in range(9):
        guard._addresses.put(f"v{number}", "1.2.3.4")
    queue = AdmissionQueue(8, guard)
    tickets = [queue.join("v0") for _ in range(3)]
    with pytest.raises(SpectraError, match="go: 3 of your runs are going on or waiting; stop one of them first"):
        queue.join("v0")
    queue.join("v1")
    with pytest.raises(SpectraError, match="go: 4 others are waiting"):
        queue.join("v2")
    for _ in range(3):
        queue.join("elsewhere")
    queue.leave(tickets[0])
    assert queue.ahead(queue.join("v2")) == 6


def test_who_left_is_known_by_the_streams_that_are_open() -> None:
    now = [100.0]
    guard = Guard(RequestLimits(grace=10), clock=lambda: now[0])
    assert not guard.left("a", 95.0)
    now[0] = 106.0
    assert guard.left("a", 95.0) and not guard.left("", 95.0)
    guard._heard.put("a", 97.0)
    assert not guard.left("a", 95.0)
    now[0] = 50.0  # a clock that was put back ends nothing
    assert not guard.left("a", 95.0)


def test_listeners_and_visitors_are_read_from_requests() -> None:
    assert listener_of(f"{API}/queue/data", "session_hash=abc&x=1") == "abc"
    assert listener_of(f"{API}/queue/data", "session_hash=abc&session_hash=def&session_hash=") == ""
    assert listener_of(f"{API}/call/compare/e1/", "") == "e1"
    assert listener_of("/", "session_hash=abc") == ""
    assert session_of(read_data(b'{"session_hash": "abc"}', 10)) == "abc"
    for body in (b"", b"[1]", b"{", b"\xff", b"[" * 9999, b'{"session_hash": null}'):
        assert session_of(read_data(body, 10_000)) == ""


def test_large_bodies_are_refused_stated_or_not(server: Server) -> None:
    large = json.dumps({"data": ["x" * LIMITS.body], "session_hash": "big"}).encode()
    for path in (f"{API}/queue/join", f"{API}/run/compare", "/nothing", "/nothing/upload"):
        assert server.ask("POST", path, large)[0] == 413
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(large), large) for _ in range(2)) + b"0\r\n\r\n"
    head = f"POST {API}/queue/join HTTP/1.1\r\nHost: {server.host}\r\nTransfer-Encoding: chunked\r\n\r\n"
    assert raw(server, head.encode() + chunks).startswith(b"HTTP/1.1 413")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-32-be"])
@pytest.mark.parametrize("first", ["0", r'"\\"', r'"\\\""'])
def test_a_request_of_many_values_is_refused_before_they_are_made(
    server: Server, encoding: str, first: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A megabyte of empty lists was read four times, which kept everybody waiting for two seconds."""
    text = f"[{first}, {'[],[0],{},0,' * 300}0]"
    assert json.loads(text.encode(encoding))[4] == 0
    monkeypatch.setattr("visual.guard.parse_json", None)
    server.guard._asked.clear()
    monkeypatch.setattr(server.guard, "limits", replace(LIMITS, values=1500, body=100_000))
    for path in ("/queue/join", "/run/predict", "/call/compare", "/cancel"):
        status, told, _ = server.ask("POST", f"{API}{path}", text.encode(encoding))
        assert status == 413 and b"over 1500 values" in told


def test_signs_in_a_prompt_are_no_values(server: Server) -> None:
    prompt = 'a[i], b[j] = {"k": x}, "\\\\"' * 500
    body = json.dumps({"data": [prompt, "spectra", 1, 0, 7], "fn_index": server.ids["compare"]}).encode()
    assert read_data(body, 16)["data"][0] == prompt


def test_slow_and_broken_requests_get_an_answer_or_none_and_others_go_on(server: Server) -> None:
    head = f"POST {API}/queue/join HTTP/1.1\r\nHost: {server.host}\r\nContent-Length: 900\r\n\r\n".encode()
    assert raw(server, head + b"{").startswith(b"HTTP/1.1 408")  # the rest never comes
    for bytes_sent in (b"\0\xff\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"GET /%zz HTTP/1.1\r\nHost: x\r\n\r\n"):
        raw(server, bytes_sent, half_closed=True)
    assert server.ask("GET", "/")[0] == 200


def test_any_body_has_to_arrive_in_time(server: Server) -> None:
    form = "Content-Type: multipart/form-data; boundary=b\r\n"
    for path, more in (("/run/predict", ""), ("/cancel", ""), ("/upload", form)):
        head = f"POST {API}{path} HTTP/1.1\r\nHost: {server.host}\r\n{more}Content-Length: 900\r\n\r\n".encode()
        assert raw(server, head + b"--b\r\n", seconds=15).startswith(b"HTTP/1.1 408"), path


def test_a_length_of_thousands_of_digits_is_too_long(server: Server) -> None:
    assert declared({"headers": [(b"content-length", b"9" * 5000)]}) > LIMITS.upload
    head = f"POST {API}/queue/join HTTP/1.1\r\nHost: {server.host}\r\nContent-Length: {'9' * 5000}\r\n\r\n".encode()
    assert b" 4" in raw(server, head)[:14]


def test_who_hangs_up_in_the_middle_holds_nothing(server: Server) -> None:
    """Of a body, of an upload, and of the answers that a visitor listens to."""
    length = "Content-Length: 900\r\n\r\n{"
    form = "Content-Type: multipart/form-data; boundary=b\r\n" + length
    asked = [("POST", "/queue/join", length), ("POST", "/upload", form), ("GET", "/queue/data?session_hash=h", "\r\n")]
    for method, path, rest in asked:
        for half_closed in (True, False):
            head = f"{method} {API}{path} HTTP/1.1\r\nHost: {server.host}\r\n{rest}".encode()
            raw(server, head, half_closed=half_closed, listens=False)
    until(lambda: not {name for name in server.guard._open if name == "h"})
    assert server.ask("GET", "/")[0] == 200


def raw(
    server: Server, sent: bytes, *, half_closed: bool = False, listens: bool = True, seconds: float = 10.0
) -> bytes:
    """What comes back for some bytes. listens: waits for it, else hangs up."""
    name, port = server.host.split(":")
    with socket.create_connection((name, int(port)), timeout=seconds) as line:
        line.sendall(sent)
        if half_closed:
            line.shutdown(socket.SHUT_WR)
        if not listens:
            return b""
        try:
            return line.recv(4000)
        except ConnectionError:
            return b""


def test_uploads_have_a_size_and_a_rate(server: Server) -> None:
    server.guard._asked.clear()
    form = "multipart/form-data; boundary=b"
    body = b'--b\r\nContent-Disposition: form-data; name="files"; filename="a.json"\r\n\r\n%s\r\n--b--\r\n'
    statuses = [
        server.ask("POST", f"{API}/upload", body % (b"x" * size), **{"content-type": form})[0]
        for size in (10, LIMITS.upload, 10, 10, 10, 10)
    ]
    assert statuses == [200, 413, 200, 200, 429, 429]


def test_starts_have_a_rate_for_each_address() -> None:
    now = [0.0]
    guard = Guard(RequestLimits(starts=3), clock=lambda: now[0])
    assert [guard._may("a", "starts") for _ in range(4)] == [True, True, True, False]
    assert guard._may("b", "starts")
    now[0] = 61.0
    assert guard._may("a", "starts")


@pytest.mark.parametrize(
    ("client", "address"),
    [
        (("1.2.3.4", 5), "1.2.3.4"),
        (("2001:db8::1", 5), "2001:db8::/64"),
        (("2001:db8::ffff:1:2:3", 5), "2001:db8::/64"),
        (("2001:db8:0:1::1", 5), "2001:db8:0:1::/64"),
        (("fe80::1%eth0", 5), "fe80::/64"),
        (("::ffff:1.2.3.4", 5), "1.2.3.4"),
        (("testclient", 5), "testclient"),
        (None, ""),
    ],
)
def test_all_addresses_of_one_connection_count_as_one(client: object, address: str) -> None:
    """Whoever has IPv6 has 2 ** 64 of them, each of which had limits of its own."""
    assert address_of({"client": client}) == address


def test_what_goes_on_is_ended_with_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setenv("FORWARDED_ALLOW_IPS", "")
    ended: list[str] = []
    guard = Guard()
    build_page(FakeEngine(), guard=guard)
    assert guard.on_end is not None
    guard.on_end = lambda: ended.append("it")
    launch(SimpleNamespace(launch=lambda **_: None), guard, host="127.0.0.1", port=1)  # type: ignore[arg-type]
    assert ended == ["it"]


@pytest.mark.parametrize(("trusted", "statuses"), [(None, [200, 200, 429]), ("127.0.0.1", [200, 200, 200])])
def test_the_address_is_the_one_that_connects_unless_a_proxy_is_named(
    trusted: str | None, statuses: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who came by a proxy on this machine that lets the header pass had the limits of as many addresses as it named."""
    monkeypatch.setenv("FORWARDED_ALLOW_IPS", trusted or "")
    if trusted is None:
        monkeypatch.delenv("FORWARDED_ALLOW_IPS")
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    guard = Guard(RequestLimits(calls=2))
    with gr.Blocks() as page:
        gr.HTML()
    started = SimpleNamespace(launch=partial(page.launch, prevent_thread_lock=True, quiet=True))
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    launch(started, guard, host="127.0.0.1", port=port)  # type: ignore[arg-type]
    try:
        given = []
        for number in range(3):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
            headers = {"content-type": "application/json", "x-forwarded-for": f"1.2.3.{number}"}
            connection.request("POST", f"{API}/reset", b'{"event_id": "a"}', headers)
            given.append(connection.getresponse().status)
            connection.close()
        assert given == statuses
    finally:
        page.close()


def test_calls_beside_the_queue_have_a_rate_too(server: Server) -> None:
    """Whoever asked by the other route, for a recorded race or the whole trace of a run, was never told to wait."""
    body = json.dumps({"data": [None], "fn_index": server.ids["pick"], "session_hash": "v"}).encode()
    server.guard._asked.clear()
    try:
        for number in range(LIMITS.calls):
            assert server.guard._may("127.0.0.1", "calls"), number
        for path in ("/run/predict", "/run/pick/", "/api/pick", "/cancel", "/reset"):
            status, text, _ = server.ask("POST", f"{API}{path}", body)
            assert status == 429 and b"wait a minute" in text
        assert server.ask("GET", "/")[0] == 200
    finally:
        server.guard._asked.clear()


def test_handlers_take_no_direct_calls_beside_the_queue(server: Server) -> None:
    body = json.dumps({"data": ["x", "spectra", 9, 0, 7], "fn_index": server.ids["compare"]}).encode()
    before = len(server.engine.answers)
    status, text, _ = server.ask("POST", f"{API}/run/compare", body)
    assert status == 404 and b"join the queue" in text
    assert len(server.engine.answers) == before


def test_no_answer_names_a_folder_of_the_host(server: Server) -> None:
    odd = [b"{}", b"[]", b'{"data": 1}', b'{"data": [], "fn_index": 99999, "session_hash": "a"}', b"\xff\xfe"]
    for path in ("/queue/join", "/call/compare", "/cancel", "/reset", "/upload", "/file=/etc/passwd", "/run/nothing"):
        for body in odd:
            for method in ("POST", "GET"):
                text = server.ask(method, f"{API}{path}", body)[1]
                assert ROOT not in text and b"site-packages" not in text and b"root:" not in text, path


@pytest.mark.parametrize(
    "body",
    [
        b'{"data": [NaN], "fn_index": 0, "session_hash": 1e999}',
        b'{"data": [], "fn_index": 1e999, "session_hash": "a"}',
        b'{"data": [], "fn_index": -1, "session_hash": "a"}',
        b'{"data": [], "fn_index": 0, "session_hash": "\\ud800", "event_id": ["\\ud800"]}',
        b'{"fn_index": 0, "session_hash": "a", "data": ' + b"[" * 900 + b"]" * 900 + b"}",
        b"[" * 9000,
        b"[1, NaN]",
    ],
    ids=["NaN", "1e999", "-1", "surrogate", "deep", "open", "list"],
)
def test_what_gradio_cannot_read_is_a_refusal(server: Server, body: bytes) -> None:
    server.guard._asked.clear()
    for path in ("/run/predict", "/call/v2/compare", "/cancel", "/reset", "/queue/join"):
        status, text, _ = server.ask("POST", f"{API}{path}", body)
        assert status in (200, 400, 404, 422) or text == b'{"error":null}', (path, status, text[:200])
        assert b"Traceback" not in text and ROOT not in text


def test_odd_addresses_are_refusals(server: Server) -> None:
    parameters = "&".join(f"parameter{number}={number}" for number in range(10_000))
    # h11 closes a request that is longer than its buffer before the guard sees it
    assert server.ask("GET", f"/?{'a=1&' * 15_100}")[0] in (400, 414)
    with socket.create_connection(("127.0.0.1", int(server.host.split(":")[1])), timeout=10) as line:
        line.sendall(f"GET /?{parameters} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
        assert line.recv(4000).split()[1] in (b"400", b"414")
    assert server.ask("GET", f"{API}/heartbeat/a%00b")[0] == 400
    assert server.ask("GET", "/pwa_icon/512")[0] == 400
    for path in ("/queue/data?session_hash=nobody", "/queue/data?session_hash=", "/call/compare/nothing"):
        assert server.ask("GET", f"{API}{path}")[0] in (200, 404)


def test_a_broken_chunk_leaves_a_line_in_the_log_not_a_traceback(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    """A refusal that is sent after uvicorn's own 400 raised LocalProtocolError in h11."""
    for path in (f"{API}/queue/join", f"{API}/proxy=x"):
        head = f"POST {path} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
        assert b" 400 " in raw(server, f"{head}ZZ\r\n".encode())
    assert server.ask("GET", "/")[0] == 200
    assert not [record for record in caplog.records if record.exc_info]
    assert "connection that is closed" in caplog.text


def test_a_request_without_a_host_is_answered(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    """Beside an `Origin` gradio looked for one: status 500 without a policy, and a traceback."""
    for path, status in (("/nothing", b" 404 "), ("/", b" 200 "), (f"{API}/proxy=x", b" 404 ")):
        answer = raw(server, f"GET {path} HTTP/1.0\r\nOrigin: http://elsewhere\r\n\r\n".encode())
        assert status in answer.splitlines()[0] and b"content-security-policy" in answer
    assert not [record for record in caplog.records if record.exc_info]


@pytest.mark.parametrize(
    "header", [{"X-Forwarded-Host": "a\tb"}, {"X-Forwarded-Host": "a:b, c"}, {"X-Gradio-Server": "x\ty"}]
)
def test_a_header_that_names_no_server_is_refused(server: Server, header: dict[str, str]) -> None:
    """A page that was opened so ended in a traceback when it was closed."""
    status, text, _ = server.ask("GET", f"{API}/heartbeat/a", **header)
    assert status == 400 and b"a header names a server" in text


def own_threads() -> set[threading.Thread]:
    """All threads but those of the web server's and of Python's pools, which stay for the next request."""
    pools = ("AnyIO worker thread", "asyncio_", "ThreadPoolExecutor")
    return {thread for thread in threading.enumerate() if not thread.name.startswith(pools)}


def test_threads_end_with_their_runs(server: Server) -> None:
    until(lambda: not server.running())
    before = own_threads()
    for number in range(3):
        assert server.start(f"gone-{number}") == 200
    until(lambda: not server.running())
    until(lambda: own_threads() <= before)


def start_store(server: Server, visitor: str) -> None:
    body = {"data": [100], "fn_index": server.ids["build_library"], "session_hash": visitor}
    assert server.ask("POST", f"{API}/queue/join", json.dumps(body).encode())[0] == 200
    until(lambda: visitor in server.engine.own or visitor in server.engine.gone)


@pytest.mark.parametrize("listens", [False, True])
def test_a_store_goes_with_a_visitor_who_has_no_page(server: Server, listens: bool) -> None:
    """One that was built sooner than the grace stayed until eight others came: nobody's page was closed."""
    server.guard._asked.clear()
    start_store(server, "no-page")
    if listens:
        line = listening(server, "no-page", "/queue/data?session_hash=")
        line.getresponse().read1(200)
        line.close()
    until(lambda: "no-page" not in server.engine.own)
    until(lambda: not server.guard.presence.looking)


def test_a_store_stays_as_long_as_its_page(server: Server) -> None:
    server.guard._asked.clear()
    page = listening(server, "a-page", "/heartbeat/")
    page.getresponse().read1(20)
    start_store(server, "a-page")
    time.sleep(4 * GRACE)
    assert "a-page" in server.engine.own and "a-page" not in server.engine.gone
    page.close()
    until(lambda: "a-page" not in server.engine.own)


def test_of_the_tabs_that_are_kept_closed_ones_go_first(server: Server) -> None:
    """Reloads of others, a new tab each, let go what a page had that was open and still."""
    server.guard._asked.clear()
    tabs, body = server.page.state_holder, {"data": [None], "fn_index": server.ids["pick"]}

    def opened(visitor: str) -> http.client.HTTPConnection:
        page = listening(server, visitor, "/heartbeat/")
        page.getresponse().read1(20)
        asked = json.dumps({**body, "session_hash": visitor}).encode()
        assert server.ask("POST", f"{API}/run/predict", asked)[0] == 200
        return page

    still = opened("still")
    for number in range(tabs.capacity + 8):
        opened(f"again-{number}").close()
        until(lambda number=number: f"again-{number}" in server.engine.gone)
    assert "still" in tabs.session_data and len(tabs.session_data) == tabs.capacity
    server.guard._asked.clear()
    for number in range(tabs.capacity + 8):  # names that nobody has a page under
        asked = json.dumps({**body, "session_hash": f"made-up-{number}"}).encode()
        assert server.ask("POST", f"{API}/run/predict", asked)[0] == 200
    assert "still" in tabs.session_data and len(tabs.session_data) == tabs.capacity
    still.close()


def test_of_one_address_so_many_open_pages_count() -> None:
    """Who held dozens open took from all others what their pages had."""
    pages = OpenPages(2)
    kept = KeptTabs(pages.counts)
    with ExitStack() as open_pages:
        open_pages.enter_context(pages.opened("other", "10.0.0.2"))
        kept["other"] = SimpleNamespace()
        for number in range(5):
            for _ in range(2):  # a page waits for answers too
                open_pages.enter_context(pages.opened(f"many-{number}", "10.0.0.1"))
            kept[f"many-{number}"] = SimpleNamespace()
        with pages.opened("", "10.0.0.1"):
            assert [pages.counts(f"many-{number}") for number in range(5)] == [True, True, False, False, False]
        assert [kept.popitem(last=False)[0] for _ in range(2)] == ["many-2", "many-3"]
        assert set(kept) == {"other", "many-0", "many-1", "many-4"}
    assert not pages.counts("other") and not pages.counts("many-0") and not pages.counts("")
    assert kept.popitem(last=False)[0] == "other"


def test_one_address_has_so_many_requests_open() -> None:
    """Streams that never end, thousands of them, left nobody else a connection."""
    guard = Guard(RequestLimits(open=2))
    ended = asyncio.Event()
    answered: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await ended.wait()

    async def ask(address: str) -> None:
        async def sent(message: Any) -> None:
            answered.append((address, message.get("status")))

        scope = {"type": "http", "method": "GET", "path": "/x", "headers": [], "client": (address, 1)}
        await guard.wrap(app)(scope, sent, sent)

    async def all_ask() -> None:
        asked = [asyncio.create_task(ask(address)) for address in ("one", "one", "one", "two")]
        await asyncio.sleep(0)
        assert [status for address, status in answered if status] == [429] and answered[0][0] == "one"
        ended.set()
        await asyncio.gather(*asked)
        answered.clear()
        await ask("one")
        assert not answered

    asyncio.run(all_ask())
