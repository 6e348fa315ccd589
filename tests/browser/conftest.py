"""Headless Chromium and a served page for the tests of this folder; without Chromium they are left out."""

import re
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest
from browsing import POLLING, READY, WAIT, appear, serve, start_chromium
from chromium import LEFT_OUT, find_chromium
from fakes_engine import FakeEngine, recorded_race

from visual.wire.events import encode

CHROMIUM = find_chromium()
collect_ignore_glob = [] if CHROMIUM else ["test_*.py"]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium. Its event loop runs in this thread until it closes, and nothing else can run one there."""
    if not CHROMIUM:
        pytest.skip(LEFT_OUT)  # a file that was asked for by name
    from playwright.sync_api import sync_playwright

    with sync_playwright() as player:
        chromium = start_chromium(player)
        yield chromium
        chromium.close()


@pytest.fixture(scope="session")
def races(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one recorded race of the scripted engine."""
    folder = tmp_path_factory.mktemp("races")
    (folder / "first.json").write_text(encode(recorded_race()), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def fake(browser: Any, races: Path) -> Iterator[tuple[FakeEngine, str]]:
    engine = FakeEngine()
    page, url = serve(engine, races=races)
    yield engine, url
    page.close()


@pytest.fixture
def slow(fake: tuple[FakeEngine, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests that stop a run: 2,000 tokens take 40 s at least, longer than a busy machine holds the browser up."""
    monkeypatch.setattr(fake[0], "step_seconds", 0.02)


@pytest.fixture(scope="module")
def context_of(browser: Any) -> Callable[..., Any]:
    """One for each kind of visitor: what was fetched for a test need not be fetched for the next."""
    return cache(partial(new_context, browser))


def new_context(browser: Any, dark: bool, motion: str) -> Any:
    return browser.new_context(color_scheme="dark" if dark else "light", reduced_motion=motion)


@pytest.fixture
def visit(browser: Any, context_of: Callable[..., Any]) -> Iterator[Callable[..., Any]]:
    """Opens a page; `page.outside` lists requests that left this machine. The second of a test and those after it have
    a context of their own: a context has only so many connections to a server."""
    pages: list[Any] = []

    def go(url: str, *, width: int = 1300, dark: bool = False, motion: str = "reduce", ready: str = READY) -> Any:
        context = new_context(browser, dark, motion) if pages else context_of(dark, motion)
        page = context.new_page()
        pages.append(page)
        page.set_viewport_size({"width": width, "height": 900})
        page.set_default_timeout(WAIT)
        page.wait_for_function = partial(page.wait_for_function, polling=POLLING)
        page.outside, page.problems = [], []
        local = re.compile(r"^(http://(127\.0\.0\.1|localhost)|data:|blob:)")
        page.on("request", lambda request: None if local.match(request.url) else page.outside.append(request.url))
        page.on("pageerror", lambda error: page.problems.append(str(error)))
        refused = "Content Security Policy"
        page.on("console", lambda line: page.problems.append(line.text) if refused in line.text else None)
        page.goto(url)
        appear(page, ready)
        return page

    yield go
    for page in pages:
        page.close()
    for page in pages[1:]:
        page.context.close()
