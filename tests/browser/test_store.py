"""A datastore of one's own in a real browser: built with progress, used, stopped, refused at the field, deleted."""

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from browsing import READY, appear, race, serve
from fakes_engine import CARD, FakeEngine

import visual.tabs.datastore

Visit = Callable[..., Any]
Served = tuple[FakeEngine, str]


@pytest.fixture(scope="module")
def builder(races: Path) -> Iterator[Served]:
    engine = FakeEngine(step_seconds=0.02)
    page, url = serve(engine, races=races)
    yield engine, url
    page.close()


def opened(page: Any) -> Any:
    page.get_by_role("tab", name="Datastore").click()
    stage = page.locator("#stage-datastore")
    stage.locator(".stage[data-state]").wait_for()
    return stage


def upload(page: Any, file: Path, text: str) -> None:
    file.write_text(text)
    page.set_input_files("#own-ask input[type=file]", str(file))


def gone(file: Path | None) -> None:
    """Wait until an upload and its folder are deleted, which is after the last word that the page gets of its build."""
    assert file is not None
    deadline = time.monotonic() + 20
    while file.parent.exists():
        assert time.monotonic() < deadline, "the upload stays on the disk"
        time.sleep(0.05)


def test_a_store_is_built_used_and_deleted(builder: Served, visit: Visit, tmp_path: Path) -> None:
    engine, url = builder
    page, other = visit(url), visit(url)
    stage = opened(page)
    page.fill("#field-own-keep input", "7")
    upload(page, tmp_path / "notes.txt", "a line of words\n" * 150)
    stage.locator(".progress span:has-text('The model reads each text once')").wait_for()
    assert stage.locator("progress").get_attribute("max") == "150"
    card = stage.locator(".own-store .store")
    card.wait_for()
    assert "my-notes" in card.inner_text() and "7 of 8,000 kept" in card.inner_text()
    assert stage.locator(".progress").count() == 0
    gone(engine.uploads[-1])
    page.wait_for_function("document.querySelector('#field-store-store input').value === 'my-notes'")
    page.click("#store-go")
    stage.locator(".answers h2:has-text('What “my-notes” expects next')").wait_for()
    assert "my-notes" not in opened(other).inner_text()
    page.get_by_role("tab", name="Race").click()
    race(page, max_new_tokens=10)
    (visitor,) = engine.own
    assert engine.visitors[-2:] == [visitor, visitor]
    opened(page).get_by_role("button", name="Delete it").click()
    card.wait_for(state="detached")
    page.wait_for_function("document.querySelector('#field-store-store input').value === 'smollm2-code'")
    assert engine.own == {} and page.problems == []


