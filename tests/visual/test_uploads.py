"""Uploads: each lies in a folder of its own, nothing is left of a broken one, and no call by hand reads another's."""

import asyncio
import http.client
import http.server
import json
import os
import pty
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import quote, urlsplit

import pytest
from browsing import serve
from fakes_engine import FakeEngine, recorded_race
from starlette.exceptions import HTTPException

from visual.form_values import REASON
from visual.guard import Guard, RequestLimits
from visual.uploads import NO_FORM, UPLOADED, few_delimiters, name_of, placed
from visual.wire.events import encode

ROOT = Path(__file__).parents[2]
API = "/gradio_api"
FORM = "multipart/form-data; boundary=b"
PART = b'--b\r\nContent-Disposition: form-data; name="%s"; filename="%s"\r\n\r\n%s\r\n'
RACE = encode(recorded_race()).encode()


class Server:
    def __init__(self, uploads: Path, **options: Any) -> None:
        self.uploads = uploads
        self.page, self.url = serve(FakeEngine(step_seconds=0.0), **options)
        self.host = urlsplit(self.url).netloc
        self.handlers = json.loads(self.ask("GET", "/config")[1])["dependencies"]
        (self.bring,) = [one["id"] for one in self.handlers if one["api_name"] == "bring"]

    def ask(
        self, method: str, path: str, body: bytes | None = None, kind: str = "application/json"
    ) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection(self.host, timeout=20)
        try:
            connection.request(method, path, body, {"content-type": kind})
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def send(self, content: bytes, name: bytes = b"race.json") -> tuple[int, bytes]:
        return self.ask("POST", f"{API}/upload", PART % (b"files", name, content) + b"--b--\r\n", FORM)

    def upload(self, content: bytes, name: bytes = b"race.json") -> str:
        """What the browser is told."""
        status, text = self.send(content, name)
        assert status == 200, text
        (uploaded,) = json.loads(text)
        return str(uploaded)

    def place(self, uploaded: str) -> Path:
        return self.uploads / uploaded

    def open_race(self, file: object) -> str:
        """What the page's Replay tab is told of a file that a browser names."""
        data = None if file is None else {"path": str(file), "orig_name": "a", "meta": {"_type": "gradio.FileData"}}
        body = {"data": [data], "fn_index": self.bring, "session_hash": "v"}
        return self.ask("POST", f"{API}/run/predict", json.dumps(body).encode())[1].decode()

    def kept(self) -> list[Path]:
        return [path for path in self.uploads.rglob("*") if path.is_file()]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    uploads = tmp_path_factory.mktemp("uploads")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GRADIO_TEMP_DIR", str(uploads))
        served = Server(uploads)
        yield served
        served.page.close()


def test_two_visitors_with_one_file_have_a_copy_each(server: Server) -> None:
    mine, yours = server.upload(RACE), server.upload(RACE)
    assert mine != yours and server.place(mine).read_bytes() == server.place(yours).read_bytes() == RACE
    assert "snapshot" in server.open_race(mine)
    assert not server.place(mine).parent.exists() and server.place(yours).read_bytes() == RACE
    assert "snapshot" in server.open_race(yours)
    assert server.kept() == []


def test_of_a_race_that_was_opened_nothing_stays_in_memory(server: Server) -> None:
    """gradio kept each with its visitor, page open or not: megabytes of dozens of visitors."""
    race = recorded_race()
    prompt = race["plain"]["prompt"] = race["method"]["prompt"] = f"stays-{time.monotonic_ns()}"
    assert prompt in server.open_race(server.upload(encode(race).encode()))
    (shown,) = (field for field in server.page.blocks.values() if getattr(field, "elem_id", "") == "stage-replay")
    state = server.page.state_holder["v"]
    held = [*state.config_values.values(), *state.state_data.values(), state.blocks_config.blocks[shown._id].value]
    assert prompt not in repr(held)


def test_what_is_not_for_the_queue_cannot_be_asked_for_through_it(server: Server) -> None:
    """The queue keeps an answer until somebody listens: megabytes of those who never do."""
    file = {"path": server.upload(RACE), "orig_name": "a", "meta": {"_type": "gradio.FileData"}}
    start = {"data": [file], "fn_index": server.bring, "session_hash": "unheard"}
    assert server.ask("POST", f"{API}/queue/join", json.dumps(start).encode())[0] == 200
    status, text = server.ask("GET", f"{API}/queue/data?session_hash=unheard")
    assert status == 200 and REASON.encode() in text and b"snapshot" not in text
    assert "snapshot" in server.open_race(file["path"])


