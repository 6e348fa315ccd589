"""The script that the page runs before gradio's own."""

import asyncio

import pytest

from visual.asgi import Message, Receive, Send
from visual.first_script import FIRST, GRADIO, with_first_script

PAGE = b"<head>" + GRADIO + b" src='./a.js'></script>" + GRADIO + b" src='./b.js'></script></head>"


def answer(path: str, *parts: bytes, kind: bytes = b"text/html; charset=utf-8", coded: bool = False) -> list[Message]:
    """What is sent for a path when the app behind answers in these parts."""
    sent: list[Message] = []
    length = str(sum(map(len, parts))).encode()
    headers = [(b"content-type", kind), (b"content-length", length), *([(b"content-encoding", b"br")] * coded)]

    async def app(scope: Message, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        for number, part in enumerate(parts, 1):
            await send({"type": "http.response.body", "body": part, "more_body": number < len(parts)})

    async def receive() -> Message:
        return {"type": "http.request", "body": b""}

    async def send(message: Message) -> None:
        sent.append(message)

    asyncio.run(with_first_script(app)({"type": "http", "method": "GET", "path": path}, receive, send))
    return sent


@pytest.mark.parametrize("parts", [(PAGE,), (PAGE[:9], PAGE[9:])])
def test_the_script_stands_before_the_first_of_gradios(parts: tuple[bytes, ...]) -> None:
    start, body = answer("/", *parts)
    assert body["body"] == PAGE.replace(GRADIO, FIRST + GRADIO, 1) and body["body"].count(FIRST) == 1
    assert dict(start["headers"])[b"content-length"] == str(len(body["body"])).encode()


def test_other_answers_are_left_as_they_are() -> None:
    assert [one.get("body") for one in answer("/config", PAGE)] == [None, PAGE]
    assert answer("/", b"{", b"}", kind=b"application/json")[1:] == [
        {"type": "http.response.body", "body": b"{", "more_body": True},
        {"type": "http.response.body", "body": b"}", "more_body": False},
    ]
    assert answer("/", PAGE, coded=True)[1]["body"] == PAGE
