"""Visitors of a served page for a while, who race, stop, reload, upload, leave and never listen.

python tests/tools/load.py --visitors 50 --seconds 600 --out out/load

A process of its own serves the page over the scripted engine of the tests, on 127.0.0.1 only. Every message of a
visitor is checked to be of the visitor's own run. Writes load.csv (a row a second: memory, threads, answers), load.svg
and prints what happened. Ends by itself after the seconds given.
"""

import argparse
import asyncio
import csv
import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import psutil

API = "/gradio_api"
HABITS = ("race", "race", "race", "stop", "reload", "upload", "deaf", "read")
MEGABYTE = 1e6
ROOT = Path(__file__).parents[2]


class Visitor:
    """One open page that does one thing after the other. counts: what happened, of all visitors."""

    def __init__(self, number: int, client: httpx.AsyncClient, ids: dict[str, int], counts: Counter[str]) -> None:
        self.dice = random.Random(number)
        self.number, self.client, self.ids, self.counts = number, client, ids, counts
        self.visit()

    def visit(self) -> None:
        self.session = f"v{self.number}-{self.dice.getrandbits(40):x}"

    async def live(self, end: float) -> None:
        while time.monotonic() < end:
            habit = self.dice.choice(HABITS)
            try:
                await asyncio.wait_for(getattr(self, habit)(), 60)
                self.counts[habit] += 1
            except TimeoutError:
                self.counts["no end within a minute"] += 1
            except httpx.HTTPError as error:
                self.counts[f"broken off: {type(error).__name__}"] += 1
            await asyncio.sleep(self.dice.uniform(0.05, 0.6))

    async def ask(self, name: str, data: list[Any]) -> bool:
        body = {"data": data, "fn_index": self.ids[name], "session_hash": self.session}
        status = (await self.client.post(f"{API}/queue/join", json=body)).status_code
        self.counts[f"start {status}"] += status != 200
        return status == 200

    async def messages(self, prompt: str) -> AsyncIterator[dict[str, Any]]:
        """What the stage gets, until the handler ends. Counts what is of somebody else's run."""
        run = ""
        async with self.client.stream("GET", f"{API}/queue/data", params={"session_hash": self.session}) as lines:
            async for line in lines.aiter_lines():
                told = json.loads(line.removeprefix("data: ")) if line.startswith("data: ") else {}
                for message in stage_messages(told):
                    if message.get("kind") == "begin":
                        run = message["run"]
                        self.counts["mixed"] += message["link"]["prompt"] != prompt
                    elif "run" in message:
                        self.counts["mixed"] += message["run"] != run
                    yield message
                if told.get("msg") in ("process_completed", "close_stream"):
                    return

    async def start(self) -> str:
        prompt = f"{self.session} asks {self.dice.random()}"
        return prompt if await self.ask("start", [None, prompt, "spectra", 60, 0, 7, 1]) else ""

    async def race(self) -> None:
        if prompt := await self.start():
            kinds = [message["kind"] async for message in self.messages(prompt)]
            self.counts["whole answers"] += "end" in kinds
            self.counts["told that the line is full"] += "refused" in kinds
            self.counts["neither"] += not {"end", "refused"} & set(kinds)

    async def stop(self) -> None:
        """In the middle, or while waiting."""
        if prompt := await self.start():
            seen = 0
            async for _ in self.messages(prompt):
                seen += 1
                if seen == 2:
                    body = {"data": [None], "fn_index": self.ids["stop"], "session_hash": self.session}
                    await self.client.post(f"{API}/run/predict", json=body)
            self.counts["stopped in the middle"] += seen > 1

    async def reload(self) -> None:
        """The page goes away in the middle of a run and comes back as another."""
        if prompt := await self.start():
            async for _ in self.messages(prompt):
                break
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
        body = {"data": [file], "fn_index": self.ids["bring"], "session_hash": self.session}
        told = (await self.client.post(f"{API}/run/predict", json=body)).text
        self.counts["refused files"] += "this is no race" in told


