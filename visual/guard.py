"""What one address may ask of the server, and who still listens to what was started.

An ASGI middleware in front of gradio. It knows paths and sizes, no handler. What a request holds is checked by whoever
reads it.
"""

import logging
import re
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import IPv6Address, IPv6Network
from typing import Literal
from urllib.parse import parse_qs

from starlette.exceptions import HTTPException

from spectra.io.json_text import parse_json
from spectra.io.recent import Recent
from visual.asgi import (
    App,
    Message,
    Receive,
    Send,
    TooLargeError,
    TooSlowError,
    bounded,
    declared,
    held_back,
    read,
    refuse,
    replay,
)
from visual.presence import Presence
from visual.security_headers import Answer

log = logging.getLogger("spectra")
REMEMBERED = 10_000
"""Visitors whose address is known."""
LONGEST_NAME = 200
"""Characters of a visitor's name, which gradio keeps; a page draws 11."""
UNHEARD = 8
"""Starts of a visitor who listens for none of their answers: gradio keeps them all."""
LONGEST_LINK = 60_000
"""Bytes of a path and its query; gradio reads no address of 65,536."""
CLOSED = re.compile(
    "/gradio_api/+(component_server|custom_component|deep_link|dev/|file=http|process_recording|proxy=|runs|stream|"
    "undo-vibe|upload_progress|vibe)",
    re.IGNORECASE,
)
"""How gradio's own routes begin that the page does not use: they fetch from other machines, write to disk whatever is
asked, or start programs.
"""


@dataclass(frozen=True, slots=True)
class Limits:
    """body: bytes of a request that is no upload. upload: bytes of one. starts, uploads, calls: requests a minute of
    one address; a call is any other that sends something. grace: seconds that what was started goes on although nobody
    listens. patience, upload_patience: seconds for a request to arrive, and for an upload. held, all_held: bytes of
    uploads that arrive or that nobody took, of one address and of all. kept: seconds until such a one is deleted.
    """

    body: int = 1_000_000
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


