"""What the browser tests and tools share: headless Chromium, a served page, and the strokes of a visitor."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chromium import find_chromium

from spectra.metrics import summarize
from spectra.trace import Trace
from visual.engine import Engine

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Playwright

ARGS = "--disable-dev-shm-usage --no-sandbox --disable-background-networking --disable-component-update --disable-sync"
WAIT = 20_000
POLLING = 30
"""Milliseconds between two looks at what is waited for: playwright's own waits pause up to a second."""
AS_WIDE = """(name) => { const box = document.querySelector(`[data-id=plot-${name}]`);
  return box.querySelector('.main-svg')?.getBoundingClientRect().width === box.clientWidth; }"""
"""Whether a chart of the race fills its box."""
READY = "#stage-race .stage[data-state]"
SOURCES = (
    "(lane) => [...document.querySelectorAll(`[data-id=text-${lane}] .t`)].flatMap((t) => t.dataset.sources.split(','))"
)


def start_chromium(player: "Playwright") -> "Browser":
    return player.chromium.launch(executable_path=find_chromium(), args=[*ARGS.split(), "--no-first-run"])


def serve(engine: Engine, **options: Any) -> tuple[Any, str]:
    from visual.guard import Guard, RequestLimits
    from visual.page import build_page
    from visual.serve import launch_options, queued

    guard = options.pop("guard", None) or Guard(RequestLimits(starts=100_000, uploads=1000, calls=100_000))
    page = queued(build_page(engine, guard=guard, **options), 64)
    _, url, _ = page.launch(prevent_thread_lock=True, quiet=True, **launch_options(guard))
    return page, url


def appear(page: Any, selector: str) -> None:
    """Wait until a CSS selector matches."""
    page.wait_for_function("(selector) => document.querySelector(selector)", arg=selector, polling=POLLING)


def fill(page: Any, **fields: object) -> None:
    """Fill the fields, and again while one that has only just come up still shows its own value two frames later."""
    for _ in range(3):
        for name, value in fields.items():
            page.locator(f"#field-{name} :is(input, textarea)").fill(str(value))
        page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        if all(value_of(page, name) == str(value) for name, value in fields.items()):
            return


def value_of(page: Any, name: str) -> str:
    return page.locator(f"#field-{name} :is(input, textarea)").input_value()


STAGE = "document.querySelector('#stage-race .stage').dataset"


def start(page: Any, **fields: object) -> str:
    """Fill the form, press Race and wait until that run has begun; returns its id."""
    fill(page, **fields)
    before = page.evaluate(f"{STAGE}.run ?? ''")
    page.click("#go")
    page.wait_for_function(f"(before) => ({STAGE}.run ?? '') !== before", arg=before)
    return str(page.evaluate(f"{STAGE}.run"))


def finish(page: Any) -> None:
    page.wait_for_function(f"{STAGE}.state !== 'running'")


def race(page: Any, **fields: object) -> None:
    run = start(page, **fields)
    page.wait_for_function(f"(run) => {STAGE}.run === run && {STAGE}.state !== 'running'", arg=run)


def download(page: Any) -> dict[str, Trace]:
    with page.expect_download() as waiting:
        page.click("[data-id=download]")
    data = json.loads(Path(waiting.value.path()).read_text(encoding="utf-8"))
    assert data["format"] == "spectra-race"
    return {lane: Trace.from_dict(data[lane]) for lane in ("plain", "method") if lane in data}


def assert_page_shows(page: Any, traces: dict[str, Trace]) -> None:
    """Text, colours, steps and figures on the page are those of the traces."""
    for lane, trace in traces.items():
        box = f"[data-id=text-{lane}]"
        assert page.locator(box).evaluate("(box) => box.textContent") == trace.text
        assert page.evaluate(SOURCES, lane) == list(trace.sources)
        assert page.locator(f"{box} .step").count() == len(trace.steps)
        last = "`source-${t.dataset.sources.split(',').at(-1)}`"
        wrong = f"(ts) => ts.filter((t) => !t.classList.contains({last})).length"
        assert page.locator(f"{box} .t").evaluate_all(wrong) == 0
    shown = summarize(traces["method"].steps)
    for source, share in shown.share.items():
        chip = page.locator(f".chip.source-{source}")
        assert chip.locator("b").inner_text() == str(round(share * shown.tokens))
        if source in shown.of_guessed:
            assert chip.locator("small").inner_text() == f"{shown.of_guessed[source] * 100 + 1e-9:.0f} % accepted"


def see_charts(page: Any, stage: str = "#stage-race") -> None:
    """Scroll to the charts of a race, which are drawn only on the screen, and wait for them."""
    figures = f"{stage} [data-id=figures]"
    page.locator(figures).evaluate("(box) => box.scrollIntoView()")
    appear(page, f"{figures}:not([data-stale])")


def assert_charts_show(page: Any, plain: int, method: int) -> None:
    """plotly drew both lines up to these tokens, and bars of as many."""
    see_charts(page)
    page.wait_for_function(
        """([plain, method]) => { const plot = (id) => document.querySelector(`[data-id=plot-${id}]`).calcdata;
        const bars = plot('gain')?.flat().reduce((sum, bar) => sum + (bar.s ?? 0), 0);
        return plot('growth')?.[0].at(-1).y === plain && plot('growth')[1].at(-1).y === method && bars === method; }""",
        arg=[plain, method],
    )


def contrast(page: Any, selector: str) -> float:
    return float(
        page.locator(selector).first.evaluate(
            """(node) => {
              const canvas = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
              const paint = (colour) => { canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1); };
              const light = () => { const [r, g, b] = [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3)
                .map((v) => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
                return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
              const stack = []; for (let n = node; n; n = n.parentElement) stack.unshift(n);
              paint('white'); for (const n of stack) paint(getComputedStyle(n).backgroundColor);
              const behind = light(); paint(getComputedStyle(node).color); const front = light();
              return (Math.max(front, behind) + 0.05) / (Math.min(front, behind) + 0.05); }"""
        )
    )


def busy_ms(trace: bytes, clock: str = "tdur") -> list[float]:
    """Processor time of each task of the page's main thread, in ms: what it costs however busy the machine is.

    clock: "dur" for the time on the wall.
    """
    events = json.loads(trace)["traceEvents"]
    threads = {(e["pid"], e["tid"]) for e in events if e.get("args", {}).get("name") == "CrRendererMain"}
    tasks = [e for e in events if e["name"] == "ThreadControllerImpl::RunTask" and (e["pid"], e["tid"]) in threads]
    return sorted(e.get(clock, 0) / 1000 for e in tasks)


SHOWN = """(selector) => new Promise((told) => new IntersectionObserver((_, own) => {
    own.disconnect();
    told();
  }).observe(document.querySelector(selector)))"""
"""Comes to its end when those who watch what is on the screen were told of it."""


def tab(page: Any, name: str) -> Any:
    """Open a tab; returns its stage once it is drawn, anew where it is when it is opened."""
    page.get_by_role("tab", name=name).click()
    drawn = f"#stage-{name.lower()} :is(.stage[data-state], .learn .chapters)"
    page.wait_for_function("(drawn) => document.querySelector(drawn)?.checkVisibility()", arg=drawn)
    page.evaluate(SHOWN, drawn)
    return page.locator(f"#stage-{name.lower()}")


def ended(stage: Any, *states: str) -> None:
    wanted = ", ".join(f".stage[data-state={state}]" for state in states or ("done",))
    seen = "([stage, wanted]) => stage.querySelector(wanted)"
    stage.page.wait_for_function(seen, arg=[stage.element_handle(), wanted])