@pytest.fixture
def limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[RequestLimits], Server]]:
    """Serves a page with these limits."""
    monkeypatch.setenv("GRADIO_TEMP_DIR", str(tmp_path))
    pages = []

    def served(limits: RequestLimits) -> Server:
        made = Server(tmp_path, guard=Guard(limits))
        pages.append(made.page)
        return made

    yield served
    for page in pages:
        page.close()


@pytest.mark.parametrize("limit", ["held", "all_held"])
def test_uploads_that_nobody_takes_need_no_more_of_the_disk(
    limited: Callable[[RequestLimits], Server], limit: str
) -> None:
    """Twelve files of 32 MB a minute, kept for an hour, were 24 GB of one address."""
    server = limited(RequestLimits(uploads=100, **{limit: 3 * len(RACE)}))
    files = [server.upload(RACE) for _ in range(2)]
    status, text = server.send(RACE)  # with the form around it this one is too much
    assert status == 429 and b"too many uploads that nobody used" in text
    server.upload(b"small")
    assert "snapshot" in server.open_race(files[0])
    server.upload(RACE)
    assert len(server.kept()) == 3


def test_why_an_upload_is_not_taken_is_said_without_json(limited: Callable[[RequestLimits], Server]) -> None:
    """gradio's script shows the visitor that answer as it comes."""
    server = limited(RequestLimits(uploads=1, held=2 * len(RACE)))
    assert server.ask("POST", f"{API}/upload", b"{}", "application/json") == (400, NO_FORM.encode())
    assert server.send(RACE) == (429, b"too many requests from this address; wait a minute")


def test_uploads_on_their_way_count_with_what_they_announce(limited: Callable[[RequestLimits], Server]) -> None:
    server = limited(RequestLimits(held=2_000_000))
    host, port = server.host.split(":")
    head = f"POST {API}/upload HTTP/1.1\r\nHost: x\r\nContent-Type: {FORM}\r\n"
    with socket.create_connection((host, int(port)), timeout=10) as line:
        line.sendall(f"{head}Content-Length: 1999999\r\n\r\n--b".encode())
        time.sleep(0.3)
        assert server.send(RACE)[0] == 429
    time.sleep(0.3)
    server.upload(RACE)
    with socket.create_connection((host, int(port)), timeout=10) as line:  # of no length: as long as it may be
        line.sendall(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode())
        assert b" 429 " in line.recv(4000)


def test_an_upload_that_nobody_takes_goes_with_its_folder(limited: Callable[[RequestLimits], Server]) -> None:
    """gradio's rounds left the folders, and ended for good where an upload came meanwhile."""
    server = limited(RequestLimits(kept=0.3))
    server.upload(RACE)
    (folder,) = server.uploads.iterdir()
    until_gone(folder)
    assert not server.page.upload_file_set


def test_uploads_go_when_the_server_ends(limited: Callable[[RequestLimits], Server]) -> None:
    server = limited(RequestLimits())
    server.upload(RACE)
    server.page.close()
    until_gone(*server.kept())


SERVED = """
import signal, sys
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # these tests may be run where it is ignored
from fakes_engine import FakeEngine
from visual.guard import Guard
from visual.page import build_page
from visual.serve import launch, queued
guard = Guard()
launch(queued(build_page(FakeEngine(), guard=guard), 8), guard, host="127.0.0.1", port=int(sys.argv[1]))
"""


@pytest.mark.parametrize(
    "begun", [pytest.param(False, marks=pytest.mark.all_cases), True], ids=["while it begins", "later"]
)
def test_uploads_go_when_the_program_is_told_to_end(begun: bool, tmp_path: Path) -> None:
    program, port = started(tmp_path, subprocess.PIPE)
    try:
        deadline = time.monotonic() + 60
        while not listens(port):
            assert program.poll() is None and time.monotonic() < deadline
            time.sleep(0.02)
        if begun:
            assert program.stdout is not None
            assert any("To create a public link" in line for line in program.stdout), "the last that gradio prints"
        upload(port)
        assert any(path.is_file() for path in tmp_path.rglob("*"))
        program.terminate()
        program.communicate(timeout=60)
        assert not any(path.is_file() for path in tmp_path.rglob("*"))
    finally:
        program.kill()


def test_uploads_go_when_the_terminal_is_closed(tmp_path: Path) -> None:
    """Nothing that the program prints from then on can be written."""
    ours, its = pty.openpty()
    program, port = started(tmp_path, its)
    os.close(its)
    try:
        printed = b""
        while b"To create a public link" not in printed:  # the last that gradio prints
            printed += os.read(ours, 1000)
        upload(port)
        assert any(path.is_file() for path in tmp_path.rglob("*"))
        os.close(ours)
        program.send_signal(signal.SIGHUP)
        program.wait(60)
        assert not any(path.is_file() for path in tmp_path.rglob("*"))
    finally:
        program.kill()


