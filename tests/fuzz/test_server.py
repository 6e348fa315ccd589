"""Requests to a served page that no browser sends: answered or refused, and the next visitor is served."""

import http.client
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import pytest
from browsing import serve
from damage import texts, values
from fakes_engine import FakeEngine
from gradio.utils import get_upload_folder
from hypothesis import example, given
from hypothesis import strategies as st

from visual.form_values import REASON
from visual.uploads import UPLOADED

API = "/gradio_api"


class Server:
    def __init__(self) -> None:
        self.engine = FakeEngine(step_seconds=0.0)
        self.page, url = serve(self.engine, max_visitors=8)
        self.host = urlsplit(url).netloc
        status, body = self.ask("GET", "/config")
        assert status == 200
        self.handlers = json.loads(body)["dependencies"]

    def ask(
        self, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None
    ) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection(self.host, timeout=20)
        try:
            connection.request(method, path, body, headers or {"content-type": "application/json"})
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    served = Server()
    yield served
    assert served.ask("GET", "/")[0] == 200
    assert b"event: complete" in raced(served)
    served.page.close()


def started(server: Server) -> str:
    """The event of a race that is asked for as a program would."""
    status, text = server.ask("POST", f"{API}/call/compare", json.dumps({"data": ["hello", "spectra", 4]}).encode())
    assert status == 200, text
    return str(json.loads(text)["event_id"])


def raced(server: Server) -> bytes:
    """What such a race streams."""
    return server.ask("GET", f"{API}/call/compare/{started(server)}")[1]


def status_of(server: Server, method: str, path: str, body: bytes | None = None) -> int:
    status, text = server.ask(method, path, body)
    assert b"site-packages" not in text and b"Traceback" not in text and b"/tests/" not in text
    return status


@given(st.sampled_from(["/queue/join", "/call/compare", "/run/compare", "/cancel", "/reset"]), values)
@example("/queue/join", {"data": None, "fn_index": 0, "session_hash": "a"})
@example("/queue/join", {"data": [], "fn_index": -1, "session_hash": "a"})
@example("/queue/join", {"data": [], "fn_index": 10**30, "session_hash": "a"})
@example("/call/compare", {"data": ["\ud800", "spectra", 5, 0, 1]})
def test_any_body(server: Server, path: str, body: Any) -> None:
    assert status_of(server, "POST", f"{API}{path}", json.dumps(body).encode()) < 500


PARTS = ("session_hash", "event_id", "event_data", "trigger_id", "simple_format", "batched", "oauth_token", "fn_index")


@given(
    st.integers(0, 80),
    st.sampled_from(["/queue/join", "/call/compare", "/run/predict"]),
    st.sampled_from(PARTS),
    values,
)
@example(0, "/call/compare", "session_hash", "")
@example(0, "/queue/join", "session_hash", "a<gradio-sep>b")
def test_a_start_with_another_part(server: Server, which: int, path: str, part: str, value: Any) -> None:
    """Whatever is beside the values of a form, and behind another start that waits to begin."""
    handler = server.handlers[which % len(server.handlers)]
    data = ["hello", "spectra", 4] if path == "/call/compare" else [None] * len(handler["inputs"])
    body = {"data": data, "fn_index": handler["id"], "session_hash": "by-part", part: value}
    started(server)
    assert status_of(server, "POST", f"{API}{path}", json.dumps(body).encode()) < 500


@given(st.integers(0, 80), st.lists(values, max_size=8))
def test_private_handlers_called_by_hand(server: Server, which: int, data: list[Any]) -> None:
    """Directly: those that go through the queue are refused, and so are values that are none of the page's."""
    handler = server.handlers[which % len(server.handlers)]
    body = {"data": data, "fn_index": handler["id"], "session_hash": "by-hand"}
    status = status_of(server, "POST", f"{API}/run/predict", json.dumps(body).encode())
    assert status < 500
    if handler["queue"] is not False:
        assert status != 200


SOME = (None, "x", [], 1e400, {"path": "a", "meta": 1})
MORE = (1, {}, "no", [[1], [2]])


