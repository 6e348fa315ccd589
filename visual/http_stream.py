"""What a server answers by HTTP, as it comes: bytes, lines and silence, within limits of size and time."""

import re
import time
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future
from contextlib import closing, suppress
from queue import Empty, SimpleQueue
from socket import SHUT_RDWR
from threading import Event, Thread
from typing import Any, NamedTuple, TypeVar

import httpx

from spectra.io.json_text import parse_json
from visual.said import ServerFailureError, refusal_in

Result = TypeVar("Result")

LIST_SECONDS = 10.0
"""Within which a server lists its models."""
LIST_BYTES = 2**24
SILENT_SECONDS = 0.25
"""The longest that whoever was asked to stop waits for a server that says nothing."""
REFUSAL_BYTES, REFUSAL_LETTERS = 64_000, 2_000
"""About as many are read of one: FastAPI repeats what it refuses. And so many are kept of its words."""
PLAIN_ENCODINGS = "", "identity", "none"
"""The last is some proxies' word for the second."""
EVENT = re.compile(rb"(?:\xef\xbb\xbf)?\s*(?:(?:data|error|event|id|retry)?:|\{)")
"""How a line of events begins, or JSON."""


class Line(NamedTuple):
    """at: when it came, by time.perf_counter; lines of one packet came at once, however late they are read. text: empty
    where only a part of it came, or nothing for a while."""

    at: float
    text: bytes = b""


def listed(client: httpx.Client, url: str) -> Any:
    """What the server lists, as JSON. Raises httpx.HTTPError or ValueError, at the latest after twice LIST_SECONDS.

    A refusal is told whole: a key in it can only be found before it is cut.
    """

    def read() -> bytes:
        over = time.monotonic() + LIST_SECONDS
        text = bytearray()
        with client.stream("GET", url, timeout=LIST_SECONDS) as response:
            if response.status_code != httpx.codes.OK:
                raise ValueError(f"it refused with {response.status_code}: {reason_of(response)}")
            for piece in pieces_of(response):
                text += piece
                if time.monotonic() > over or len(text) > LIST_BYTES:
                    raise ValueError("its list does not end")
        return bytes(text)

    told = within(2 * LIST_SECONDS, read)
    try:
        return parse_json(told)
    except ValueError:
        raise ValueError(f"it is no JSON: {refusal_in(told.decode(errors='replace')) or 'nothing'}") from None


def within(seconds: float, ask: Callable[[], Result]) -> Result:
    """What `ask` gives. Raises ValueError where that takes longer."""
    future: Future[Result] = Future()

    def run() -> None:
        try:
            future.set_result(ask())
        except Exception as error:  # noqa: BLE001 - raised where it is waited for
            future.set_exception(error)

    Thread(target=run, daemon=True).start()
    try:
        return future.result(seconds)
    except TimeoutError:
        raise ValueError("its answer does not begin") from None


class Connection:
    """The connection of one request, which is not kept for another: a thread that waits there can be woken."""

    def __init__(self) -> None:
        self._stream: Any = None
        self._over = False

    def trace(self, event: str, info: dict[str, Any]) -> None:
        """For httpx, as the request's extension "trace"."""
        if event.endswith(("connect_tcp.complete", "start_tls.complete")):
            self._stream = info["return_value"]
            if self._over:
                self.hang_up()

    def hang_up(self) -> None:
        """Whoever reads there sees its end, at once where it is still made. Of one that is closed nothing happens."""
        self._over = True
        if self._stream is not None:
            with suppress(OSError):
                self._stream.get_extra_info("socket").shutdown(SHUT_RDWR)


