"""Headless Chromium and a served page for the tests of this folder; without Chromium they are left out."""

import re
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest
from browsing import POLLING, READY, WAIT, appear, fill, serve, start_chromium, tab, value_of
from chromium import LEFT_OUT, find_chromium
from fakes_engine import FakeEngine, recorded_race

from visual.wire.events import encode

CHROMIUM = find_chromium()
collect_ignore_glob = [] if CHROMIUM else ["test_*.py"]


@pytest.fixture(scope="package")
def browser() -> Iterator[Any]:
    """Chromium. Its event loop runs in this thread until it closes after the last file of this folder, and nothing else
    can run one there."""
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


@pytest.fixture(scope="package")
def fake(browser: Any, races: Path) -> Iterator[tuple[FakeEngine, str]]:
    engine = FakeEngine()
    page, url = serve(engine, races=races)
    yield engine, url
    page.close()


@pytest.fixture
def slow(fake: tuple[FakeEngine, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests that stop a run: 2,000 tokens take 40 s at least, longer than a busy machine holds the browser up."""
    monkeypatch.setattr(fake[0], "step_seconds", 0.02)


@pytest.fixture(scope="package")
def context_of(browser: Any) -> Callable[..., Any]:
    """One for each kind of visitor: what was fetched for a test need not be fetched for the next."""
    return cache(partial(new_context, browser))


def new_context(browser: Any, dark: bool, motion: str) -> Any:
    return browser.new_context(color_scheme="dark" if dark else "light", reduced_motion=motion)


def open_page(context: Any, url: str, width: int = 1300, ready: str = READY) -> Any:
    """`page.outside` lists requests that left this machine, `page.problems` what its scripts could not do."""
    page = context.new_page()
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


@pytest.fixture
def visit(browser: Any, context_of: Callable[..., Any]) -> Iterator[Callable[..., Any]]:
    """Opens a page. The second of a test and those after it have a context of their own: a context has only so many
    connections to a server."""
    pages: list[Any] = []

    def go(url: str, *, width: int = 1300, dark: bool = False, motion: str = "reduce", ready: str = READY) -> Any:
        context = new_context(browser, dark, motion) if pages else context_of(dark, motion)
        pages.append(open_page(context, url, width, ready))
        return pages[-1]

    yield go
    for page in pages:
        page.close()
    for page in pages[1:]:
        page.context.close()


@pytest.fixture(scope="module")
def pages_left(fake: tuple[FakeEngine, str]) -> Iterator[list[Any]]:
    """The page that the last test of a file with `page` has left, if it passed."""
    left: list[Any] = []
    yield left
    for page in left:
        page.close()


@pytest.fixture
def page(
    request: pytest.FixtureRequest, fake: tuple[FakeEngine, str], context_of: Callable[..., Any], pages_left: list[Any]
) -> Iterator[Any]:
    """A page in which tests of this file may have run races: opening one takes longer than most tests.

    Before each test, what the visitor sees and the four fields of the race are as they were when it was opened. For
    tests that leave the settings of the methods as they found them.
    """
    if pages_left:
        page = pages_left.pop()
        look_again(page)
    else:
        page = open_page(context_of(False, "reduce"), fake[1])
        page.usual = {name: value_of(page, name) for name in ("prompt", "max_new_tokens", "temperature", "seed")}
    failed = request.session.testsfailed
    yield page
    if request.session.testsfailed == failed:
        pages_left.append(page)
    else:
        page.close()


def look_again(page: Any) -> None:
    page.set_viewport_size({"width": 1300, "height": 900})
    page.emulate_media(forced_colors="none", media="screen")
    page.mouse.move(0, 0)
    page.evaluate("document.activeElement.blur(); document.body.classList.remove('dark'); scrollTo(0, 0)")
    tab(page, "Race")
    appear(page, "#go:enabled")
    fill(page, **page.usual)
    page.outside.clear()
    page.problems.clear()