@pytest.mark.all_cases
def test_after_ones_own_the_look_up_falls_back_to_a_store_that_spectra_guesses_from(
    builder: Served, visit: Visit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not to the first of the list, where an unrefined one stands that another method had built."""
    engine, url = builder
    unrefined = {**CARD, "name": "python-library-unrefined", "refined": False}
    monkeypatch.setattr(engine, "shared", (unrefined, CARD))
    page = visit(url)
    stage = opened(page)
    chosen = "(name) => document.querySelector('#field-store-store input').value === name"
    page.wait_for_function(chosen, arg="smollm2-code")
    upload(page, tmp_path / "notes.txt", "a line of words\n" * 3)
    page.wait_for_function(chosen, arg="my-notes")
    stage.get_by_role("button", name="Delete it").click()
    page.wait_for_function("document.querySelector('#field-store-store input').value !== 'my-notes'")
    page.wait_for_function(chosen, arg="smollm2-code")


def test_what_the_tab_says_late_does_not_bring_a_deleted_store_back(
    builder: Served, visit: Visit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who opens the tab and deletes at once has two answers on their way; the first was put together before."""
    page = visit(builder[1])
    stage = opened(page)
    chosen = "(name) => document.querySelector('#field-store-store input').value === name"
    upload(page, tmp_path / "notes.txt", "a line of words\n" * 3)
    page.wait_for_function(chosen, arg="my-notes")
    appear(page, "#own-library:enabled")
    answered = Event()
    wanted = visual.tabs.datastore.wanted

    def late(engine: FakeEngine, visitor: str) -> bool:
        if not answered.is_set():
            answered.set()
            time.sleep(1.5)
        return wanted(engine, visitor)

    page.get_by_role("tab", name="Race").click()
    monkeypatch.setattr(visual.tabs.datastore, "wanted", late)
    opened(page)
    assert answered.wait(20)
    stage.get_by_role("button", name="Delete it").click()
    page.wait_for_function(chosen, arg="smollm2-code")
    page.wait_for_timeout(2000)
    assert page.evaluate(chosen, "smollm2-code")
    page.click("#store-go")
    stage.locator(".answers h2:has-text('What “smollm2-code” expects next')").wait_for()
    page.get_by_role("tab", name="Race").click()
    opened(page)
    page.wait_for_timeout(200)
    assert page.evaluate(chosen, "smollm2-code") and page.problems == []
    assert stage.locator(".own-store .store").count() == 0


@pytest.mark.all_cases
def test_a_build_can_be_stopped_and_the_next_one_goes_on(builder: Served, visit: Visit, tmp_path: Path) -> None:
    engine, url = builder
    page = visit(url)
    stage = opened(page)
    upload(page, tmp_path / "long.txt", "a line of words\n" * 3000)
    stage.locator(".progress").wait_for()
    page.click("#own-stop")
    stage.locator(".stage[data-building=halted]").wait_for()
    assert stage.locator(".progress").count() == 0 and engine.own == {}
    upload(page, tmp_path / "short.txt", "a line of words\n" * 3)
    stage.locator(".own-store h2:has-text('my-short')").wait_for()


@pytest.mark.all_cases
def test_a_closed_tab_ends_its_build(builder: Served, visit: Visit, tmp_path: Path) -> None:
    engine, url = builder
    page = visit(url)
    stage = opened(page)
    upload(page, tmp_path / "left.txt", "a line of words\n" * 3000)
    stage.locator(".progress").wait_for()
    page.close()
    gone(engine.uploads[-1])
    page = visit(url)
    race(page, max_new_tokens=10)  # the line is free again
    assert not any(card["name"] == "my-left" for cards in engine.own.values() for card in cards)


@pytest.mark.all_cases
@pytest.mark.parametrize(
    ("name", "keep", "field", "words"),
    [
        ("page.html", "9", "file", ".html is not read here; give .txt or .jsonl"),
        ("notes.txt", "0", "keep", "out of range"),
        ("notes.txt", "", "keep", "it is empty"),
    ],
)
def test_a_bad_upload_is_said_at_its_field(
    name: str, keep: str, field: str, words: str, builder: Served, visit: Visit, tmp_path: Path
) -> None:
    page = visit(builder[1])
    opened(page)
    page.fill("#field-own-keep input", keep)
    upload(page, tmp_path / name, "<script>window.hacked=1</script>\n")
    page.wait_for_selector(f"#field-own-{field} .field-error:has-text('{words}')")
    assert page.locator(".toast-body").count() == 0 and page.evaluate("window.hacked") is None
    appear(page, "#field-own-file button:enabled")


@pytest.fixture(scope="module")
def storeless(races: Path) -> Iterator[Served]:
    engine = FakeEngine(step_seconds=0.05, shared=(), model="Bare-7B")
    page, url = serve(engine, races=races)
    yield engine, url
    page.close()


def test_a_model_without_a_store_is_let_write_one(storeless: Served, visit: Visit) -> None:
    engine, url = storeless
    page = visit(url)
    stage = opened(page)
    sentence = "No datastore fits Bare-7B yet, so let it write one. It writes 4,608 tokens at most; about 2 minutes"
    assert sentence in page.inner_text("#store-offer")
    page.click("#own-writing > button")
    page.fill("#field-own-texts input", "0")
    page.click("#own-write")
    page.wait_for_selector("#field-own-texts .field-error:has-text('0 is out of range')")
    page.set_viewport_size({"width": 390, "height": 900})
    note = page.locator("#field-own-texts .field-error")
    whole = "(note) => note.getBoundingClientRect().right <= note.closest('.card').getBoundingClientRect().right - 12"
    assert note.evaluate(whole), "the sentence is cut off on a phone"
    page.set_viewport_size({"width": 1300, "height": 900})
    page.fill("#field-own-texts input", "200")
    page.wait_for_selector("#own-cost:has-text('It writes 38,400 tokens at most')")
    page.fill("#field-own-prompts textarea", "Name three rivers.\nWhat is rain?")
    page.click("#own-write")
    stage.locator(".progress span", has_text=re.compile(r"The model writes: [1-9]\d* of 200 texts")).wait_for()
    assert "left" in stage.locator(".progress span").inner_text()
    for start in ("#field-own-file button", "#own-library", "#own-write", "#store-offer-go"):
        assert page.locator(start).is_disabled(), "one build at a time"
    page.click("#own-stop")
    card = stage.locator(".own-store .store")
    card.wait_for()
    assert "written-by-the-model" in card.inner_text()
    ((visitor, prompts),) = engine.texts
    assert prompts == ("Name three rivers.", "What is rain?") and 1 <= engine.texts[visitor, prompts] < 200
    page.wait_for_selector("#own-cost:has-text('written already and stay')")
    page.wait_for_function("document.querySelector('#field-store-store input').value === 'written-by-the-model'")
    page.wait_for_selector("#store-offer", state="hidden")
    assert stage.locator(".hero-hint").is_hidden(), "a store fits now"
    appear(page, "#own-write:enabled")
    card.get_by_role("button", name="Delete it").click()
    page.wait_for_selector("#store-offer", state="visible")
    assert stage.locator(".hero-hint").is_visible() and page.problems == []


@pytest.mark.all_cases
def test_what_a_reload_cut_off_is_said_once(builder: Served, visit: Visit, tmp_path: Path) -> None:
    page = visit(builder[1])

    def said_after_a_load() -> str:
        page.reload()
        appear(page, READY)
        opened(page)
        page.wait_for_timeout(200)
        return str(page.locator("#own-ask").inner_text())

    stage = opened(page)
    upload(page, tmp_path / "long.txt", "a line of words\n" * 3000)
    stage.locator(".progress").wait_for()
    assert "while a datastore was made for you, so that work has ended" in said_after_a_load()
    assert "lost its connection" not in said_after_a_load()
    upload(page, tmp_path / "short.txt", "a line of words\n" * 3)
    stage.locator(".own-store .store").wait_for()
    assert "so the datastore that was built for you is deleted" in said_after_a_load()
    assert "lost its connection" not in said_after_a_load() and page.problems == []


@pytest.mark.all_cases
def test_a_store_that_went_with_its_model_is_shown_no_longer(builder: Served, visit: Visit, tmp_path: Path) -> None:
    """Its card said that the page guesses from it."""
    engine, url = builder
    page = visit(url)
    stage = opened(page)
    upload(page, tmp_path / "notes.txt", "a line of words\n" * 3)
    card = stage.locator(".own-store .store")
    card.wait_for()
    page.get_by_role("tab", name="Race").click()
    opened(page)
    page.wait_for_timeout(200)
    assert card.count() == 1
    engine.own.clear()
    page.get_by_role("tab", name="Race").click()
    opened(page)
    page.wait_for_selector("#own-ask > .field-error:has-text('Your datastore is deleted')")
    assert card.count() == 0 and page.problems == []