def heard(lines: Generator[Line], seconds: float, hang_up: Callable[[], None]) -> Iterator[Line]:
    """These lines but the first, which says that they begin, and an empty one for each SILENT_SECONDS without one.

    They are read in a thread. Once nobody takes them any more it ends with the next one, or as `hang_up` ends them.
    Raises what reading them raises, and ValueError where the first takes longer than `seconds`.
    """
    inbox: SimpleQueue[Line | Exception | None] = SimpleQueue()
    over = Event()

    def run() -> None:
        try:
            with closing(lines):
                for line in lines:
                    inbox.put(line)
                    if over.is_set():
                        return
            inbox.put(None)
        except Exception as error:  # noqa: BLE001 - raised where it is waited for
            inbox.put(error)

    Thread(target=run, daemon=True).start()
    latest = time.monotonic() + seconds
    begun = False
    try:
        while True:
            try:
                line = inbox.get(timeout=SILENT_SECONDS)
            except Empty:
                if not begun and time.monotonic() > latest:
                    raise ValueError("its answer does not begin") from None
                yield Line(time.perf_counter())
                continue
            if line is None:
                return
            if isinstance(line, Exception):
                raise line
            if begun:
                yield line
            begun = True
    finally:
        over.set()
        hang_up()


def reason_of(response: httpx.Response) -> str:
    """Where a refusal leads, or else what it says at its beginning, or what its number means.

    What is cut ends with a whole word: of a key the beginning could not be told from others.
    """
    read = bytearray()
    for piece in pieces_of(response):
        read += piece
        if len(read) > REFUSAL_BYTES:
            break
    told = response.headers.get("Location") or _words(read) or response.reason_phrase
    return told or httpx.codes.get_reason_phrase(response.status_code) or "without a word"


def _words(read: bytearray) -> str:
    text = read.decode(errors="replace")
    words = refusal_in(" ".join(text.split()[:-1]) if len(read) > REFUSAL_BYTES else text).strip()
    return words if len(words) <= REFUSAL_LETTERS else " ".join(words[:REFUSAL_LETTERS].split()[:-1])


def no_page(lines: Iterator[Line]) -> Iterator[Line]:
    """These lines, of a server that calls them a web page. Some say so of events, as Flask does where nobody says
    better. Raises ServerFailureError where the first with something in it is neither of events nor JSON.
    """
    page = bytearray()
    for line in lines:
        if not page.strip() and EVENT.match(line.text):
            yield line
            yield from lines
            return
        page += line.text + b"\n"
        yield Line(line.at)
        if len(page) > REFUSAL_BYTES:
            break
    raise ServerFailureError("sent a web page", _words(page) or "without a word")


def pieces_of(response: httpx.Response) -> Iterator[bytes]:
    """Its bytes as they come. Raises ValueError where they are compressed: a few of them could fill the memory."""
    if response.headers.get("Content-Encoding", "").lower() not in PLAIN_ENCODINGS:
        raise ValueError("its answer is compressed, which was not asked for")
    return response.iter_bytes()


def whole_replies(lines: Iterator[Line]) -> Iterator[Line]:
    """These lines, of which JSON without a frame that goes over several is one: a whole reply in the place of events.

    Those that are kept for it are empty ones meanwhile.
    """
    kept: list[bytes] = []
    line = Line(0.0)
    for line in lines:
        if kept or (line.text.startswith(b"{") and not _is_json(line.text)):
            kept.append(line.text)
            yield Line(line.at)
        else:
            yield line
    if kept:
        yield Line(line.at, b"\n".join(kept))


def _is_json(text: bytes) -> bool:
    try:
        parse_json(text.decode(errors="replace"))
    except ValueError:
        return False
    return True


def lines_of(response: httpx.Response, most: int) -> Iterator[Line]:
    """Its lines, which end at a line feed only: text in JSON may hold other signs that end one. An empty one says that
    some of the next came. Raises ValueError for over `most` bytes.
    """
    rest = bytearray()
    count = 0
    at = time.perf_counter()
    for piece in pieces_of(response):
        at = time.perf_counter()
        count += len(piece)
        if count > most:
            raise ValueError("its answer does not end")
        rest += piece
        if b"\n" in piece:
            *whole, rest = rest.split(b"\n")
            yield from (Line(at, bytes(line)) for line in whole)
        else:
            yield Line(at)
    yield Line(at, bytes(rest))