@pytest.mark.parametrize(
    "value", [*SOME, *(pytest.param(value, marks=pytest.mark.all_cases) for value in MORE)], ids=repr
)
def test_each_private_handler_with_the_same_value_everywhere(server: Server, value: Any) -> None:
    """One of a wrong kind, one value too few and one too many: an answer of the handler or a refusal in one line."""
    refused = 0
    for handler in server.handlers:
        many = len(handler["inputs"])
        for count in (many - 1, many, many + 1):
            body = json.dumps({"data": [value] * count, "fn_index": handler["id"], "session_hash": "by-hand"}).encode()
            status, text = server.ask("POST", f"{API}/run/predict", body)
            assert status < 500, (handler["api_name"], text)
            refused += status == 400 and REASON in json.loads(text)["detail"]
    assert refused


def test_a_refusal_of_a_handler_in_the_queue_says_why(server: Server) -> None:
    (handler,) = [one for one in server.handlers if one["api_name"] == "compare"]
    start = json.dumps({"data": [], "fn_index": handler["id"], "session_hash": "queued"}).encode()
    assert server.ask("POST", f"{API}/queue/join", start)[0] == 200
    status, text = server.ask("GET", f"{API}/queue/data?session_hash=queued")
    assert status == 200 and REASON.encode() in text


@pytest.mark.parametrize("given_values", [["hello"], ["hello", "spectra", 4], ["hello", "spectra", 4, 0.0, 7, "more"]])
def test_a_call_of_the_endpoint_may_leave_out_what_has_a_default(server: Server, given_values: list[Any]) -> None:
    """It was told that the page does not send such values."""
    status, text = server.ask("POST", f"{API}/call/compare", json.dumps({"data": given_values}).encode())
    assert status == 200
    status, text = server.ask("GET", f"{API}/call/compare/{json.loads(text)['event_id']}")
    assert status == 200 and b"event: complete" in text and b"event: error" not in text


@given(st.sampled_from(["GET", "POST", "PUT", "HEAD", "DELETE"]), texts)
@example("GET", "spectra/../../pyproject.toml")
@example("GET", "gradio_api/file=/etc/passwd")
@example("GET", "gradio_api/file=../../etc/passwd")
@example("GET", "spectra/%2e%2e/%2e%2e/etc/passwd")
@example("GET", "gradio_api/proxy=http://127.0.0.1:1/")
def test_any_path(server: Server, method: str, path: str) -> None:
    status, text = server.ask(method, "/" + quote(path[:2000], safe="/%=:", errors="replace"))
    assert status < 500 and b"root:x:" not in text and b"[build-system]" not in text


FORM = "multipart/form-data; boundary=b"
FILE = b'--b\r\nContent-Disposition: form-data; name="files"; filename="%s"\r\n\r\n%s\r\n--b--\r\n'


@given(texts, st.binary(max_size=60))
@example("../../../etc/passwd", b"x")
@example("<script>alert(1)</script>.json", b"{}")
@example("x" * 5000 + ".json", b"{}")
@example("", b"")
@example("a\r\nContent-Type: text/html", b"{}")
def test_any_name_of_an_uploaded_file(server: Server, name: str, content: bytes) -> None:
    """It lies under the server's own folder, or is refused."""
    body = FILE % (name.encode(errors="replace"), content)
    status, text = server.ask("POST", f"{API}/upload", body, {"content-type": FORM})
    assert status < 500, text
    if status == 200:
        for uploaded in json.loads(text):
            assert UPLOADED.fullmatch(uploaded)
            place = Path(get_upload_folder()) / uploaded
            assert place.resolve().is_relative_to(Path(get_upload_folder()).resolve())
            place.unlink(missing_ok=True)


@given(st.integers(0, len(FILE % (b"a.json", b"{}"))), st.binary(max_size=6), st.integers(0, 8))
def test_any_form(server: Server, at: int, put: bytes, out: int) -> None:
    whole = FILE % (b"a.json", b"{}")
    status, text = server.ask("POST", f"{API}/upload", whole[:at] + put + whole[at + out :], {"content-type": FORM})
    assert status < 500, text


@given(st.binary(max_size=200))
def test_any_bytes(server: Server, body: bytes) -> None:
    assert status_of(server, "POST", f"{API}/queue/join", body) < 500
    assert status_of(server, "POST", f"{API}/upload", body) < 500
