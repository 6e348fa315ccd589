"""What one address may ask of the server, and who still listens to what was started.

An ASGI middleware in front of gradio. It knows paths and sizes, no handler. What a request holds is checked by whoever
reads it.
"""

import logging
import re
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from ipaddress import IPv6Address, IPv6Network
from typing import Any, Literal

import httpx
from starlette.datastructures import QueryParams
from starlette.exceptions import HTTPException

from spectra.io.json_text import most_values, parse_json
from spectra.io.recent import Recent
from visual.asgi import (
    App,
    Message,
    Receive,
    RefusedError,
    Send,
    bounded,
    declared,
    held_back,
    read,
    refuse,
    replay,
)
from visual.presence import OpenPages, Presence, one_more
from visual.security_headers import SendWithHeaders

log = logging.getLogger("spectra")
REMEMBERED = 10_000
"""Visitors whose address is known."""
LONGEST_NAME = 200
"""Characters of a visitor's name, which gradio keeps; a page draws 11."""
NAME = re.compile(r"[\w.:-]+", re.ASCII)
"""What such a name is made of. With an empty one gradio's queue would end, for all visitors; with one that holds what
stands between the parts of its tasks' names, nobody could cancel."""
PAGES = 32
"""Open pages of one address whose last runs are not let go for those of others; half of what is kept."""
UNHEARD = 8
"""Starts of a visitor who listens for none of their answers: gradio keeps them all."""
LONGEST_LINK = 60_000
"""Bytes of a path and its query; gradio reads no address of 65,536."""
UPLOAD = "/gradio_api/upload"
"""How the path of uploads ends; a folder may come before it."""
CLOSED = re.compile(
    "/gradio_api/+(component_server|custom_component|deep_link|dev/|file/|file=http|process_recording|proxy=|runs|stream|"
    "undo-vibe|upload_progress|vibe)|/login/*$",
    re.IGNORECASE,
)
"""How gradio's own routes begin that the page does not use: they fetch from other machines, write to disk whatever is
asked, start programs, or, to log in, go through a form letter by letter while everybody waits.
"""


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """body: bytes of a request that is no upload. values: of its JSON, keys included; the page sends some hundreds.
    upload: bytes of one. starts, uploads, calls: requests a minute of one address; a call is any other that sends
    something. grace: seconds that what was started goes on although nobody listens. patience, upload_patience: seconds
    for a request to arrive, and for an upload. held, all_held: bytes of uploads that arrive or that nobody took, of one
    address and of all. kept: seconds until such a one is deleted. open: requests of one address that arrive or are
    answered at once; a page has one open as long as it is there, and one for the answers that it waits for.
    """

    body: int = 1_000_000
    values: int = 10_000
    upload: int = 33_000_000
    starts: int = 60
    uploads: int = 12
    calls: int = 600
    grace: float = 10.0
    patience: float = 30.0
    upload_patience: float = 300.0
    held: int = 128_000_000
    all_held: int = 1_000_000_000
    kept: float = 3600.0
    open: int = 300


Kind = Literal["starts", "uploads", "calls"]


@dataclass(frozen=True, slots=True)
class RequestHead:
    """The head of a request. post: it sends something, of this kind. declared: bytes that it says it sends."""

    method: str
    path: str
    query: bytes
    address: str
    declared: int

    @classmethod
    def of(cls, scope: Message) -> "RequestHead":
        query = bytes(scope.get("query_string", b""))
        return cls(str(scope["method"]), str(scope["path"]), query, address_of(scope), declared(scope))

    @property
    def post(self) -> bool:
        return self.method == "POST"

    @property
    def kind(self) -> Kind:
        path = self.path.rstrip("/")
        if self.post and path.endswith(UPLOAD):
            return "uploads"
        start = self.post and (path.endswith("/queue/join") or "/call/" in self.path)
        return "starts" if start else "calls"


