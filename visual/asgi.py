"""What the page's middlewares share: the types of ASGI, bodies read within bounds, answers refused or held back."""

import asyncio
import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]


class RefusedError(Exception):
    """Why a request is not served, with the status of the answer."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


def declared(scope: Message) -> int:
    """The length that a request states, 0 where it states none."""
    length = dict(scope.get("headers", ())).get(b"content-length", b"")
    return int(length[:20]) if length.isdigit() else 0


async def read(receive: Receive) -> bytes:
    """The whole body."""
    parts = []
    while True:
        message = await receive()
        parts.append(bytes(message.get("body", b"")))
        if message["type"] != "http.request" or not message.get("more_body"):
            return b"".join(parts)


def replay(body: bytes, receive: Receive) -> Receive:
    """A body that was read already, then whatever comes."""
    waiting = [body]

    async def received() -> Message:
        if waiting:
            return {"type": "http.request", "body": waiting.pop(), "more_body": False}
        return await receive()

    return received


def bounded(receive: Receive, limit: int, patience: float) -> Receive:
    """Raises RefusedError where more than `limit` bytes come, or where they take over `patience` seconds."""
    count, whole = 0, False
    end = asyncio.get_running_loop().time() + patience

    async def received() -> Message:
        nonlocal count, whole
        if whole:  # what comes after the body is the visitor's leaving
            return await receive()
        try:
            async with asyncio.timeout_at(end):
                message = await receive()
        except TimeoutError:
            raise RefusedError(408, f"it took over {patience:g} seconds to arrive") from None
        count += len(message.get("body", b""))
        if count > limit:
            raise RefusedError(413, f"over {limit} bytes")
        whole = message["type"] != "http.request" or not message.get("more_body")
        return message

    return received


async def refuse(send: Send, status: int, reason: str) -> None:
    """Answer with this status and the reason as JSON."""
    body = json.dumps({"detail": reason}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def held_back(
    send: Send, wanted: Callable[[Message], bool], finish: Callable[[Message, bytes], Awaitable[None]]
) -> Send:
    """Holds an answer back until it is complete, and gives it to `finish`. wanted: whether, by its start."""
    start: Message = {}
    body = b""

    async def sent(message: Message) -> None:
        nonlocal start, body
        if message["type"] == "http.response.start" and wanted(message):
            start = message
        elif message["type"] == "http.response.body" and start:
            body += bytes(message.get("body", b""))
            if not message.get("more_body"):
                await finish(start, body)
        else:
            await send(message)

    return sent