class Guard:
    """The state of one page. clock: seconds. presence: gone is who started something and then had no connection open
    for twice the grace: what was started is over.
    """

    def __init__(self, limits: Limits | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self.limits = limits or Limits()
        self._clock = clock
        self._open: dict[str, int] = {}
        self._heard: Recent[str, float] = Recent(REMEMBERED)
        self._addresses: Recent[str, str] = Recent(REMEMBERED)
        self._visitors: Recent[str, str] = Recent(REMEMBERED)
        self._asked: Recent[tuple[str, str], deque[float]] = Recent(REMEMBERED)
        self._unheard: Recent[str, int] = Recent(REMEMBERED)
        self.presence = Presence(2 * self.limits.grace)

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
                await self._serve(app, scope, receive, Answer(send))
            else:
                await app(scope, receive, send)

        return guarded

    async def _serve(self, app: App, scope: Message, receive: Receive, send: Answer) -> None:
        path, post = str(scope["path"]), scope["method"] == "POST"
        query = bytes(scope.get("query_string", b""))
        if len(path) + len(query) > LONGEST_LINK:
            await refuse(send, 414, f"a link of over {LONGEST_LINK} bytes; write the prompt on the page")
            return
        if not all(letter.isprintable() for letter in path):
            await refuse(send, 400, "a path holds letters that cannot be printed")
            return
        if CLOSED.search(path):  # anywhere: a folder may come before it, and an address after it
            await refuse(send, 404, "this page has no such thing")
            return
        upload = post and path.rstrip("/").endswith("/upload")
        start = post and (path.rstrip("/").endswith("/queue/join") or "/call/" in path)
        address = address_of(scope)
        limit = self.limits.upload if upload else self.limits.body
        patience = self.limits.upload_patience if upload else self.limits.patience
        if post and not self._may(address, "uploads" if upload else "starts" if start else "calls"):
            await refuse(send, 429, "too many requests from this address; wait a minute")
            return
        if declared(scope) > limit:
            await refuse(send, 413, f"over {limit} bytes")
            return
        answer: Send = send
        if upload:
            receive = bounded(receive, limit, patience)
        elif post:
            try:
                body = await read(bounded(receive, limit, patience))
            except (TooLargeError, TooSlowError) as error:
                await refuse(send, error.status, str(error))
                return
            if fetches(body):
                await refuse(send, 400, "a file has to be uploaded; this server fetches none")
                return
            visitor = session_of(body)
            if len(visitor) > LONGEST_NAME:
                await refuse(send, 400, f"session_hash: {len(visitor)} characters; give at most {LONGEST_NAME}")
                return
            receive = replay(body, receive)
            if start and visitor and not self._is_heard(visitor):
                await refuse(send, 429, "nobody listens for what was started here; load the page again")
                return
            if start:
                if visitor:  # before its run can begin
                    self._addresses.put(visitor, address)
                answer = self._noting(send, visitor, address)
        listener = "" if post else listener_of(path, str(query, "latin-1"))
        listener = self._visitors.peek(listener) or listener
        here = listener or ("" if post else page_of(path))
        self._unheard.drop(listener)
        self._open[listener] = self._open.get(listener, 0) + 1
        self.presence.came(here)
        try:
            await app(scope, receive, answer)
        except (TooLargeError, TooSlowError) as error:
            if not send.begun:
                await refuse(send, error.status, str(error))
        except Exception as error:
            if not send.begun:  # what gradio's readers raise of values that nobody writes
                log.warning("%s %.80r: %s", scope["method"], path, type(error).__name__)
                await refuse(send, 400, "this request cannot be read")
            elif isinstance(error.__cause__, HTTPException):  # nobody is known under the name that was asked for
                await send({"type": "http.response.body", "body": b""})
            else:
                raise
        finally:
            self._open[listener] -= 1
            if not self._open[listener]:
                del self._open[listener]
                self._heard.put(listener, self.now())
            if self.presence.went(here) and self._addresses.peek(here) is not None:
                self.presence.look_later(here)

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

    def _may(self, address: str, what: Literal["starts", "uploads", "calls"]) -> bool:
        """Count a request of this kind; False where the last minute had too many."""
        limit = getattr(self.limits, what)
        times = self._asked.get_or_make((address, what), deque)
        while times and self.now() - times[0] > 60:
            times.popleft()
        if len(times) >= limit:
            return False
        times.append(self.now())
        return True


def address_of(scope: Message) -> str:
    """Where a request comes from; of IPv6 the network of 64 bits, all of which one connection has. "" if not known."""
    client = str((scope.get("client") or ("",))[0])
    try:
        address = IPv6Address(client)
    except ValueError:
        return client
    return str(address.ipv4_mapped or IPv6Network((address.packed, 64), strict=False))


def fetches(body: bytes) -> bool:
    """Whether a request names a file of another machine, which gradio would fetch."""
    try:
        waiting = [parse_json(body)]
    except ValueError:
        return False
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            if str(value.get("path", "")).startswith(("http://", "https://")):
                return True
            waiting.extend(value.values())
        elif isinstance(value, list):
            waiting.extend(value)
    return False


def session_of(body: bytes) -> str:
    """The visitor that a request names, "" for none."""
    try:
        data = parse_json(body)
    except ValueError:
        return ""
    return str(data.get("session_hash") or "") if isinstance(data, dict) else ""


def event_of(answer: bytes) -> str:
    """What gradio calls the start that it answers."""
    return str(parse_json(answer)["event_id"])


def listener_of(path: str, query: str) -> str:
    """Whose answers a request listens to: a page names its visitor, a call its event."""
    if path.rstrip("/").endswith("/queue/data"):
        return parse_qs(query).get("session_hash", [""])[0][:LONGEST_NAME]
    return path.rstrip("/").rpartition("/")[2][:LONGEST_NAME] if "/call/" in path else ""


def page_of(path: str) -> str:
    """Whose page a request keeps open, "" for any other request: gradio's heartbeat lasts as long as the page."""
    before, _, name = path.rstrip("/").rpartition("/")
    return name[:LONGEST_NAME] if before.endswith("/heartbeat") else ""