class Guard:
    """The state of one page. clock: seconds. presence: gone is who started something and then had no connection open
    for twice the grace: what was started is over.
    """

    def __init__(self, limits: RequestLimits | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self.limits = limits or RequestLimits()
        self._clock = clock
        self._open: Counter[str] = Counter()
        self._heard: Recent[str, float] = Recent(REMEMBERED)
        self._addresses: Recent[str, str] = Recent(REMEMBERED)
        self._visitors: Recent[str, str] = Recent(REMEMBERED)
        self._asked: Recent[tuple[str, str], deque[float]] = Recent(REMEMBERED)
        self._unheard: Recent[str, int] = Recent(REMEMBERED)
        self._connections: Counter[str] = Counter()
        self.pages = OpenPages(PAGES)
        self.presence = Presence(2 * self.limits.grace)
        self.on_end: Callable[[], object] | None = None
        """Called when the server has ended."""

    def now(self) -> float:
        return self._clock()

    def address(self, visitor: str) -> str:
        """Where a visitor's last request came from, "" where that is not known."""
        return self._addresses.peek(visitor) or ""

    def left(self, visitor: str, since: float) -> bool:
        """Whether nobody has listened for the visitor's answers for the whole of the grace. since: when it started."""
        if not visitor or self._open.get(visitor):
            return False
        return self.now() - max(since, self._heard.peek(visitor) or 0.0) > self.limits.grace

    def wrap(self, app: App) -> App:
        """The app behind this guard: what starlette calls a middleware."""

        async def guarded(scope: Message, receive: Receive, send: Send) -> None:
            if scope["type"] == "http":
                with one_more(self._connections, address_of(scope)):
                    await self._serve(app, scope, receive, SendWithHeaders(send))
            else:
                await app(scope, receive, send)

        return guarded

    async def _serve(self, app: App, scope: Message, receive: Receive, send: SendWithHeaders) -> None:
        request = RequestHead.of(scope)
        answer: Send = send
        try:
            check_hosts(scope)
            self._check_head(request)
            if request.kind == "uploads":
                receive = bounded(receive, self.limits.upload, self.limits.upload_patience)
            elif request.post:
                body = await read(bounded(receive, self.limits.body, self.limits.patience))
                visitor = self._check_body(request, body)
                receive = replay(body, receive)
                if request.kind == "starts":
                    answer = self._noting(send, visitor, request.address)
        except RefusedError as error:
            await refuse(send, error.status, str(error))
            return
        with ExitStack() as listening:
            if not request.post:
                receive, answer = self._listened(receive, send, request, listening)
            try:
                await app(scope, receive, answer)
            except Exception as error:
                if not await self._end(request, send, error):
                    raise

    def _check_head(self, request: RequestHead) -> None:
        """Count a request that sends something. Raises RefusedError."""
        if len(request.path) + len(request.query) > LONGEST_LINK:
            raise RefusedError(414, f"a link of over {LONGEST_LINK} bytes; write the prompt on the page")
        if not all(letter.isprintable() for letter in request.path):
            raise RefusedError(400, "a path holds letters that cannot be printed")
        if CLOSED.search(request.path):  # anywhere: a folder may come before it, and an address after it
            raise RefusedError(404, "this page has no such thing")
        if self._connections[request.address] > self.limits.open:
            raise RefusedError(429, "too many requests of this address at once; close some of its pages")
        if request.post and not self._may(request.address, request.kind):
            raise RefusedError(429, "too many requests from this address; wait a minute")
        limit = self.limits.upload if request.kind == "uploads" else self.limits.body
        if request.declared > limit:
            raise RefusedError(413, f"over {limit} bytes")

    def _check_body(self, request: RequestHead, body: bytes) -> str:
        """The visitor that it names, "" for none; a start is counted. Raises RefusedError."""
        data = read_data(body, self.limits.values)
        if fetches(data):
            raise RefusedError(400, "a file has to be uploaded; this server fetches none")
        visitor = session_of(data)
        if len(visitor) > LONGEST_NAME:
            raise RefusedError(400, f"session_hash: {len(visitor)} characters; give at most {LONGEST_NAME}")
        if isinstance(data, dict) and data.get("session_hash") is not None and not NAME.fullmatch(visitor):
            raise RefusedError(400, "session_hash: it is no name; give letters, digits, . : _ or -, or leave it out")
        if request.kind == "starts" and visitor:
            if not self._is_heard(visitor):
                raise RefusedError(429, "nobody listens for what was started here; load the page again")
            self._addresses.put(visitor, request.address)  # before its run can begin
        return visitor

    @contextmanager
    def _connected(self, request: RequestHead) -> Iterator[str]:
        """Inside, a connection is open: of whoever listens for answers, who is given, or of a page."""
        listener = listener_of(request.path, str(request.query, "latin-1"))
        listener = self._visitors.peek(listener) or listener
        here = listener or page_of(request.path)
        self.presence.came(here)
        try:
            with one_more(self._open, listener), self.pages.opened(here, request.address):
                yield listener
        finally:
            if listener not in self._open:
                self._heard.put(listener, self.now())
            if self.presence.went(here) and self._addresses.peek(here) is not None:
                self.presence.look_later(here)

    def _listened(
        self, receive: Receive, send: Send, request: RequestHead, listening: ExitStack
    ) -> tuple[Receive, Send]:
        """Has `listening` hold the connection once its answer begins as a stream of events, and counts no start as
        unheard any more when it ended by itself: of one that was broken off, or of what only looks like a request for
        one, gradio may keep what nobody fetches.
        """
        listener, hung_up = "", False

        async def received() -> Message:
            nonlocal hung_up
            message = await receive()
            hung_up |= message["type"] == "http.disconnect"
            return message

        async def sent(message: Message) -> None:
            nonlocal listener
            if is_stream(message):
                listener = listening.enter_context(self._connected(request))
            elif not (hung_up or message.get("more_body")):
                self._unheard.drop(listener)
            await send(message)

        return received, sent

    async def _end(self, request: RequestHead, send: SendWithHeaders, error: Exception) -> bool:
        """Answer a request at which the app failed, or end the answer; False where the error is the app's own."""
        if not send.begun:
            if isinstance(error, RefusedError):
                await refuse(send, error.status, str(error))
            else:  # what gradio's readers raise of values that nobody writes
                log.warning("%s %.80r: %s", request.method, request.path, type(error).__name__)
                await refuse(send, 400, "this request cannot be read")
            return True
        if isinstance(error.__cause__, HTTPException):  # nobody is known under the name that was asked for
            await send({"type": "http.response.body", "body": b""})
            return True
        return isinstance(error, RefusedError)

    def _noting(self, send: Send, visitor: str, address: str) -> Send:
        """Reads the event from the answer to a start: it can be listened to, and is the visitor where none is named."""

        async def finish(start: Message, body: bytes) -> None:
            event = event_of(body)
            self._visitors.put(event, visitor or event)
            self._addresses.put(visitor or event, address)
            self.presence.look_later(visitor or event)
            await send(start)
            await send({"type": "http.response.body", "body": body})

        return held_back(send, lambda start: bool(start["status"] == 200), finish)

    def _is_heard(self, visitor: str) -> bool:
        """Count a start; False where there were `UNHEARD` of this visitor since anybody listened."""
        unheard = 0 if self._open.get(visitor) else (self._unheard.peek(visitor) or 0)
        self._unheard.put(visitor, min(unheard + 1, UNHEARD))
        return unheard < UNHEARD

    def _may(self, address: str, what: Kind) -> bool:
        """Count a request of this kind; False where the last minute had too many."""
        limit = getattr(self.limits, what)
        times = self._asked.get_or_make((address, what), deque)
        while times and self.now() - times[0] > 60:
            times.popleft()
        if len(times) >= limit:
            return False
        times.append(self.now())
        return True


def check_hosts(scope: Message) -> None:
    """Raise RefusedError for the name of a server that is none: gradio makes an address of it when a page is closed,
    long after the answer began. A request of HTTP/1.0 may name no host, which gradio looks for beside an `Origin`: it
    gets one.
    """
    headers = scope["headers"]
    try:
        for name, value in headers:
            first = str(value, "latin-1").partition(",")[0].strip()
            if name == b"x-forwarded-host":
                httpx.URL(f"http://{first}")
            elif name == b"x-gradio-server":
                httpx.URL(first)
    except httpx.InvalidURL:
        raise RefusedError(400, "a header names a server that cannot be one") from None
    if all(name != b"host" for name, _ in headers):
        headers.append((b"host", b"localhost"))


def address_of(scope: Message) -> str:
    """Where a request comes from; of IPv6 the network of 64 bits, all of which one connection has. "" if not known."""
    client = str((scope.get("client") or ("",))[0])
    try:
        address = IPv6Address(client)
    except ValueError:
        return client
    return str(address.ipv4_mapped or IPv6Network((address.packed, 64), strict=False))


def read_data(body: bytes, values: int) -> Any:
    """What a request holds, None for no JSON. Raises RefusedError for more values, before they are made."""
    try:
        if most_values(body) > values:
            raise RefusedError(413, f"over {values} values")
        return parse_json(body)
    except ValueError:
        return None


def fetches(data: Any) -> bool:
    """Whether a request names a file of another machine, which gradio would fetch."""
    waiting = [data]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            if str(value.get("path", "")).startswith(("http://", "https://")):
                return True
            waiting.extend(value.values())
        elif isinstance(value, list):
            waiting.extend(value)
    return False


def session_of(data: Any) -> str:
    """The visitor that a request names, "" for none."""
    return str(data.get("session_hash") or "") if isinstance(data, dict) else ""


def event_of(answer: bytes) -> str:
    """What gradio calls the start that it answers."""
    return str(parse_json(answer)["event_id"])


def is_stream(message: Message) -> bool:
    """Whether a message begins an answer that goes on as long as events come."""
    kind = dict(message.get("headers", ())).get(b"content-type", b"")
    return message["type"] == "http.response.start" and bytes(kind).startswith(b"text/event-stream")


def listener_of(path: str, query: str) -> str:
    """Whose answers a request listens to: a page names its visitor, a call its event."""
    if path.rstrip("/").endswith("/queue/data"):
        return QueryParams(query).get("session_hash", "")[:LONGEST_NAME]  # as gradio: of several the last
    return path.rstrip("/").rpartition("/")[2][:LONGEST_NAME] if "/call/" in path else ""


def page_of(path: str) -> str:
    """Whose page a request keeps open, "" for any other request: gradio's heartbeat lasts as long as the page."""
    before, _, name = path.rstrip("/").rpartition("/")
    return name[:LONGEST_NAME] if before.endswith("/heartbeat") else ""
