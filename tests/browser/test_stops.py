"""Runs that are stopped, left, cleared or asked for twice, in a real browser: one at a time, and none comes back."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from browsing import STAGE, appear, download, fill, finish, race, serve, start, tab
from fakes_engine import FakeEngine

Fake = tuple[FakeEngine, str]
Visit = Callable[..., Any]
TALK = "document.querySelector('#stage-chat .stage').dataset.state"


def say(page: Any, text: str) -> None:
    page.fill("#field-chat-prompt textarea", text)
    appear(page, "#chat-go:enabled")
    page.click("#chat-go")


@pytest.mark.all_cases
def test_a_new_conversation_knows_nothing_of_the_answer_it_ended(visit: Visit, races: Path) -> None:
    engine = FakeEngine(step_seconds=0.01)
    served, url = serve(engine, races=races)
    try:
        page = visit(url)
        page.get_by_role("tab", name="Chat").click()
        page.fill("#field-chat-max_new_tokens input", "8")
        say(page, "first")
        page.wait_for_function(f"{TALK} === 'done'")
        page.fill("#field-chat-max_new_tokens input", "2000")
        say(page, "second")
        page.wait_for_function("document.querySelectorAll('#stage-chat .turn:nth-child(2) .t').length > 3")
        page.click("#stage-chat [data-id=clear]")
        page.wait_for_function(f"{TALK} === 'empty'")
        page.wait_for_timeout(600)
        assert page.evaluate(TALK) == "empty" and page.locator("#stage-chat .turn").count() == 0
        page.fill("#field-chat-max_new_tokens input", "8")
        say(page, "third")
        page.wait_for_function(f"{TALK} === 'done'")
        assert [said["content"] for said in engine.conversations[-1]] == ["third"]
        assert engine.answers[-2].closed and page.problems == []
    finally:
        served.close()


@pytest.mark.parametrize("tab_name", ["Race", "Chat"])
def test_what_is_cleared_before_it_was_heard_of_does_not_come_up(page: Any, tab_name: str) -> None:
    """The start reaches the server half a second late, after whatever cancels it was sent."""
    name, scope = tab_name.lower(), "" if tab_name == "Race" else "chat-"
    stage = f"#stage-{name} .stage"
    tab(page, tab_name)
    fill(page, **{f"{scope}prompt": "first", f"{scope}max_new_tokens": 8})
    page.click(f"#{scope}go")
    appear(page, f"{stage}[data-state=done][data-run]")
    appear(page, f"#{scope}go:enabled")
    fill(page, **{f"{scope}prompt": "second", f"{scope}max_new_tokens": 200})

    def late(route: Any) -> None:
        time.sleep(0.5)
        route.continue_()

    page.route("**/queue/join*", late)
    clicks = """([go, clear]) => {
      document.querySelector(go).click();
      setTimeout(() => document.querySelector(clear).click());
    }"""
    page.evaluate(clicks, [f"#{scope}go", f"{stage} [data-id=clear]"])
    appear(page, f"{stage}[data-state=empty]")
    appear(page, f"#{scope}go:enabled")
    page.wait_for_timeout(1500)
    page.unroute("**/queue/join*")
    assert page.locator(f"{stage}[data-state=empty]").count() == 1
    assert page.locator(f"{stage} .t").count() == 0 and page.locator(f"#{scope}go:enabled").count() == 1
    assert page.problems == []


@pytest.mark.all_cases
@pytest.mark.usefixtures("slow")
def test_a_run_is_not_begun_beside_another(fake: Fake, visit: Visit) -> None:
    engine, url = fake
    page = visit(url)
    start(page, max_new_tokens=2000)
    page.click("#stop")
    finish(page)
    appear(page, "#go:enabled")
    before = len(engine.answers)
    page.click("[data-id=again]")
    page.press("#field-prompt textarea", "Enter")
    page.wait_for_function(f"{STAGE}.state === 'running'")
    page.press("#field-prompt textarea", "Enter")
    page.wait_for_timeout(300)
    appear(page, "#stop:enabled")
    page.click("#stop")
    finish(page)
    appear(page, "#go:enabled")
    assert len(engine.answers) == before + 1 and engine.answers[-1].closed
    assert "waiting" not in page.locator("[data-id=verdict]").inner_text()
    race(page, max_new_tokens=10)
    assert page.locator("[data-id=badge]").inner_text() == "Identical output" and page.problems == []


@pytest.mark.all_cases
@pytest.mark.usefixtures("slow")
def test_what_is_shown_outlives_a_place_in_line_that_was_left(fake: Fake, visit: Visit) -> None:
    engine, url = fake
    first, second = visit(url), visit(url)
    race(second, prompt="to be kept", max_new_tokens=30)
    shown = engine.answers[-1].trace
    start(first, max_new_tokens=2000)
    fill(second, prompt="to be left")
    second.click("#go")
    second.wait_for_selector("[data-id=verdict]:has-text('1 visitor before you')")
    second.click("#stop")
    appear(second, "#go:enabled")
    assert "waiting" not in second.locator("[data-id=verdict]").inner_text()
    assert download(second)["method"].tokens == shown.tokens
    first.click("#stop")
    finish(first)
    before = second.evaluate(f"{STAGE}.run")
    second.click("[data-id=again]")
    second.wait_for_function(f"(before) => {STAGE}.run !== before", arg=before)
    finish(second)
    assert engine.answers[-1].trace.prompt == "to be kept" and second.problems == []


@pytest.mark.all_cases
@pytest.mark.usefixtures("slow")
def test_a_message_that_never_got_its_turn_is_still_there(fake: Fake, visit: Visit) -> None:
    engine, url = fake
    first, second = visit(url), visit(url)
    start(first, max_new_tokens=2000)
    second.get_by_role("tab", name="Chat").click()
    before = len(engine.conversations)
    say(second, "not yet")
    second.wait_for_selector("#stage-chat [data-id=rate]:has-text('1 visitor before you')")
    second.click("#chat-stop")
    appear(second, "#chat-go:enabled")
    assert second.locator("#field-chat-prompt textarea").input_value() == "not yet"
    assert len(engine.conversations) == before and second.locator("#stage-chat .turn").count() == 0
    first.click("#stop")
    finish(first)


@pytest.mark.all_cases
@pytest.mark.usefixtures("slow")
def test_what_a_chat_waits_for_is_said_no_longer_than_it_waits(fake: Fake, visit: Visit) -> None:
    first, second = visit(fake[1]), visit(fake[1])
    second.get_by_role("tab", name="Chat").click()
    fill(second, **{"chat-max_new_tokens": 8})
    say(second, "first")
    second.wait_for_function(f"{TALK} === 'done'")
    start(first, max_new_tokens=2000)
    line = second.locator("#stage-chat [data-id=rate]")
    usual = line.inner_text()
    for waits, button in (("1 visitor before you", "#chat-go"), ("Measuring plain", "[data-id=renew]")):
        second.fill("#field-chat-prompt textarea", "second")
        appear(second, "#chat-go:enabled")
        second.click(button if button.startswith("#") else f"#stage-chat {button}")
        second.wait_for_selector(f"#stage-chat [data-id=rate]:has-text('{waits}')")
        second.evaluate("document.querySelector('#stage-chat [data-id=clear]').click()")
        second.wait_for_function(
            "(usual) => document.querySelector('#stage-chat [data-id=rate]').innerText === usual", arg=usual
        )
    first.click("#stop")
    finish(first)
    assert second.problems == []


@pytest.mark.usefixtures("slow")
def test_a_datastore_that_is_built_for_a_run_can_be_stopped(fake: Fake, visit: Visit) -> None:
    engine, url = fake
    engine.built, engine.step_seconds = 0, 0.05  # twenty seconds in which the build is told
    page = visit(f"{url}?method=rest&max_new_tokens=20")
    page.wait_for_function("document.querySelector('#field-method input').value === 'Baseline: REST'")
    page.click("#go")
    page.wait_for_selector("#stage-race [data-id=verdict]:has-text('building its datastore: indexing')")
    page.click("#stop")
    page.wait_for_function(f"{STAGE}.state === 'stopped'")
    assert page.locator("#stage-race [data-id=verdict]").inner_text() == "nothing was written yet: nothing to compare"
    assert page.locator("#stage-race [data-id=figures]").is_hidden(), "there is nothing to draw"
    appear(page, "#go:enabled")
    engine.step_seconds = 0.001
    race(page)
    assert page.locator("#stage-race [data-id=figures]").is_visible()
    assert engine.built == 1 and page.locator("[data-id=badge]").inner_text() == "Identical output"
    engine.built, engine.step_seconds = 0, 0.01  # four seconds in which the build is told
    page.get_by_role("tab", name="Chat").click()
    page.click("#field-chat-method input")
    page.get_by_role("option", name="Baseline: REST").click()
    line = page.locator("#stage-chat [data-id=rate]")
    usual = line.inner_text()
    fill(page, **{"chat-max_new_tokens": 8})
    say(page, "first")
    page.wait_for_selector("#stage-chat [data-id=rate]:has-text('Building its datastore')")
    page.wait_for_function(f"{TALK} === 'done'")
    assert engine.built == 1 and line.inner_text() == usual and page.problems == []


@pytest.mark.all_cases
def test_a_message_refused_after_a_build_leaves_no_word_of_it(fake: Fake, visit: Visit) -> None:
    engine, url = fake
    page = visit(url)
    page.get_by_role("tab", name="Chat").click()
    fill(page, **{"chat-max_new_tokens": 8})
    say(page, "first")
    page.wait_for_function(f"{TALK} === 'done'")
    line = page.locator("#stage-chat [data-id=rate]")
    usual = line.inner_text()
    engine.built = 0
    page.click("#field-chat-method input")
    page.get_by_role("option", name="Baseline: REST").click()
    say(page, "refuse")
    page.wait_for_selector("#field-chat-prompt .field-error:has-text('9000 tokens do not fit')")
    assert engine.built == 1 and line.inner_text() == usual
    assert page.locator("#stage-chat .turn").count() == 1 and page.problems == []