def started(uploads: Path, output: int) -> tuple[subprocess.Popen[str], int]:
    """A program that serves the page, and its port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    paths = os.pathsep.join(str(ROOT / folder) for folder in (".", "tests/support"))
    environment = os.environ | {"GRADIO_TEMP_DIR": str(uploads), "PYTHONPATH": paths}
    command = [sys.executable, "-u", "-c", SERVED, str(port)]
    return subprocess.Popen(command, env=environment, stdout=output, text=True), port


def upload(port: int) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    body = PART % (b"files", b"race.json", RACE) + b"--b--\r\n"
    connection.request("POST", f"{API}/upload", body, {"content-type": FORM})
    assert connection.getresponse().status == 200


def listens(port: int) -> bool:
    with socket.socket() as asked:
        return asked.connect_ex(("127.0.0.1", port)) == 0


def until_gone(*files: Path) -> None:
    end = time.monotonic() + 10
    while any(file.exists() for file in files):
        assert time.monotonic() < end
        time.sleep(0.05)


def test_a_class_that_opens_one_file_at_once(server: Server) -> None:
    """By gradio's own route the folder that one had just deleted was missing for the next."""

    def visit(_: int) -> str:
        return server.open_race(server.upload(RACE))

    with ThreadPoolExecutor(8) as pupils:
        assert all("snapshot" in page for page in pupils.map(visit, range(40)))
    assert server.kept() == []


def test_its_folder_cannot_be_guessed(server: Server) -> None:
    place = server.place(server.upload(RACE))
    assert place.is_relative_to(server.uploads) and len(place.parent.name) == 32
    listed = server.ask("GET", f"{API}/file={quote(str(place.parent))}")[0]
    assert listed == server.ask("GET", f"{API}/file={quote(str(server.uploads))}")[0] == 403
    place.unlink()


def test_no_answer_names_the_place_of_an_upload(server: Server) -> None:
    for content in (RACE, b"", b"no race"):
        uploaded = server.upload(content)
        assert UPLOADED.fullmatch(uploaded)
        answers = [server.open_race(uploaded), server.open_race(uploaded), server.ask("GET", "/config")[1].decode()]
        assert not any(str(server.uploads) in answer for answer in answers)
    assert server.kept() == []


@pytest.mark.parametrize("path", ["cancel", "reset", "queue/join", "run/pick", "call/compare", "call/v2/compare"])
@pytest.mark.parametrize("kind", ["application/json", "text/plain"])
def test_a_request_that_is_not_of_the_right_form_is_refused_without_its_places(
    server: Server, path: str, kind: str
) -> None:
    """The refusal held the request, with the folder of uploads in the place of a file's name."""
    file = {"path": f"{'a' * 32}/x.json", "meta": {"_type": "gradio.FileData"}}
    body = {"data": {"x": file}, "fn_index": file, "event_id": file, "prompt": file}
    status, text = server.ask("POST", f"{API}/{path}", json.dumps(body).encode(), kind)
    assert status in (400, 422) and isinstance(json.loads(text)["detail"], str)
    assert str(server.uploads).encode() not in text and b"a" * 32 not in text


@pytest.mark.parametrize("inside", [lambda file: file, lambda file: [file], lambda file: {"x": {"y": file}}])
def test_a_file_in_the_place_of_another_value_is_refused_without_its_place(
    server: Server, inside: Callable[[Any], Any]
) -> None:
    """A number that is none is quoted, and such a file was quoted with the folder of uploads."""
    file = {"path": f"{'a' * 32}/x.json", "meta": {"_type": "gradio.FileData"}}
    answers = []
    for at in range(5):
        data = ["hello", "spectra", 4, 0, 7]
        data[at] = inside(file)
        status, text = server.ask("POST", f"{API}/call/compare", json.dumps({"data": data}).encode())
        assert status == 200
        answers.append(server.ask("GET", f"{API}/call/compare/{json.loads(text)['event_id']}")[1])
    for handler in server.handlers:
        body = {"data": [inside(file)] * len(handler["inputs"]), "fn_index": handler["id"], "session_hash": "in-place"}
        answers.append(server.ask("POST", f"{API}/run/predict", json.dumps(body).encode())[1])
        if handler["queue"] is not False and handler["inputs"]:
            assert server.ask("POST", f"{API}/queue/join", json.dumps(body).encode())[0] == 200
            answers.append(server.ask("GET", f"{API}/queue/data?session_hash=in-place")[1])
    assert len(answers) > 20 and all(REASON.encode() in answer for answer in answers[:5])
    assert not [answer for answer in answers if str(server.uploads).encode() in answer or b"a" * 32 in answer]


