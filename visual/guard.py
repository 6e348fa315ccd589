"""What one address may ask of the server, who still listens to what was started, and the headers of every answer.

An ASGI middleware in front of gradio. It knows paths and sizes, no handler. What a request holds is checked by whoever
reads it.
"""

import asyncio
import json
import os
import time
from collections import deque
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs

from spectra.io.recent import Recent

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]

SPACE = "https://huggingface.co https://*.hf.space"
"""Who shows a Space in a frame."""
POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; font-src 'self' data:; connect-src 'self' data: blob:; worker-src 'self' blob:; "
    "object-src 'none'; base-uri 'self'; form-action 'self'; frame-ancestors 'self'"
)
"""gradio starts by inline scripts and makes functions of `js_on_load`; nothing is loaded from elsewhere."""
REMEMBERED = 10_000
"""Visitors whose address is known."""


@dataclass(frozen=True, slots=True)
class Limits:
    """body: bytes of a request that is no upload. upload: bytes of one. starts, uploads: requests a minute of one
    address. grace: seconds that what was started goes on although nobody listens. patience: seconds for one to arrive.
    """

    body: int = 1_000_000
    upload: int = 33_000_000
    starts: int = 60
    uploads: int = 12
    grace: float = 10.0
    patience: float = 30.0


class Guard:
    """The state of one page. clock: seconds."""

    def __init__(self, limits: Limits | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self.limits = limits or Limits()
        self._clock = clock
        self._open: dict[str, int] = {}
        self._heard: Recent[str, float] = Recent(REMEMBERED)
        self._addresses: Recent[str, str] = Recent(REMEMBERED)
        self._asked: Recent[tuple[str, str], deque[float]] = Recent(REMEMBERED)

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
                await self._serve(app, scope, receive, with_headers(send))
            else:
                await app(scope, receive, send)

        return guarded

    async def _serve(self, app: App, scope: Message, receive: Receive, send: Send) -> None:
        path, post = str(scope["path"]), scope["method"] == "POST"
        upload = post and path.rstrip("/").endswith("/upload")
        start = post and (path.rstrip("/").endswith("/queue/join") or "/call/" in path)
        address = str((scope.get("client") or ("",))[0])
        most = self.limits.upload if upload else self.limits.body
        if (upload or start) and not self._may(address, "upload" if upload else "start"):
            await refuse(send, 429, "too many requests from this address; wait a minute")
            return
        if declared(scope) > most:
            await refuse(send, 413, f"over {most} bytes")
            return
        if start:
            try:
                async with asyncio.timeout(self.limits.patience):
                    body = await read(receive, most)
            except TimeoutError:
                await refuse(send, 408, f"it took over {self.limits.patience:g} seconds to arrive")
                return
            if body is None:
                await refuse(send, 413, f"over {most} bytes")
                return
            self._addresses.put(session_of(body), address)
            receive = replay(body, receive)
        elif post:
            receive = bounded(receive, most)
        listener = "" if post else listener_of(path, str(scope.get("query_string", b""), "latin-1"))
        self._open[listener] = self._open.get(listener, 0) + 1
        try:
            await app(scope, receive, send)
        except TooLargeError:
            await refuse(send, 413, f"over {most} bytes")
        finally:
            self._open[listener] -= 1
            if not self._open[listener]:
                del self._open[listener]
                self._heard.put(listener, self.now())

    def _may(self, address: str, what: str) -> bool:
        """Count a request of this kind; False where the last minute had too many."""
        most = self.limits.uploads if what == "upload" else self.limits.starts
        times = self._asked.get_or_make((address, what), deque)
        while times and self.now() - times[0] > 60:
            times.popleft()
        if len(times) >= most:
            return False
        times.append(self.now())
        return True


class TooLargeError(Exception):
    """A body without a stated length was longer than allowed."""


def with_headers(send: Send) -> Send:
    """Every answer says what it may load, who may frame it, and that its type is what it says."""
    space = bool(os.environ.get("SPACE_ID"))
    headers = {
        "content-security-policy": f"{POLICY} {SPACE}" if space else POLICY,
        "x-content-type-options": "nosniff",
        "referrer-policy": "same-origin",
    }
    if not space:
        headers["x-frame-options"] = "SAMEORIGIN"

    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            more = [(name.encode(), value.encode()) for name, value in headers.items()]
            message = {**message, "headers": [*message.get("headers", ()), *more]}
        await send(message)

    return sent


async def refuse(send: Send, status: int, reason: str) -> None:
    body = json.dumps({"detail": reason}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def declared(scope: Message) -> int:
    """The length that a request states, 0 where it states none."""
    length = dict(scope.get("headers", ())).get(b"content-length", b"")
    return int(length) if length.isdigit() else 0


async def read(receive: Receive, most: int) -> bytes | None:
    """The whole body; None where it is longer than `most`."""
    body = b""
    while True:
        message = await receive()
        body += bytes(message.get("body", b""))
        if len(body) > most:
            return None
        if message["type"] != "http.request" or not message.get("more_body"):
            return body


def replay(body: bytes, receive: Receive) -> Receive:
    """A body that was read already, then whatever comes."""
    waiting = [body]

    async def received() -> Message:
        if waiting:
            return {"type": "http.request", "body": waiting.pop(), "more_body": False}
        return await receive()

    return received


def bounded(receive: Receive, most: int) -> Receive:
    """Raises TooLargeError where more than `most` bytes come."""
    count = 0

    async def received() -> Message:
        nonlocal count
        message = await receive()
        count += len(message.get("body", b""))
        if count > most:
            raise TooLargeError
        return message

    return received


def session_of(body: bytes) -> str:
    """The visitor that a request names, "" for none."""
    try:
        data = json.loads(body)
    except (ValueError, RecursionError):
        return ""
    return str(data.get("session_hash") or "")[:200] if isinstance(data, dict) else ""


def listener_of(path: str, query: str) -> str:
    """Whose answers a request listens to: a page names its visitor, a call its event, which is its visitor too."""
    if path.rstrip("/").endswith("/queue/data"):
        return parse_qs(query).get("session_hash", [""])[0][:200]
    return path.rstrip("/").rpartition("/")[2] if "/call/" in path else ""
