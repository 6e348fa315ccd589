"""A small HTTP client for an OpenAI-compatible server: many streams on one event loop, with next to no work a token."""

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from spectra.errors import SpectraError
from spectra.io.json_text import parse_json

Message = Mapping[str, str]
HOST = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Reply:
    """first: seconds to the first text. seconds: to the last. tokens: as the server counts them."""

    text: str
    tokens: int
    first: float
    seconds: float

    @property
    def each(self) -> float:
        """Seconds a token after the first."""
        return (self.seconds - self.first) / max(1, self.tokens - 1)


@dataclass(frozen=True, slots=True)
class Server:
    """model: the name it knows its model by."""

    port: int
    model: str = ""

    async def get(self, path: str) -> str:
        """The body. Raises OSError where nothing answers, SpectraError for a refusal."""
        async with self._ask("GET", path, b"") as reader:
            return b"".join([part async for part in reader]).decode()

    async def chat(
        self, messages: Sequence[Message], tokens: int, *, temperature: float = 0.0, leave: float = 0.0
    ) -> Reply | None:
        """Stream an answer of at most `tokens` tokens; None when it was left after `leave` seconds."""
        body = {
            "model": self.model, "messages": list(messages), "max_tokens": tokens, "temperature": temperature,
            "seed": 0, "stream": True, "stream_options": {"include_usage": True},
        }  # fmt: skip
        began = time.perf_counter()
        first = 0.0
        last = 0.0
        text = []
        count = 0
        try:
            async with asyncio.timeout(leave or None):
                async for event in self._events("/v1/chat/completions", body):
                    for choice in event.get("choices", ()):
                        if piece := choice["delta"].get("content"):
                            last = time.perf_counter() - began
                            first = first or last
                            text.append(piece)
                    count = (event.get("usage") or {}).get("completion_tokens", count)
        except TimeoutError:
            return None
        return Reply("".join(text), count, first, last)

    async def metrics(self) -> dict[str, float]:
        """Sums over labels of the server's Prometheus counters and gauges, by name."""
        found: dict[str, float] = {}
        for line in (await self.get("/metrics")).splitlines():
            if match := re.match(r"([\w:]+)(?:\{.*\})? (\S+)$", line):
                found[match[1]] = found.get(match[1], 0.0) + float(match[2])
        return found

    async def _events(self, path: str, body: dict[str, Any]) -> AsyncIterator[dict[str, Any]]:
        """Server-sent events up to [DONE]."""
        held = b""
        async with self._ask("POST", path, json.dumps(body).encode()) as reader:
            async for part in reader:
                *whole, held = (held + part).split(b"\n\n")
                for event in whole:
                    data = event.removeprefix(b"data: ")
                    if data == b"[DONE]":
                        return
                    yield parse_json(data)

    @asynccontextmanager
    async def _ask(self, method: str, path: str, body: bytes) -> AsyncIterator[AsyncIterator[bytes]]:
        """The body in the parts it comes in; leaving early closes the connection, which cancels the request."""
        reader, writer = await asyncio.open_connection(HOST, self.port)
        try:
            head = f"{method} {path} HTTP/1.1\r\nHost: {HOST}\r\nConnection: close\r\n"
            head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
            writer.write(head.encode() + body)
            status, *headers = (await reader.readuntil(b"\r\n\r\n")).decode().lower().split("\r\n")
            parts = _chunks(reader) if "transfer-encoding: chunked" in headers else _rest(reader)
            if status.split()[1] != "200":
                said = b"".join([part async for part in parts]).decode(errors="replace")
                raise SpectraError("server", f"{path} was refused with {status.split()[1]} ({said[:200]}); see its log")
            yield parts
        finally:
            writer.close()


async def _chunks(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    while size := int(await reader.readline(), 16):
        yield (await reader.readexactly(size + 2))[:-2]


async def _rest(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    while part := await reader.read(1 << 16):
        yield part
