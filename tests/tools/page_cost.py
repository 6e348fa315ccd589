"""What the page costs a race, how it feels: a table and one JSON line.

Run it as `PYTHONPATH=.:tests/support python tests/tools/page_cost.py`

Not a test: run it on a machine that has nothing else to do. A race of the embedded model (--model: another one, "fake":
the scripted one of the tests) is decoded by the engine alone and through the page with a gradio_client in a process of
its own, in turns; cost is how much longer its steps took behind the page. Then headless Chromium: how long until the
opening race is to be seen, the processor time of server and browser while the page lies idle, how much longer a race's
steps take while the browser draws it, and the longest task of the page's main thread while --stream tokens come in.
--parts takes only some of these; --model fake --parts lane tells
the processor time of server and browser while a lane is written.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

from asking import asked
from browsing import STAGE, appear, busy_ms, download, fill, finish, serve, start, start_chromium
from fakes_engine import FakeEngine
from playwright.sync_api import sync_playwright

from spectra.service.worker_thread import in_worker_thread
from visual.engine import Engine
from visual.examples import EXAMPLES

OPENED = "#stage-race .stage:is([data-state=done], [data-state=empty])"
TIMEOUT_MS = 600_000
SIZE = {"width": 1300, "height": 900}
PARTS = ("cost", "opening", "idle", "drawing", "stream")
LANE = "lane"  # a part too, of the scripted engine only
LANE_SECONDS = 2.5
START_MS = 6500
SETTLED_MS = 45_000  # Chromium tidies its memory once, 20 to 30 seconds after plotly was loaded: 0.2 s of a processor
TICK = os.sysconf("SC_CLK_TCK")
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


def browser_seconds() -> float:
    """Processor time of every process of Chromium that was started here, so far."""
    children: dict[int, list[int]] = {}
    spent: dict[int, float] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, _, rest = path.read_text().partition("(")[2].rpartition(")")
        except OSError:
            continue  # it has just ended
        fields = rest.split()
        pid = int(path.parent.name)
        children.setdefault(int(fields[1]), []).append(pid)
        spent[pid] = (int(fields[11]) + int(fields[12])) / TICK if "chrom" in name or "headless" in name else 0.0
    todo, total = [os.getpid()], 0.0
    while todo:
        pid = todo.pop()
        total += spent.get(pid, 0.0)
        todo += children.get(pid, [])
    return total


def idle(chromium: Any, url: str, seconds: float) -> dict[str, float]:
    """Percent of a core that server and browser take while a page with a race on it lies open, once it has settled."""
    page = chromium.new_context(viewport=SIZE).new_page()
    page.set_default_timeout(TIMEOUT_MS)
    page.goto(url)
    appear(page, OPENED)
    page.wait_for_timeout(SETTLED_MS)
    used = used_in(seconds)
    page.context.close()
    return used


def used_in(seconds: float) -> dict[str, float]:
    """Percent of a core that server and browser take from now on."""
    server, browser, begun = time.process_time(), browser_seconds(), time.monotonic()
    time.sleep(seconds)
    passed = time.monotonic() - begun
    used = {"server": time.process_time() - server, "browser": browser_seconds() - browser}
    return {side: 100 * each / passed for side, each in used.items()}


def lane_share(chromium: Any, url: str, prompt: str, tokens: int) -> dict[str, float]:
    """Percent of a core that server and browser take for `LANE_SECONDS` while the scripted engine, which takes none,
    writes the plain lane of a race.
    """
    page = opened(chromium, url)
    start(page, prompt=prompt, max_new_tokens=tokens)
    used = used_in(LANE_SECONDS)
    assert page.evaluate(f"{STAGE}.state === 'running' && {STAGE}.phase === 'plain'"), "more --tokens are needed"
    page.context.close()
    return used


def opened(chromium: Any, url: str) -> Any:
    """A page as a visitor finds it who has read what is on it: gradio's start moves things for some seconds."""
    page = chromium.new_context(viewport=SIZE).new_page()
    page.set_default_timeout(TIMEOUT_MS)
    page.goto(url)
    fill(page, seed=7)
    page.wait_for_timeout(START_MS)
    return page


def drawn(chromium: Any, url: str, prompt: str, tokens: int) -> dict[str, float]:
    """Seconds of each lane's steps while a page draws them, and processor time of the browser meanwhile."""
    page = opened(chromium, url)
    browser = browser_seconds()
    start(page, prompt=prompt, max_new_tokens=tokens)
    page.wait_for_function(f"{STAGE}.state !== 'running'", polling=500)
    spent = browser_seconds() - browser
    traces = download(page)
    page.context.close()
    taken = {lane: sum(step.seconds + step.prefill_seconds for step in traces[lane].steps) for lane in LANES}
    return taken | {"browser": spent}