def test_the_browsers_name_becomes_the_place() -> None:
    folder = "0123456789abcdef" * 2
    meta = {"_type": "gradio.FileData"}

    def request(path: str) -> bytes:
        return json.dumps({"data": [{"path": path, "meta": meta}, {"path": "not a file"}]}).encode()

    (file, other) = json.loads(placed(request(f"{folder}/a b.json"), Path("up")))["data"]
    assert file == {"path": str(Path("up") / folder / "a b.json"), "meta": meta} and other == {"path": "not a file"}
    for path in (
        "",
        folder,
        f"{folder}/",
        f"{folder}/..",
        f"{folder}/a/b",
        f"/{folder}/a",
        f"{folder}/a\0",
        f"{folder}/a\n",
    ):
        with pytest.raises(LookupError):
            placed(request(path), Path("up"))
    for body in (
        b"",
        b"\xff",
        b"[" * 100_000,
        b'{"data": [NaN]}',
        b'{"path": 1, "meta": {"_type": "gradio.FileData"}}',
    ):
        assert placed(body, Path("up")) == body


def test_nothing_is_left_of_a_broken_upload(server: Server) -> None:
    host, port = server.host.split(":")
    with socket.create_connection((host, int(port)), timeout=10) as line:
        head = f"POST {API}/upload HTTP/1.1\r\nHost: x\r\nContent-Type: {FORM}\r\nContent-Length: 900000\r\n\r\n"
        line.sendall(head.encode() + PART % (b"files", b"a.json", b"x" * 200_000))
        time.sleep(0.3)
    assert server.ask("POST", f"{API}/upload", PART % (b"other", b"a.json", RACE) + b"--b--\r\n", FORM)[0] == 400
    assert server.ask("POST", f"{API}/upload", PART % (b"files", b"a.json", RACE) + b"nothing", FORM)[0] == 400
    time.sleep(0.2)
    assert server.kept() == []


@pytest.mark.parametrize("size", [200_000, 2_000_000], ids=["in-memory", "on-disk"])
def test_a_disk_without_room_is_told_as_that(server: Server, size: int) -> None:
    """It was told as a request that cannot be read."""
    before = sorted(server.uploads.iterdir())
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    try:
        status, text = server.send(b"x" * size)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert status == 507 and text.startswith(b"the server cannot keep it (File too large)")
    assert sorted(server.uploads.iterdir()) == before


def test_one_file_at_a_time(server: Server) -> None:
    """A thousand open files of one request would be all that a process may have open."""
    many = b"".join(PART % (b"files", b"%d.json" % number, b"") for number in range(50)) + b"--b--\r\n"
    status, text = server.ask("POST", f"{API}/upload", many, FORM)
    assert status == 400 and b"Too many files" in text
    field = b'--b\r\nContent-Disposition: form-data; name="files"\r\n\r\nx\r\n--b--\r\n'
    assert server.ask("POST", f"{API}/upload?upload_id=a", field, FORM)[0] == 400
    assert server.ask("POST", f"{API}/upload", b"{}")[0] == 400
    assert server.kept() == []


@pytest.mark.parametrize("sign", [b"\r\n--bx", b"\r\n--b-x"], ids=["line", "end"])
def test_a_file_of_lines_that_nearly_end_it_is_refused(server: Server, sign: bytes) -> None:
    """The parser went through it letter by letter: 20 seconds for 30 MB, in which others waited."""
    status, text = server.send(sign * 500_000)
    assert status == 400 and b"no form with one file" in text
    assert server.kept() == []


@pytest.mark.parametrize("size", [1, 7, 1000])
@pytest.mark.parametrize("blank", [b" ", b"\t"])
def test_blanks_behind_the_line_that_ends_a_file_are_refused(size: int, blank: bytes) -> None:
    """Thirty seconds for 30 MB."""
    body = PART % (b"files", b"a", b"x\r\n--b" + blank * 99)
    parts = [{"type": "http.request", "body": body[at : at + size]} for at in range(0, len(body), size)]

    async def receive() -> Any:
        return parts.pop(0)

    async def read() -> None:
        checked = few_delimiters(receive, b"b")
        while parts:
            await checked()

    with pytest.raises(HTTPException):
        asyncio.run(read())
    assert size == 1000 or parts


