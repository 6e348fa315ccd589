"""The page without a mouse: every control is reached, what is open is said, and the focus outlives what had it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from browsing import STAGE, appear, ended, fill, finish, race, start, tab
from fakes_engine import FakeEngine

Visit = Callable[..., Any]
Fake = tuple[FakeEngine, str]
FOCUSED = "document.activeElement.id || document.activeElement.dataset.id || document.activeElement.tagName"


def focused(page: Any, on: str) -> None:
    """Wait until the focus is on the element with this id, or this name in a template."""
    page.wait_for_function(f"(on) => ({FOCUSED}) === on", arg=on)


@pytest.mark.usefixtures("slow")
def test_start_and_stop_hand_the_focus_to_each_other(page: Any) -> None:
    fill(page, max_new_tokens=2000)
    page.focus("#go")
    page.keyboard.press("Enter")
    focused(page, "stop")
    page.wait_for_function(f"{STAGE}.state === 'running'")
    page.keyboard.press("Enter")
    finish(page)
    focused(page, "go")
    page.focus("[data-id=again]")
    page.keyboard.press("Enter")
    focused(page, "stop")
    page.focus("#field-seed input")
    page.click("#stop")
    finish(page)
    appear(page, "#go:enabled")
    page.focus("[data-id=clear]")
    page.keyboard.press("Enter")
    page.wait_for_function(f"{STAGE}.state === 'empty'")
    assert page.evaluate("document.activeElement.closest('#field-prompt') !== null")
    assert page.problems == []


@pytest.mark.usefixtures("slow")
def test_a_focus_that_went_elsewhere_stays_there(page: Any) -> None:
    start(page, max_new_tokens=2000)
    focused(page, "stop")
    page.mouse.click(5, 5)
    focused(page, "BODY")
    page.evaluate("document.querySelector('#stop').click()")
    finish(page)
    appear(page, "#go:enabled")
    focused(page, "BODY")


@pytest.mark.usefixtures("slow")
def test_chat_and_compare_keep_the_focus(page: Any) -> None:
    for name in ("chat", "compare"):
        stage = tab(page, name.title())
        fill(page, **{f"{name}-prompt": "hello", f"{name}-max_new_tokens": 2000})
        page.focus(f"#{name}-go")
        page.keyboard.press("Enter")
        focused(page, f"{name}-stop")
        appear(page, f"#stage-{name} .stage[data-state=running]")
        page.keyboard.press("Enter")
        ended(stage, "stopped")
        focused(page, f"{name}-go")
    page.get_by_role("tab", name="Chat").click()
    page.focus("#stage-chat [data-id=clear]")
    page.keyboard.press("Enter")
    page.wait_for_function("document.activeElement.closest('#field-chat-prompt')")


def test_a_build_keeps_the_focus(fake: Fake, page: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fake[0], "step_seconds", 0.02)
    stage = tab(page, "Datastore")
    page.get_by_role("button", name="Let the model write the text").click()
    fill(page, **{"own-texts": 300, "own-text-tokens": 100})
    page.focus("#own-write")
    page.keyboard.press("Enter")
    focused(page, "own-stop")
    stage.locator(".progress").wait_for()
    while not any(fake[0].texts.values()):
        page.wait_for_timeout(20)
    page.keyboard.press("Enter")
    stage.get_by_role("button", name="Delete it").wait_for()
    focused(page, "own-write")
    stage.get_by_role("button", name="Delete it").focus()
    page.keyboard.press("Enter")
    focused(page, "own-library")
    page.get_by_role("button", name="Let the model write the text").click()


def test_folds_say_whether_they_are_open(page: Any) -> None:
    for name, card in (("Race", "#ask"), ("Compare", "#compare-ask"), ("Datastore", "#own-ask")):
        tab(page, name)
        folds = page.locator(f"{card} button.label-wrap")
        assert folds.count() >= 1
        for fold in folds.all():
            for wanted in ("true", "false"):
                fold.click()
                page.wait_for_function(
                    "([fold, wanted]) => fold.ariaExpanded === wanted", arg=[fold.element_handle(), wanted]
                )


REACHABLE = """() => [...document.querySelectorAll(
    'a[href], button, input, textarea, summary, [tabindex]:not([tabindex="-1"])')]
  .filter((each) => each.checkVisibility({visibilityProperty: true, opacityProperty: true}) && !each.disabled
    && each.tabIndex >= 0 && each.getBoundingClientRect().width > 1)
  .map((each, number) => { each.dataset.number = number; return each.outerHTML.slice(0, 120); })"""


@pytest.mark.parametrize(
    "name",
    [
        "Race",
        "Chat",
        *(pytest.param(name, marks=pytest.mark.all_cases) for name in ("Compare", "Datastore", "Replay", "Learn")),
    ],
)
def test_every_control_of_a_tab_is_reached(page: Any, name: str) -> None:
    if name in ("Race", "Learn"):
        race(page, max_new_tokens=30)
    tab(page, name)
    page.wait_for_timeout(300)
    page.evaluate("document.activeElement.blur()")
    wanted = dict(enumerate(page.evaluate(REACHABLE)))
    assert len(wanted) > 5
    for _ in range(len(wanted) + 10):
        page.keyboard.press("Tab")
        wanted.pop(int(page.evaluate("document.activeElement.dataset.number ?? -1")), None)
    assert wanted == {}