def stage_messages(told: dict[str, Any]) -> list[dict[str, Any]]:
    """The page's own messages in one of gradio's: whole values, or the change of one as ["replace", [], value]."""
    data = (told.get("output") or {}).get("data") or []
    first = data[0] if data else None
    if isinstance(first, list):
        first = next((change[-1] for change in first if isinstance(change, list) and change[0] == "replace"), None)
    try:
        message = json.loads(first) if isinstance(first, str) else None
    except ValueError:
        return []
    return [message] if isinstance(message, dict) and "kind" in message else []


async def crowd(url: str, visitors: int, seconds: float, process: psutil.Process) -> tuple[Counter[str], list[Any]]:
    """What happened, and a row a second of the server's memory and threads."""
    counts: Counter[str] = Counter()
    rows = []
    limits = httpx.Limits(max_connections=visitors * 2)
    async with httpx.AsyncClient(base_url=url, timeout=60, limits=limits) as client:
        config = (await client.get("/config")).json()
        ids: dict[str, int] = {}
        for one in config["dependencies"]:
            ids.setdefault(str(one["api_name"]), one["id"])
        began = time.monotonic()
        tasks = [
            asyncio.create_task(Visitor(number, client, ids, counts).live(began + seconds))
            for number in range(visitors)
        ]
        while not all(task.done() for task in tasks):
            await asyncio.sleep(1)
            memory = process.memory_info().rss / MEGABYTE
            rows.append(
                (round(time.monotonic() - began, 1), round(memory, 1), process.num_threads(), counts["whole answers"])
            )
        for task in tasks:
            task.result()
        counts["asked last, answered"] = await asyncio.wait_for(last(client, ids), 60)
    return counts, rows


async def last(client: httpx.AsyncClient, ids: dict[str, int]) -> int:
    """Whether one more visitor gets an answer: the model's lock and the line are free."""
    counts: Counter[str] = Counter()
    for _ in range(20):  # runs that nobody listens to are still given up
        await Visitor(10**6, client, ids, counts).race()
        if counts["whole answers"]:
            return 1
        await asyncio.sleep(1)
    return 0


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
        told = f"{name}: {low:g} to {high:g} {unit} in {rows[-1][0]:.0f} s"
        lines.append(f'<text x="40" y="{150 * place + 14}">{told}</text>')
    head = '<svg xmlns="http://www.w3.org/2000/svg" width="800" height="300" font-family="sans-serif" font-size="12">'
    file.write_text(head + "".join(lines) + "</svg>\n", encoding="utf-8")


def serve() -> None:
    """The server's process: says its address and runs until its input ends."""
    from browsing import serve as serve_page
    from fakes_engine import FakeEngine

    from visual.guard import Guard, Limits

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

    guard = Everywhere(Limits(starts=10**9, uploads=10**9, grace=3.0))
    page, url = serve_page(Forgetful(step_seconds=0.002), guard=guard)
    print(url, flush=True)
    sys.stdin.read()
    page.close()


def run(visitors: int, seconds: float, out: Path | None) -> tuple[Counter[str], list[Any]]:
    """One load test. out: a folder for the rows and the picture."""
    command = [sys.executable, __file__, "--serve"]
    paths = os.pathsep.join([str(ROOT), str(ROOT / "tests" / "support")])
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env=os.environ | {"PYTHONPATH": paths}, **pipes) as server:
        try:
            assert server.stdout and server.stdin
            url = next(line for line in server.stdout if line.startswith("http")).strip()
            counts, rows = asyncio.run(crowd(url, visitors, seconds, psutil.Process(server.pid)))
        finally:
            server.kill()
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
    options = parser.parse_args()
    if options.serve:
        serve()
        return
    counts, rows = run(options.visitors, min(options.seconds, 3600), options.out)
    half = rows[len(rows) // 2 :]
    print(f"{options.visitors} visitors, {rows[-1][0]:.0f} s")
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