def drawing(
    engine: Engine, chromium: Any, url: str, prompt: str, tokens: int, rounds: int
) -> dict[str, dict[str, float]]:
    """Percent of its speed that a lane keeps while the browser draws it: the median over rounds, in changing order."""
    ways = {"alone": lambda: alone(engine, prompt, tokens), "drawn": lambda: drawn(chromium, url, prompt, tokens)}
    rows = []
    for number in range(rounds + 1):
        row = {way: ways[way]() for way in list(ways)[:: 1 if number % 2 else -1]}
        rows += [row] if number else []
    kept = {lane: median(100 * row["alone"][lane] / row["drawn"][lane] for row in rows) for lane in LANES}
    share = [100 * row["drawn"]["browser"] / sum(row["drawn"][lane] for lane in LANES) for row in rows]
    rates = {f"{lane}_{way}": tokens / median(row[way][lane] for row in rows) for lane in LANES for way in ways}
    return {"kept": kept, "rates": rates, "browser": {"percent_of_a_core": median(share)}}


def longest_tasks(chromium: Any, url: str, prompt: str, tokens: int) -> dict[str, float]:
    """ms of the main thread while a race runs and is played: longest task on the wall and of processor time, and all
    tasks together.
    """
    page = chromium.new_context(viewport=SIZE).new_page()
    page.set_default_timeout(TIMEOUT_MS)
    page.goto(url)
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
    parser.add_argument("--idle", type=float, default=30.0, help="seconds")
    parser.add_argument("--parts", default=",".join(PARTS), help="with commas between them")
    parser.add_argument("--consume", metavar="URL", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.consume:
        print(json.dumps(consume(chosen.consume, chosen.prompt, chosen.tokens)))
        return
    parts = chosen.parts.split(",")
    if LANE in parts and chosen.model != "fake":
        parser.error("the part lane is one of --model fake: another one's decoding is the server's time too")
    engine: Any = FakeEngine(step_seconds=0.02) if chosen.model == "fake" else load(chosen.model)
    served, url = serve(engine)
    result: dict[str, Any] = {"model": engine.model, "tokens": chosen.tokens, "rounds": chosen.rounds}
    if "cost" in parts:
        result["cost"] = cost(engine, url, chosen.prompt, chosen.tokens, chosen.rounds)
    with sync_playwright() as player:
        chromium = start_chromium(player)
        if "opening" in parts:
            result["opening_seconds"] = opening(chromium, url, chosen.rounds)
        if "idle" in parts:
            result["idle_percent_of_a_core"] = idle(chromium, url, chosen.idle)
        if LANE in parts:
            result["lane_percent_of_a_core"] = lane_share(chromium, url, chosen.prompt, chosen.tokens)
        if "drawing" in parts:
            result["drawing"] = drawing(engine, chromium, url, chosen.prompt, chosen.tokens, chosen.rounds)
        if "stream" in parts:
            result["stream"] = longest_tasks(chromium, url, chosen.prompt, chosen.stream)
        chromium.close()
    served.close()
    tell(result)
    print(json.dumps(result))


def tell(result: dict[str, Any]) -> None:
    """A line for every figure that was taken."""
    if "cost" in result:
        seconds = result["cost"]["seconds"]
        for lane, percent in result["cost"]["percent"].items():
            print(f"{lane}: {seconds[f'{lane}_alone']:.3f} s alone, {seconds[f'{lane}_behind']:.3f} s behind the page, "
                  f"{percent:+.1f} %")  # fmt: skip
        if result["model"] == FakeEngine.model:  # its clock is scripted, and it does no work that would blur the other
            print("{server:.2f} s of processor in the server, {client:.2f} s in the client".format(**seconds))
    if "opening_seconds" in result:
        seen = result["opening_seconds"]
        print(f"opening race on the screen after {median(seen):.2f} s ({min(seen):.2f} to {max(seen):.2f})")
    if "idle_percent_of_a_core" in result:
        print(
            "idle: server {server:.2f} %, browser {browser:.2f} % of a core".format(**result["idle_percent_of_a_core"])
        )
    if "lane_percent_of_a_core" in result:
        used = result["lane_percent_of_a_core"]
        print("while a lane is written: server {server:.1f} %, browser {browser:.1f} % of a core".format(**used))
    if "drawing" in result:
        for lane, kept in result["drawing"]["kept"].items():
            rates = result["drawing"]["rates"]
            print(f"{lane}: {rates[f'{lane}_alone']:.1f} tokens/s alone, {rates[f'{lane}_drawn']:.1f} while a browser "
                  f"draws, {kept:.0f} % of the speed kept")  # fmt: skip
        print("drawing: browser {percent_of_a_core:.0f} % of a core".format(**result["drawing"]["browser"]))
    if "stream" in result:
        print("{longest_wall_ms:.0f} ms longest task ({longest_busy_ms:.0f} ms of it busy)".format(**result["stream"]))


def load(model: str) -> Engine:
    from spectra.service.engine import Engine as RealEngine

    return RealEngine.load(model)


if __name__ == "__main__":
    main()
