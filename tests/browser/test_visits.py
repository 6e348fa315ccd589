"""Visitors in a real browser: links, repeats, a full line, leaving the line, and every kind of odd input."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from browsing import READY, STAGE, appear, download, fill, finish, race, see_charts, serve, start, tab, value_of
from fakes_engine import SETTINGS, FakeEngine

from visual.guard import Guard, RequestLimits

Visit = Callable[..., Any]
Fake = tuple[FakeEngine, str]
ODD = {
    "markup": "<script>window.hacked=1</script><img src=x onerror=window.hacked=2>",
    "template": "${alert(1)} {{constructor.constructor('window.hacked=3')()}} `${window.hacked=4}`",
    "emoji": "👩‍👩‍👧‍👦 🙂 🏳️‍🌈",
    "right to left": "مرحبا بالعالم \u202e txet",
    "control": "a\u0007b\u0000c\u001b[31m\u2028d",
}


def test_a_link_fills_the_form_and_runs_nothing(fake: Fake, visit: Visit) -> None:
    engine, url = fake
    before = len(engine.answers)
    query = {
        "prompt": "<img src=x onerror=window.hacked=1>${alert(1)}",
        "method": "spectra-core",
        "seed": "11",
        "max_new_tokens": "33",
        "temperature": "0.5",
    }
    page = visit(f"{url}?{urlencode(query)}")
    page.wait_for_function("document.querySelector('#field-seed input').value === '11'")
    assert page.locator("#field-prompt textarea").input_value() == query["prompt"]
    assert page.locator("#field-method input").input_value() == "SPECTRA-CORE"
    assert page.locator("#field-max_new_tokens input").input_value() == "33"
    assert len(engine.answers) == before and page.evaluate("window.hacked") is None
    race(page)
    trace = engine.answers[-1].trace
    assert (trace.prompt, trace.method, trace.settings["seed"]) == (query["prompt"], "spectra-core", 11)
    page.click("[data-id=link]")
    page.wait_for_function("location.search.includes('max_new_tokens=33')")
    assert "method=spectra-core" in page.url and "seed=11" in page.url and page.problems == []


@pytest.mark.all_cases
def test_a_page_that_lies_idle_draws_nothing(fake: Fake, visit: Visit) -> None:
    page = visit(fake[1])
    page.add_init_script("""
        const own = window.requestAnimationFrame;
        window.frames_asked = 0;
        window.requestAnimationFrame = (tick) => { window.frames_asked += 1; return own.call(window, tick); };""")
    page.reload()
    appear(page, READY)
    see_charts(page)
    page.wait_for_function("document.querySelector('[data-id=plot-growth]').calcdata")
    still = "() => { const before = window.asked; window.asked = window.frames_asked; return before === window.asked; }"
    page.wait_for_function(still, polling=700)  # gradio's loader moves for some seconds after it is gone
    assert page.evaluate("window.frames_asked") > 0
    assert page.evaluate("document.getAnimations().length") == 0


@pytest.mark.all_cases
def test_again_repeats_the_race_and_clear_empties_the_page(fake: Fake, visit: Visit) -> None:
    engine, url = fake
    page = visit(url)
    race(page, prompt="the first prompt", max_new_tokens=25, seed=3)
    fill(page, prompt="another prompt", seed=4)
    before = page.evaluate(f"{STAGE}.run")
    page.click("[data-id=again]")
    page.wait_for_function(f"(run) => {STAGE}.run !== run", arg=before)
    finish(page)
    repeated = engine.answers[-1].trace
    assert (repeated.prompt, repeated.settings["seed"]) == ("the first prompt", 3)
    page.click("[data-id=clear]")
    page.wait_for_function(f"{STAGE}.state === 'empty'")
    assert page.locator("#field-prompt textarea").input_value() == ""
    assert page.locator("#stage-race .t").count() == 0 and page.locator("[data-id=inside]").is_hidden()
    race(page, prompt="once more", max_new_tokens=10)
    assert page.locator("[data-id=badge]").inner_text() == "Identical output"


@pytest.mark.all_cases
@pytest.mark.usefixtures("slow")
def test_a_race_that_a_reload_cut_off_can_be_asked_for_again(fake: Fake, visit: Visit) -> None:
    page = visit(fake[1])
    start(page, prompt="cut off", max_new_tokens=1500, seed=9)
    page.reload()
    appear(page, READY)
    note = page.locator("#ask > .field-error:has-text('that race has ended')")
    assert "without the prompt" not in note.inner_text()
    note.locator("a").click()
    page.wait_for_function("document.querySelector('#field-prompt textarea')?.value === 'cut off'")
    assert value_of(page, "seed") == "9" and value_of(page, "max_new_tokens") == "1500"
    assert page.locator("#ask .field-error").count() == 0
    start(page, prompt="漢" * 7000, max_new_tokens=1500)
    page.reload()
    appear(page, READY)
    page.wait_for_selector("#ask > .field-error:has-text('as it was, without the prompt: it is too long for a link')")


@pytest.mark.all_cases
@pytest.mark.usefixtures("slow")
def test_a_race_that_waited_when_the_page_went_away_is_told_of(fake: Fake, visit: Visit) -> None:
    first, second = visit(fake[1]), visit(fake[1])
    start(first, max_new_tokens=2000)
    second.click("#go")
    second.wait_for_selector("[data-id=verdict]:has-text('before you')")
    second.reload()
    appear(second, READY)
    second.wait_for_selector("#ask > .field-error:has-text('while a race waited for its turn')")
    first.click("#stop")
    finish(first)
    assert first.problems == [] and second.problems == []


@pytest.mark.all_cases
@pytest.mark.usefixtures("slow")
@pytest.mark.parametrize(("name", "what"), [("chat", "conversation"), ("compare", "comparison")])
def test_what_a_reload_cut_off_is_said_in_its_tab(fake: Fake, visit: Visit, name: str, what: str) -> None:
    page = visit(fake[1])
    tab(page, name.title())
    fill(page, **{f"{name}-prompt": "cut off", f"{name}-max_new_tokens": 1500})
    page.click(f"#{name}-go")
    appear(page, f"#stage-{name} .stage[data-state=running]")
    for ends in (True, False):
        page.reload()
        appear(page, READY)
        assert page.locator("#ask .field-error").count() == 0
        tab(page, name.title())
        note = page.locator(f"#{name}-ask > .field-error:has-text('so that {what} has ended')")
        page.wait_for_timeout(200)
        assert note.is_visible() == ends
    assert page.problems == []


@pytest.mark.all_cases
@pytest.mark.usefixtures("slow")
@pytest.mark.parametrize(("name", "what"), [("chat", "that conversation has ended"), ("compare", "which is given up")])
def test_what_waited_when_the_page_went_away_is_said_in_its_tab(fake: Fake, visit: Visit, name: str, what: str) -> None:
    first, page = visit(fake[1]), visit(fake[1])
    start(first, max_new_tokens=2000)
    tab(page, name.title())
    fill(page, **{f"{name}-prompt": "waits", f"{name}-max_new_tokens": 12})
    page.click(f"#{name}-go")
    page.wait_for_selector(f"#stage-{name} :text('Waiting for the model: 1 visitor before you'):visible")
    for told in (True, False):
        page.reload()
        appear(page, READY)
        tab(page, name.title())
        note = page.locator(f"#{name}-ask > .field-error:has-text('{what}')")
        page.wait_for_timeout(200)
        assert note.is_visible() == told
    first.click("#stop")
    finish(first)
    assert first.problems == [] and page.problems == []


@pytest.mark.all_cases
def test_a_full_line_is_said_at_the_button_and_a_place_in_it_can_be_left(visit: Visit, races: Path) -> None:
    engine = FakeEngine(step_seconds=0.02)
    served, url = serve(engine, races=races, max_visitors=4)  # one address may hold half of the places
    try:
        first, second, third = visit(url), visit(url), visit(url)
        start(first, max_new_tokens=2000)
        second.click("#go")
        second.wait_for_selector("[data-id=verdict]:has-text('before you')")
        third.click("#go")
        third.wait_for_selector("#ask > .field-error:has-text('2 others are waiting; try again')")
        appear(third, "#go:enabled")
        assert third.locator(".toast-body").count() == 0
        assert "in this recording" in third.locator("[data-id=verdict]").inner_text()
        second.click("#stop")
        second.wait_for_selector("[data-id=verdict]:has-text('in this recording')")
        appear(second, "#go:enabled")
        first.click("#stop")
        finish(first)
        assert len(engine.answers) == 1 and engine.answers[0].closed
        appear(third, "#stop:disabled")
        race(third, max_new_tokens=10)
        assert len(engine.answers) == 3
    finally:
        served.close()


def test_what_the_server_does_not_take_leaves_no_word_of_waiting(visit: Visit, races: Path) -> None:
    served, url = serve(FakeEngine(), races=races, guard=Guard(RequestLimits(starts=1)))
    try:
        page = visit(url)
        race(page, max_new_tokens=10)
        appear(page, "#go:enabled")
        verdict = page.locator("[data-id=verdict]")
        before = verdict.inner_text()
        page.click("#go")
        page.wait_for_selector(".toast-body:has-text('too many requests')")
        page.wait_for_function("(text) => document.querySelector('[data-id=verdict]').innerText === text", arg=before)
        page.click("[data-id=clear]")  # once is enough: no race is on its way
        page.wait_for_function(f"{STAGE}.state === 'empty'")
        rate = tab(page, "Chat").locator("[data-id=rate]")
        before = rate.inner_text()
        page.click("[data-id=renew]")  # which says at once that it measures
        page.wait_for_function(
            "(text) => document.querySelector('#stage-chat [data-id=rate]').innerText === text", arg=before
        )
        assert page.problems == []
    finally:
        served.close()


def test_a_shared_race_claims_no_speedup_and_is_measured_alone_in_line(visit: Visit, races: Path) -> None:
    engine = FakeEngine(step_seconds=0.02, together=2, others=3)
    served, url = serve(engine, races=races)
    try:
        page, other = visit(url), visit(url)
        assert "up to 2 visitors together" in page.locator(".top .badges").inner_text()
        start(other, max_new_tokens=2000)
        race(page, max_new_tokens=60)  # beside the other one
        score, verdict = page.locator("[data-id=speedup]"), page.locator("[data-id=verdict]")
        assert score.inner_text() == "Shared"
        assert verdict.inner_text() == "with 3 others: no speedup is claimed"
        assert "trees that may be smaller than alone" in page.locator("[data-id=more]").inner_text()
        assert {trace.settings["shared"] for trace in download(page).values()} == {3}
        appear(page, "#go:enabled")
        page.click("[data-id=alone]")
        page.wait_for_selector("[data-id=verdict]:has-text('before you')")
        engine.others = 0
        run = page.evaluate(f"{STAGE}.run")
        other.click("#stop")
        page.wait_for_function(f"(run) => {STAGE}.run !== run", arg=run)
        finish(page)
        assert score.inner_text().endswith("×") and page.locator("[data-id=alone]").is_hidden()
        assert page.problems == []
    finally:
        served.close()


@pytest.mark.all_cases
def test_chat_and_compare_say_that_they_were_shared(visit: Visit, races: Path) -> None:
    engine = FakeEngine(step_seconds=0.001, together=4, others=1)
    served, url = serve(engine, races=races)
    try:
        page = visit(url)
        page.get_by_role("tab", name="Chat").click()
        fill(page, **{"chat-prompt": "hello", "chat-max_new_tokens": 20})
        page.click("#chat-go")
        note = page.locator("#stage-chat .readout")
        note.locator("b:has-text('Shared')").wait_for()
        assert "with 1 other: 20 tokens" in note.inner_text() and "×" not in note.inner_text()
        page.get_by_role("tab", name="Compare").click()
        fill(page, **{"compare-max_new_tokens": 20})
        page.click("#compare-go")
        appear(page, "#stage-compare .stage[data-state=done]")
        assert "Shared with 1 other:" in page.locator("#stage-compare [data-id=shared]").inner_text()
        assert "×" not in page.locator("#stage-compare table").inner_text()
        assert page.problems == []
    finally:
        served.close()


@pytest.mark.all_cases
def test_odd_prompts_are_answered_and_never_run(fake: Fake, visit: Visit) -> None:
    engine, url = fake
    page = visit(url)
    page.on("dialog", lambda dialog: page.problems.append("a dialog opened"))
    for name, prompt in ODD.items():
        race(page, prompt=prompt, max_new_tokens=12)
        assert page.locator("[data-id=badge]").inner_text() == "Identical output", name
        assert engine.answers[-1].trace.prompt == page.locator("#field-prompt textarea").input_value(), name
    assert page.evaluate("window.hacked") is None and page.problems == []
    fill(page, prompt="x" * 20_001)
    page.click("#go")
    page.wait_for_selector("#field-prompt .field-error:has-text('20001 characters; give at most 20000')")


def test_a_model_can_be_chosen_and_one_that_is_out_of_reach_is_said(
    visit: Visit, races: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once: a model was loaded and refused twice, and the second refusal undid the next choice."""
    engine = FakeEngine(models=("Fake-135M", "Other-1B", "Gone-7B"))
    choose, chosen = engine.choose, []
    monkeypatch.setattr(engine, "choose", lambda model: (chosen.append(model), choose(model)))
    served, url = serve(engine, races=races)
    try:
        page = visit(url)
        for model, shown in (("Other-1B", "Other-1B"), ("Gone-7B", "Other-1B")):
            page.click("#field-model input")
            page.get_by_role("option", name=model).click()
            page.wait_for_selector(f".badges li:first-child:text-is('{shown}')")
        page.wait_for_selector("#field-model .field-error:has-text('cannot load')")
        page.wait_for_function("document.querySelector('#field-model input').value === 'Other-1B'")
        race(page, max_new_tokens=10)
        assert engine.answers[-1].trace.model == "Other-1B"
        assert chosen == ["Other-1B", "Gone-7B"]
        page.click("#field-model input")
        page.keyboard.press("Tab")
        page.click("#field-model input")
        page.keyboard.press("ArrowUp")
        page.keyboard.press("Enter")
        page.wait_for_selector(".badges li:first-child:text-is('Fake-135M')")
        assert chosen == ["Other-1B", "Gone-7B", "Fake-135M"]
    finally:
        served.close()