@pytest.mark.parametrize("kind", ["application/x-www-form-urlencoded", "multipart/form-data", "text/plain", ""])
def test_what_is_no_form_with_a_file_is_not_read(server: Server, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A form of 30 MB that holds `&` only took 25 seconds."""
    monkeypatch.setattr("starlette.requests.Request.stream", None)
    status, text = server.ask("POST", f"{API}/upload", b"&" * 100_000, kind)
    assert status == 400 and b"no form with one file" in text


@pytest.mark.parametrize(
    "file", [None, "", ".", "..", "nowhere", "/etc/passwd", "a\0b", "http://127.0.0.1:1/a", "\ud800"]
)
def test_a_file_that_nobody_uploaded(server: Server, file: Any) -> None:
    before = list(Path().iterdir())
    answer = server.open_race(file)
    assert "snapshot" not in answer and "root:" not in answer and str(Path().resolve()) not in answer
    assert list(Path().iterdir()) == before


def test_the_folder_of_all_uploads_is_no_file(server: Server) -> None:
    uploaded = server.upload(RACE)
    yours = server.place(uploaded)
    folder = yours.parent.name
    for place in (
        server.uploads,
        yours.parent,
        yours,
        yours / "x",
        folder,
        f"{folder}/",
        f"{folder}/..",
        f"{folder}/x",
    ):
        assert "snapshot" not in server.open_race(place)
    assert yours.read_bytes() == RACE
    yours.unlink()


class Elsewhere(http.server.BaseHTTPRequestHandler):
    """Another machine, which notes what it is asked."""

    asked: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        self.asked.append(self.path)
        self.send_response(200)
        self.end_headers()


def test_the_server_fetches_nothing_for_a_visitor(server: Server) -> None:
    """gradio's own would fetch any public address that a visitor names, as a file of a form or in a path."""
    with http.server.HTTPServer(("127.0.0.1", 0), Elsewhere) as elsewhere:
        threading.Thread(target=elsewhere.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{elsewhere.server_port}/race.json"
        assert "fetches none" in server.open_race(url)
        assert "fetches none" in server.open_race("https://example.com/race.json")
        places = (url, "https://example.com/")
        ways = [f"{way}{place}" for way in ("file=", "FILE=", "/file=", "file/", "/file/") for place in places]
        for path in (*ways, f"proxy={url}"):
            assert server.ask("GET", f"{API}/{path}")[0] == 404
            assert server.ask("GET", f"{API}/{path}{API}/x")[0] == 404
        elsewhere.shutdown()
    assert Elsewhere.asked == []


def test_nobody_waits_for_a_form_to_log_in_with(server: Server) -> None:
    """gradio went through each letter of it, over half a second for a megabyte, and served nobody meanwhile."""
    for path in ("/login", "/login/", "/folder/login"):
        assert server.ask("POST", path, b"username=a&password=b", "application/x-www-form-urlencoded")[0] == 404


def test_routes_that_the_page_does_not_use_are_closed(server: Server) -> None:
    for path in ("process_recording", "component_server", "vibe-edit", "undo-vibe-edit", "vibe-code"):
        assert server.ask("POST", f"{API}/{path}", b"{}")[0] == 404
    for path in ("deep_link?session_hash=v", "dev/reload", "stream/a/b/1/playlist.m3u8", "upload_progress?upload_id=a"):
        assert server.ask("GET", f"{API}/{path}")[0] == 404
    assert [path.name for path in server.uploads.iterdir() if path.name == "deep_links"] == []


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("race.json", "race.json"),
        ("../../etc/passwd", "passwd"),
        ("C:\\texts\\my notes.txt", "my notes.txt"),
        ("..", "upload."),
        ("", "upload"),
        (".json", "upload.json"),
        ("日本語.txt", "日本語.txt"),
        ("x" * 5000 + ".jsonl", "x" * 40 + ".jsonl"),
        ("a\r\nb\0.txt", "ab.txt"),
        ("\ud800.txt", "upload.txt"),
        ("x" * 39 + " and more.json", "x" * 39 + ".json"),
        ("x." + "y" * 39 + " and more", "x." + "y" * 39),
        ("\U00020000" * 50 + "." + "\U00020000" * 50, "\U00020000" * 30 + "." + "\U00020000" * 30),
    ],
)
def test_names(given: str, name: str) -> None:
    assert name_of(given) == name_of(name) == name
    assert len(name.encode()) < 255


def test_a_file_whose_name_is_cut_behind_a_word_is_opened(server: Server) -> None:
    """The cut name ended in a blank, which was not the name that the next request was asked for."""
    uploaded = server.upload(RACE, f"{'x' * 39} and more.json".encode())
    assert "snapshot" in server.open_race(uploaded)
