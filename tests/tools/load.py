"""Visitors of a served page for a while, who race, stop, reload, upload, leave and never listen.

python tests/tools/load.py --visitors 50 --seconds 600 --out out/load

A process of its own serves the page over the scripted engine of the tests, on 127.0.0.1 only. Every message of a
visitor is checked to be of the visitor's own run. Writes load.csv (a row a second: memory, threads, answers), load.svg
and prints what happened, with the threads that the server has left over when all are gone. Ends by itself after the
seconds given.
"""

import argparse
import asyncio
import csv
import json
import os
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import aclosing, contextmanager
from pathlib import Path
from typing import Any

import httpx
import psutil

API = "/gradio_api"
HABITS = ("race", "race", "race", "stop", "reload", "upload", "deaf", "read")
PATIENCE = 60.0
"""Seconds for whatever a visitor does, and for what is left over to go away."""
KEEP_ALIVE = 2.0
"""Seconds that a connection is used again: the server closes one after five, and a request then would be lost."""
POOLS = ("AnyIO worker thread", "asyncio_", "ThreadPoolExecutor-")
"""Names of threads that stay to be used again."""
MEGABYTE = 1e6
ROOT = Path(__file__).parents[2]


class Handlers:
    """The page's handlers, found by what a visitor presses, and what its fields hold at first."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._fields = {one["id"]: one["props"] for one in config["components"]}
        self._all = [one for one in config["dependencies"] if one["backend_fn"]]
        self.race, self.stop, self.chat = map(self._pressed, ("go", "stop", "chat-go"))
        (self.bring,) = [one["id"] for one in self._all if one["api_name"] == "bring"]

    def _pressed(self, button: str) -> int:
        (found,) = [
            one["id"]
            for one in self._all
            if any(event == "click" and self._name(field) == button for field, event in one["targets"])
        ]
        return int(found)

    def _name(self, field: int | None) -> str:
        return str(self._fields.get(field, {}).get("elem_id") or "")

    def form(self, handler: int, **values: Any) -> list[Any]:
        """What the browser sends. values: by the fields' names, for those that the visitor changes."""
        (inputs,) = [one["inputs"] for one in self._all if one["id"] == handler]
        assert not set(values) - {self._name(field).removeprefix("field-") for field in inputs}
        held = {field: self._fields[field].get("value") for field in inputs}
        return [values.get(self._name(field).removeprefix("field-"), value) for field, value in held.items()]


class Visitor:
    """One open page that does one thing after the other. counts: what happened, of all visitors.

    habits: what it does, pauses: seconds between, from and to.
    """

    habits: tuple[str, ...] = HABITS
    pauses = (0.05, 0.6)

    def __init__(self, number: int, client: httpx.AsyncClient, page: Handlers, counts: Counter[str]) -> None:
        self.dice = random.Random(number)
        self.number, self.client, self.page, self.counts = number, client, page, counts
        self.visit()

    def visit(self) -> None:
        self.session = f"v{self.number}-{self.dice.getrandbits(40):x}"

    async def live(self, over: Callable[[], bool]) -> None:
        while not over():
            habit = self.dice.choice(self.habits)
            try:
                await asyncio.wait_for(getattr(self, habit)(), PATIENCE)
                self.counts[habit] += 1
            except TimeoutError:
                self.counts["no end within a minute"] += 1
            except httpx.HTTPError as error:
                self.counts[f"broken off: {type(error).__name__}"] += 1
            await asyncio.sleep(self.dice.uniform(*self.pauses))

    async def ask(self, handler: int, data: list[Any]) -> bool:
        body = {"data": data, "fn_index": handler, "session_hash": self.session}
        status = (await self.client.post(f"{API}/queue/join", json=body)).status_code
        self.counts[f"start {status}"] += status != 200
        return status == 200

    async def messages(self, prompt: str) -> AsyncIterator[dict[str, Any]]:
        """What the stage gets, until the handler ends. Counts what is of somebody else's run."""
        run = ""
        async with self.client.stream("GET", f"{API}/queue/data", params={"session_hash": self.session}) as lines:
            async for line in lines.aiter_lines():
                event = json.loads(line.removeprefix("data: ")) if line.startswith("data: ") else {}
                for message in stage_messages(event):
                    if message.get("kind") == "begin":
                        run = message["run"]
                        self.counts["mixed"] += message["link"]["prompt"] != prompt
                    elif "run" in message:
                        self.counts["mixed"] += message["run"] != run
                    yield message
                if event.get("msg") in ("process_completed", "close_stream"):
                    return

    async def start(self) -> str:
        prompt = f"{self.session} asks {self.dice.random()}"
        form = self.page.form(self.page.race, prompt=prompt, method="spectra", max_new_tokens=60)
        return prompt if await self.ask(self.page.race, form) else ""

    async def race(self) -> None:
        if prompt := await self.start():
            async with aclosing(self.messages(prompt)) as messages:
                kinds = [message["kind"] async for message in messages]
            self.counts["whole answers"] += "end" in kinds
            self.counts["told that the line is full"] += "refused" in kinds
            self.counts["neither"] += not {"end", "refused"} & set(kinds)

    async def stop(self) -> None:
        """In the middle, or while waiting."""
        if prompt := await self.start():
            seen = 0
            async with aclosing(self.messages(prompt)) as messages:
                async for _ in messages:
                    seen += 1
                    if seen == 2:
                        body = {"data": [None], "fn_index": self.page.stop, "session_hash": self.session}
                        await self.client.post(f"{API}/run/predict", json=body)
            self.counts["stopped in the middle"] += seen > 1

    async def reload(self) -> None:
        """The page goes away in the middle of a run and comes back as another."""
        if prompt := await self.start():
            async with aclosing(self.messages(prompt)) as messages:
                await anext(messages, None)
        self.visit()
        await self.read()

    async def deaf(self) -> None:
        await self.start()
        self.visit()

    async def read(self) -> None:
        for path in ("/", "/config", "/spectra/js/tabs/race.js"):
            (await self.client.get(path)).raise_for_status()

    async def upload(self) -> None:
        name = f"race-{self.number}.json"
        answer = await self.client.post(f"{API}/upload", files={"files": (name, b'{"format": 1}')})
        answer.raise_for_status()
        file = {"path": answer.json()[0], "orig_name": name, "meta": {"_type": "gradio.FileData"}}
        body = {"data": [file], "fn_index": self.page.bring, "session_hash": self.session}
        text = (await self.client.post(f"{API}/run/predict", json=body)).text
        self.counts["refused files"] += "this is no race" in text


