"""What the page costs a race, how it feels: a table and one JSON line.

Run it as `PYTHONPATH=.:tests/support python tests/tools/page_cost.py`

Not a test: run it on a machine that has nothing else to do. A race of the embedded model (--model: another one, "fake":
the scripted one of the tests) is decoded by the engine alone and through the page with a gradio_client in a process of
its own, in turns; cost is how much longer its steps took behind the page. Then headless Chromium: how long until the
opening race is to be seen, and the longest task of the page's main thread while --stream tokens come in.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from statistics import median
from typing import Any

from asking import asked
from browsing import appear, busy_ms, fill, finish, serve, start, start_chromium
from fakes_engine import FakeEngine
from playwright.sync_api import sync_playwright

from spectra.service.worker_thread import in_worker_thread
from visual.engine import Engine
from visual.examples import EXAMPLES

OPENED = "#stage-race .stage:is([data-state=done], [data-state=empty])"
TIMEOUT_MS = 600_000
SIZE = {"width": 1300, "height": 900}
LANES = {"plain": "autoregressive", "method": "spectra"}


@in_worker_thread
def alone(engine: Engine, prompt: str, tokens: int) -> dict[str, float]:
    """Seconds of each lane's steps, prefill included, with no page around."""
    seconds = {}
    for lane, method in LANES.items():
        answer = engine.answer(asked(prompt, method, max_new_tokens=tokens, seed=7))
        for _ in answer:
            pass
        answer.close()
        seconds[lane] = sum(step.seconds + step.prefill_seconds for step in answer.trace.steps)
    return seconds


def behind(url: str, prompt: str, tokens: int) -> dict[str, float]:
    """The same through the page's endpoint, asked by another process."""
    command = [sys.executable, __file__, "--consume", url, "--prompt", prompt, "--tokens", str(tokens)]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return dict(json.loads(output.splitlines()[-1]))


def consume(url: str, prompt: str, tokens: int) -> dict[str, float]:
    from gradio_client import Client

    os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
    job = Client(url, verbose=False).submit(prompt, "spectra", tokens, 0.0, 7, api_name="/compare")
    begun = time.process_time()
    job.result()  # going through the job instead asks it a thousand times a second
    last = {event["lane"]: event for event in job.outputs()}
    spent = time.process_time() - begun
    assert all(event["done"] for event in last.values()) and len(last) == len(LANES)
    return {lane: event["tokens"] / event["tokens_per_second"] for lane, event in last.items()} | {"client": spent}


def cost(engine: Engine, url: str, prompt: str, tokens: int, rounds: int) -> dict[str, Any]:
    """Percent by which a race's steps take longer behind the page: the median over rounds of a round's own two races,
    whose order changes from round to round so that a machine that slows down favours neither. One round warms up.
    """
    ways = {"alone": lambda: alone(engine, prompt, tokens), "behind": lambda: behind(url, prompt, tokens)}
    rows: list[dict[str, dict[str, float]]] = []
    for number in range(rounds + 1):
        row = {}
        for way in list(ways)[:: 1 if number % 2 else -1]:
            begun = time.process_time()
            row[way] = {"client": 0.0, **ways[way](), "server": time.process_time() - begun}
            row[way]["race"] = sum(row[way][lane] for lane in LANES)
        rows += [row] if number else []
    percent = {
        lane: [100 * (row["behind"][lane] / row["alone"][lane] - 1) for row in rows] for lane in (*LANES, "race")
    }
    seconds = {f"{lane}_{way}": median(row[way][lane] for row in rows) for lane in percent for way in ways}
    for side in ("server", "client"):
        seconds[side] = median(row["behind"][side] - row["alone"][side] for row in rows)
    return {"seconds": seconds, "percent": {lane: median(each) for lane, each in percent.items()}, "rounds": percent}


def opening(chromium: Any, url: str, rounds: int) -> list[float]:
    """Seconds from asking for the page to the finished opening race on the screen, each visit with an empty cache."""
    seconds = []
    for _ in range(rounds):
        context = chromium.new_context(viewport=SIZE)
        page = context.new_page()
        page.set_default_timeout(TIMEOUT_MS)
        begun = time.monotonic()
        page.goto(url, wait_until="commit")
        appear(page, OPENED)
        page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        seconds.append(time.monotonic() - begun)
        context.close()
    return seconds


def longest_tasks(chromium: Any, url: str, prompt: str, tokens: int) -> dict[str, float]:
    """ms of the main thread while a race runs and is played: longest task on the wall and of processor time, and all
    tasks together.
    """
    page = chromium.new_context(viewport=SIZE).new_page()
    page.set_default_timeout(TIMEOUT_MS)
    page.goto(url)
    page.wait_for_function("window.Plotly")
    fill(page, seed=7)
    chromium.start_tracing(page=page, categories=["toplevel", "__metadata"])
    start(page, prompt=prompt, max_new_tokens=tokens)
    finish(page)
    trace = chromium.stop_tracing()
    wall, busy = busy_ms(trace, "dur"), busy_ms(trace)
    page.context.close()
    return {"longest_wall_ms": wall[-1], "longest_busy_ms": busy[-1], "all_busy_ms": sum(busy), "tasks": len(busy)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="embedded")
    parser.add_argument("--prompt", default=EXAMPLES[0].prompt)
    parser.add_argument("--tokens", type=int, default=256)
    parser.add_argument("--stream", type=int, default=1024, help="tokens of the race whose tasks are measured")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--consume", metavar="URL", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.consume:
        print(json.dumps(consume(chosen.consume, chosen.prompt, chosen.tokens)))
        return
    engine: Any = FakeEngine(step_seconds=0.02) if chosen.model == "fake" else load(chosen.model)
    served, url = serve(engine)
    result: dict[str, Any] = {"model": engine.model, "tokens": chosen.tokens, "rounds": chosen.rounds}
    result["cost"] = cost(engine, url, chosen.prompt, chosen.tokens, chosen.rounds)
    with sync_playwright() as player:
        chromium = start_chromium(player)
        result["opening_seconds"] = opening(chromium, url, chosen.rounds)
        result["stream"] = longest_tasks(chromium, url, chosen.prompt, chosen.stream)
        chromium.close()
    served.close()
    seconds = result["cost"]["seconds"]
    for lane, percent in result["cost"]["percent"].items():
        print(f"{lane}: {seconds[f'{lane}_alone']:.3f} s alone, {seconds[f'{lane}_behind']:.3f} s behind the page, "
              f"{percent:+.1f} %")  # fmt: skip
    if chosen.model == "fake":  # its clock is scripted, and it does no work that would blur the processor's
        print("{server:.2f} s of processor in the server, {client:.2f} s in the client".format(**seconds))
    seen = result["opening_seconds"]
    print(f"opening race on the screen after {median(seen):.2f} s ({min(seen):.2f} to {max(seen):.2f})")
    print("{longest_wall_ms:.0f} ms longest task ({longest_busy_ms:.0f} ms of it busy)".format(**result["stream"]))
    print(json.dumps(result))


def load(model: str) -> Engine:
    from spectra.service.engine import Engine as RealEngine

    return RealEngine.load(model)


if __name__ == "__main__":
    main()