@pytest.mark.all_cases
def test_who_leaves_the_model_field_as_it_is_loads_none_and_sees_the_one_in_use(
    visit: Visit, races: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another visitor's choice was undone by whoever only went through the field."""
    engine = FakeEngine(models=("Fake-135M", "Other-1B"))
    choose, chosen = engine.choose, []
    monkeypatch.setattr(engine, "choose", lambda model: (chosen.append(model), choose(model)))
    served, url = serve(engine, races=races)
    try:
        page, other = visit(url), visit(url)
        page.click("#field-model input")
        page.get_by_role("option", name="Other-1B").click()
        page.wait_for_selector(".badges li:first-child:text-is('Other-1B')")
        other.click("#field-model input")
        other.keyboard.press("Tab")
        other.wait_for_selector(".badges li:first-child:text-is('Other-1B')")
        other.wait_for_function("document.querySelector('#field-model input').value === 'Other-1B'")
        assert chosen == ["Other-1B"]
    finally:
        served.close()


@pytest.mark.all_cases
def test_badges_and_chapters_are_of_the_model_that_is_in_use(visit: Visit, races: Path) -> None:
    engine = FakeEngine(models=("Fake-135M", "Other-1B"))
    served, url = serve(engine, races=races)
    try:
        page = visit(url)
        takes = "#stage-learn .chapters li:first-child:has-text('over 1 token takes {}')"
        page.get_by_role("tab", name="Learn").click()
        page.wait_for_selector(takes.format("21"))
        ring = page.locator("#stage-learn .what-if p > span", has_text="The ring is the race")
        assert ring.is_hidden(), "the recorded race ran elsewhere"
        page.get_by_role("tab", name="Race").click()
        race(page, max_new_tokens=60)
        page.get_by_role("tab", name="Learn").click()
        ring.wait_for()
        page.get_by_role("tab", name="Race").click()
        engine.cost = ((1, 0.5), (64, 0.6))
        engine.badges = ("8 GPUs", "fp16, fast")
        page.click("#field-model input")
        page.get_by_role("option", name="Other-1B").click()
        for each in (page, visit(url)):
            each.wait_for_selector(".badges li:first-child:text-is('Other-1B')")
            each.wait_for_selector(".badges li:nth-child(2):text-is('8 GPUs')")
            assert value_of(each, "model") == "Other-1B"
            each.get_by_role("tab", name="Learn").click()
            each.wait_for_selector(takes.format("500"))
            title = each.locator("#stage-learn .chapters h2").first.inner_text()
            assert title == "Why a wide pass is free here", "a GPU"
            ring = each.locator("#stage-learn .what-if p > span", has_text="The ring is the race")
            assert ring.is_hidden(), "the race is another model's"
            each.wait_for_selector("#stage-learn .chapters li:has-text('This page runs otherwise (fp16, fast)')")
            each.wait_for_selector("#stage-learn .what-if .verdict:has-text('a pass:')")
            assert each.problems == []
    finally:
        served.close()


@pytest.mark.all_cases
def test_what_a_lent_gpu_told_of_the_model_is_shown_after_the_first_race(visit: Visit, races: Path) -> None:
    """The Learn tab spoke of a pass of 1000 ms, measured on this machine, before anything was."""
    engine = FakeEngine(cost=(), badges=("a GPU lent by the call", "bf16"))

    def measured(_: int) -> None:
        engine.cost, engine.badges = ((1, 0.5), (64, 0.6)), ("8 GPUs", "bf16, exact", "exact attention, CUDA graphs")

    engine.before_step = measured
    served, url = serve(engine, races=races)
    try:
        page = visit(url)
        page.wait_for_selector(".badges li:nth-child(2):text-is('a GPU lent by the call')")
        page.get_by_role("tab", name="Learn").click()
        page.wait_for_selector("#stage-learn .chapters li")
        assert "easured on this machine" not in page.locator("#stage-learn").inner_text()
        page.get_by_role("tab", name="Race").click()
        race(page, max_new_tokens=10)
        for each in (page, visit(url)):
            each.wait_for_selector(".badges li:nth-child(2):text-is('8 GPUs')")
            each.wait_for_selector(".badges li:nth-child(4):text-is('exact attention, CUDA graphs')")
            each.get_by_role("tab", name="Learn").click()
            each.wait_for_selector("#stage-learn .chapters li:first-child:has-text('over 1 token takes 500')")
            assert each.problems == []
    finally:
        served.close()


@pytest.mark.all_cases
def test_a_setting_out_of_range_is_shown_even_in_the_fold(fake: Fake, visit: Visit) -> None:
    page = visit(fake[1])
    fill(page, max_new_tokens="1e99")
    page.click("#go")
    page.wait_for_selector("#field-max_new_tokens .field-error:has-text('out of range')")
    fill(page, max_new_tokens=8)
    fold = page.get_by_role("button", name="More settings")
    fold.click()
    for value in ("0", "1.5"):
        fill(page, top_p=value)
        fold.click()
        page.click("#go")
        page.wait_for_selector("#field-top_p .field-error:has-text('out of range')")


@pytest.mark.all_cases
def test_compare_is_of_the_model_in_use(visit: Visit, races: Path) -> None:
    """Its panel had the values of the model before, which ran as changes; what the model lacks was left out."""
    engine = FakeEngine(models=("Fake-135M", "Other-1B"))
    served, url = serve(engine, races=races)
    try:
        page = visit(url)
        engine.settings["spectra-paper"] = {**SETTINGS, "rows": 9, "nodes": None}
        del engine.methods["spectra-core"], engine.settings["spectra-core"]
        page.click("#field-model input")
        page.get_by_role("option", name="Other-1B").click()
        page.wait_for_selector(".badges li:first-child:text-is('Other-1B')")
        tab(page, "Compare")
        page.click("#compare-ask .method-settings button.label-wrap")
        page.wait_for_function("document.querySelector('#field-compare-rows input')?.value === '9'")
        fill(page, **{"compare-max_new_tokens": 10})
        page.click("#compare-go")
        appear(page, "#stage-compare .stage[data-state=done]")
        names = page.locator("#stage-compare tbody th").all_inner_texts()
        assert names == ["Plain decoding", "SPECTRA", "Paper: SPECTRA"]
        said = page.locator("#stage-compare [data-id=cut]").inner_text()
        assert said == "Left out, as the model in use does not run it: SPECTRA-CORE."
        assert page.problems == []
    finally:
        served.close()


@pytest.mark.all_cases
def test_an_open_tab_is_told_of_a_model_that_another_visitor_chose(visit: Visit, races: Path) -> None:
    """Its fields kept the values of the model before, which would have run as changes of the other one's presets."""
    engine = FakeEngine(models=("Fake-135M", "Other-1B"))
    served, url = serve(engine, races=races)
    try:
        page, other = visit(url), visit(url)
        other.click("#ask .method-settings button.label-wrap")
        tab(other, "Compare")
        other.click("#compare-ask .method-settings button.label-wrap")
        page.click("#field-model input")
        engine.settings["spectra"] = {**engine.settings["spectra"], "rows": 9}
        engine.settings["spectra-paper"] = {**engine.settings["spectra-paper"], "rows": 5}
        page.get_by_role("option", name="Other-1B").click()
        page.wait_for_selector(".badges li:first-child:text-is('Other-1B')")

        def told(go: str, field: str, rows: int) -> None:
            other.click(go)
            said = other.wait_for_selector(".field-error:visible").inner_text()
            assert said.endswith("nother visitor chose Other-1B; look at its settings and start again")
            other.wait_for_function(f"document.querySelector('#field-{field} input')?.value === '{rows}'")
            other.wait_for_selector(f"{go}:enabled")

        fill(other, **{"compare-max_new_tokens": 10})
        told("#compare-go", "compare-rows", 5)
        other.click("#compare-go")
        appear(other, "#stage-compare .stage[data-state=done]")
        tab(other, "Race")
        told("#go", "rows", 9)
        other.wait_for_function("document.querySelector('#field-model input').value === 'Other-1B'")
        race(other, max_new_tokens=10)
        assert not any(answer.trace.settings["method"]["changed"] for answer in engine.answers)
        before = len(engine.answers)
        other.wait_for_selector("#go:enabled")  # what is asked after a race was asked
        page.click("#field-model input")
        page.get_by_role("option", name="Fake-135M").click()
        page.wait_for_selector(".badges li:first-child:text-is('Fake-135M')")
        other.click("[data-id=again]")
        other.wait_for_selector(".field-error:has-text('nother visitor chose Fake-135M; look at its settings')")
        other.wait_for_selector(".badges li:first-child:text-is('Fake-135M')")
        assert len(engine.answers) == before, "raced under the other model's name"
        run = other.evaluate(f"{STAGE}.run")
        other.click("[data-id=again]")
        other.wait_for_function(f"(run) => {STAGE}.run !== run && {STAGE}.state === 'done'", arg=run)
        assert engine.answers[-1].trace.model == "Fake-135M" and other.problems == page.problems == []
    finally:
        served.close()


@pytest.mark.all_cases
def test_what_is_clicked_while_a_model_is_loaded_is_done_by_the_last_one_chosen(
    visit: Visit, races: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A race was refused in the name of another visitor, and a second choice was dropped while the first was loaded."""
    engine = FakeEngine(models=("Fake-135M", "Other-1B", "Third-2B"))
    load, loaded = engine.choose, threading.Event()

    def choose(model: str) -> None:
        assert loaded.wait(20)
        load(model)

    monkeypatch.setattr(engine, "choose", choose)
    served, url = serve(engine, races=races)
    try:
        page = visit(url)
        fill(page, max_new_tokens=10)
        for model in ("Other-1B", "Third-2B"):
            page.click("#field-model input")
            page.get_by_role("option", name=model).click()
            page.wait_for_selector(".badges li:first-child:has-text('Loading Other-1B')")
        page.click("#go")
        page.wait_for_selector("#stage-race [data-id=verdict]:has-text('before you')")
        loaded.set()
        page.wait_for_selector(".badges li:first-child:text-is('Third-2B')")
        finish(page)
        assert value_of(page, "model") == "Third-2B" and page.locator(".field-error").count() == 0
        race(page)
        assert engine.answers[-1].trace.model == "Third-2B" and page.problems == []
    finally:
        served.close()


@pytest.mark.all_cases
def test_what_was_let_go_is_said_where_the_page_still_shows_it(races: Path, visit: Visit) -> None:
    """Of so many tabs the runs are kept. *Again* waited without end, a conversation vanished without a word."""
    served, url = serve(FakeEngine(), races=races)
    try:
        page = visit(url)
        race(page, prompt="a race", max_new_tokens=12)
        tab(page, "Chat")
        page.fill("#field-chat-max_new_tokens input", "12")
        for number, text in enumerate(("first", "second")):
            page.fill("#field-chat-prompt textarea", text)
            page.click("#chat-go")
            appear(page, f"#stage-chat .stage[data-state=done] .turn:nth-child({number + 1})")
            appear(page, "#chat-go:enabled")
        served.state_holder.session_data.clear()
        page.click("#stage-chat [data-id=race]")
        page.wait_for_selector("#chat-ask .field-error:has-text('this is not kept any more')")
        appear(page, "#chat-go:enabled")
        page.fill("#field-chat-prompt textarea", "third")
        page.click("#chat-go")
        page.wait_for_selector("#chat-ask .field-error:has-text('The conversation before is not kept any more')")
        assert page.locator("#stage-chat .turn").count() == 1
        tab(page, "Race")
        for button in ("download", "again"):
            page.click(f"#stage-race [data-id={button}]")
            page.wait_for_selector("#ask .field-error:has-text('is not kept any more')")
        assert "waiting" not in page.inner_text("#stage-race [data-id=verdict]")
        race(page, prompt="another race")
        assert page.problems == []
    finally:
        served.close()


@pytest.mark.all_cases
def test_a_model_that_gets_no_turn_is_not_said_to_be_loading(visit: Visit, races: Path) -> None:
    """Where the queue was full the page said so, and for good that the other model was loading."""
    served, url = serve(
        FakeEngine(step_seconds=0.02, models=("Fake-135M", "Other-1B")), races=races, max_visitors=1, together=1
    )
    try:
        page, other = visit(url), visit(url)
        start(other, max_new_tokens=2000)
        page.click("#field-model input")
        page.get_by_role("option", name="Other-1B").click()
        page.wait_for_selector("#ask .field-error:has-text('1 other is waiting')")
        assert page.inner_text(".badges li:first-child") == "Fake-135M"
        other.click("#stop")
    finally:
        served.close()