def stage_messages(event: dict[str, Any]) -> list[dict[str, Any]]:
    """The page's own messages in one of gradio's: whole values, or the change of one as ["replace", [], value]."""
    data = (event.get("output") or {}).get("data") or []
    first = data[0] if data else None
    if isinstance(first, list):
        first = next((change[-1] for change in first if isinstance(change, list) and change[0] == "replace"), None)
    try:
        message = json.loads(first) if isinstance(first, str) else None
    except ValueError:
        return []
    return [message] if isinstance(message, dict) and "kind" in message else []


class Server:
    """A served page in a process of its own."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process
        self.url = self._line("http").strip()
        self.facts = psutil.Process(process.pid)

    def _line(self, start: str) -> str:
        """The next line of its output that starts so."""
        assert self.process.stdout
        while line := self.process.stdout.readline():
            if line.startswith(start):
                return line
        raise RuntimeError("the server ended")

    def threads(self) -> list[str]:
        """The names of those that are no pool's."""
        assert self.process.stdin
        self.process.stdin.write("threads\n")
        self.process.stdin.flush()
        names: list[str] = json.loads(self._line("["))
        return [name for name in names if not name.startswith(POOLS)]

    async def left_over(self, before: int) -> int:
        """How many threads more than before there are, once it is none or they had time to end."""
        end = time.monotonic() + PATIENCE
        while (more := len(self.threads()) - before) > 0 and time.monotonic() < end:
            await asyncio.sleep(0.2)
        return max(more, 0)


async def crowd(
    server: Server, visitors: int, seconds: float, enough: Mapping[str, int], kind: type[Visitor] = Visitor
) -> tuple[Counter[str], list[Any]]:
    """What happened, and a row a second of the server's memory and threads. See `run`."""
    counts: Counter[str] = Counter()
    rows = []
    limits = httpx.Limits(max_connections=visitors * 2, keepalive_expiry=KEEP_ALIVE)
    async with httpx.AsyncClient(base_url=server.url, timeout=PATIENCE, limits=limits) as client:
        page = Handlers((await client.get("/config")).json())
        before = len(server.threads())
        began = time.monotonic()

        def over() -> bool:
            done = bool(enough) and all(counts[name] >= count for name, count in enough.items())
            return done or time.monotonic() > began + seconds

        tasks = [asyncio.create_task(kind(number, client, page, counts).live(over)) for number in range(visitors)]
        while not all(task.done() for task in tasks):
            await asyncio.sleep(1)
            memory = server.facts.memory_info().rss / MEGABYTE
            rows.append(
                (
                    round(time.monotonic() - began, 1),
                    round(memory, 1),
                    server.facts.num_threads(),
                    counts["whole answers"],
                )
            )
        for task in tasks:
            task.result()
        counts["asked last, answered"] = await last(client, page)
    counts["threads left over"] = await server.left_over(before)
    return counts, rows


async def last(client: httpx.AsyncClient, page: Handlers) -> int:
    """Whether one more visitor gets an answer: the model's lock and the line are free."""
    counts: Counter[str] = Counter()
    end = time.monotonic() + 2 * PATIENCE  # runs that nobody listens to are still given up
    while not counts["whole answers"] and time.monotonic() < end:
        await Visitor(10**6, client, page, counts).race()
        await asyncio.sleep(0.2)
    return counts["whole answers"]


def picture(rows: list[Any], file: Path) -> None:
    """Memory and threads over time, as lines from their least to their most."""
    lines = []
    for place, (column, name, unit) in enumerate(((1, "memory", "MB"), (2, "threads", ""))):
        values = [row[column] for row in rows]
        low, high = min(values), max(values)
        scale, foot = 110 / (high - low or 1), 150 * (place + 1) - 20
        spots = [(40 + 720 * row[0] / rows[-1][0], foot - scale * (row[column] - low)) for row in rows]
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in spots)
        lines.append(f'<polyline points="{points}" fill="none" stroke="#2563eb" stroke-width="1.5"/>')
        label = f"{name}: {low:g} to {high:g} {unit} in {rows[-1][0]:.0f} s"
        lines.append(f'<text x="40" y="{150 * place + 14}">{label}</text>')
    head = '<svg xmlns="http://www.w3.org/2000/svg" width="800" height="300" font-family="sans-serif" font-size="12">'
    file.write_text(head + "".join(lines) + "</svg>\n", encoding="utf-8")


def serve(model: str = "") -> None:
    """The server's process: says its address and runs until its input ends. model: "" is the scripted engine."""
    from browsing import serve as serve_page
    from fakes_engine import FakeEngine

    from spectra.service.engine import Engine
    from visual.guard import Guard, RequestLimits

    class Everywhere(Guard):
        """Visitors of one machine, as if each had an address of its own."""

        def address(self, visitor: str) -> str:
            return visitor

    class Forgetful(FakeEngine):
        """Keeps no answer: what grows is the page's."""

        def answer(self, request: Any) -> Any:
            self.answers.clear()
            self.visitors.clear()
            return super().answer(request)

    guard = Everywhere(
        RequestLimits(starts=10**9, uploads=10**9, calls=10**9, grace=PATIENCE)
    )  # a visitor may be slow to listen
    engine = Engine.load(model) if model else Forgetful(step_seconds=0.002)
    page, url = serve_page(engine, guard=guard, max_visitors=32 if model else 16)
    print(url, flush=True)
    for _ in sys.stdin:
        print(json.dumps([thread.name for thread in threading.enumerate()]), flush=True)
    page.close()


@contextmanager
def serving(model: str = "") -> Iterator[Server]:
    """The server's process; it is ended again. model: see `serve`."""
    command = [sys.executable, __file__, "--serve", "--model", model]
    paths = os.pathsep.join([str(ROOT), str(ROOT / "tests" / "support")])
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env=os.environ | {"PYTHONPATH": paths}, **pipes) as process:
        try:
            yield Server(process)
        finally:
            process.kill()


def run(
    visitors: int,
    seconds: float,
    out: Path | None,
    enough: Mapping[str, int] | None = None,
    *,
    model: str = "",
    kind: type[Visitor] = Visitor,
) -> tuple[Counter[str], list[Any]]:
    """One load test. out: a folder for the rows and the picture. enough: counts that end it before its time. model: see
    `serve`.
    """
    with serving(model) as server:
        counts, rows = asyncio.run(crowd(server, visitors, seconds, enough or {}, kind))
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        with (out / "load.csv").open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([("seconds", "memory_mb", "threads", "answers"), *rows])
        picture(rows, out / "load.svg")
    return counts, rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--visitors", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--out", type=Path, default=Path("out/load"))
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--model", default="", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.model)
        return
    counts, rows = run(options.visitors, min(options.seconds, 3600), options.out)
    tell(options.visitors, counts, rows)


def tell(visitors: int, counts: Counter[str], rows: list[Any]) -> None:
    """Print what happened."""
    half = rows[len(rows) // 2 :]
    print(f"{visitors} visitors, {rows[-1][0]:.0f} s")
    print(
        "\n".join(
            f"  {name}: {count}" for name, count in sorted(counts.items()) if count or name in ("mixed", "neither")
        )
    )
    for column, name in ((1, "memory, MB"), (2, "threads")):
        most = max(row[column] for row in rows)
        print(f"  {name}: {half[0][column]} at half time, {rows[-1][column]} at the end, {most} at most")


if __name__ == "__main__":
    main()
