"""The Race tab in a real browser: a scripted engine for speed, and one race of the embedded model."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from browsing import (
    AS_WIDE,
    SOURCES,
    STAGE,
    appear,
    assert_charts_show,
    assert_page_shows,
    busy_ms,
    download,
    fill,
    finish,
    race,
    see_charts,
    serve,
    start,
    tab,
)
from fakes_engine import FakeAnswer, FakeEngine

from spectra.metrics import summarize
from visual.examples import EXAMPLES
from visual.run.race_file import RaceFile


def test_a_race_shows_what_the_trace_holds(fake: tuple[FakeEngine, str], page: Any) -> None:
    engine = fake[0]
    race(page, max_new_tokens=200)
    assert download(page).keys() == {"plain", "method"}
    traces = download(page)
    assert traces["method"].tokens == engine.answers[-1].trace.tokens
    assert_page_shows(page, traces)
    assert page.locator("[data-id=badge]").inner_text() == "Identical output"
    plain, method = (summarize(traces[lane].steps) for lane in ("plain", "method"))
    assert_charts_show(page, plain.tokens, method.tokens)
    assert page.locator("[data-id=speedup]").inner_text() == f"{method.micro / plain.micro:.2f}×"
    assert f"{method.tau:.2f} tokens per forward pass" in page.locator("[data-id=more]").inner_text()
    assert page.outside == [] and page.problems == []


def test_a_finished_recording_greets_a_visitor(
    fake: tuple[FakeEngine, str], visit: Callable[..., Any], races: Path
) -> None:
    engine, url = fake
    before = len(engine.answers)
    page = visit(url, motion="no-preference")
    assert page.evaluate(f"{STAGE}.state") == "done"
    recorded = RaceFile.read(races / "first.json")
    assert_page_shows(page, {"plain": recorded.plain, "method": recorded.method})
    note = page.locator("[data-id=recorded]").inner_text()
    assert "recording" in note and recorded.method.model in note and recorded.recorded in note
    assert "in this recording" in page.locator("[data-id=verdict]").inner_text()
    page.click("[data-id=play]")
    appear(page, "[data-id=text-plain] .ahead")
    assert len(engine.answers) == before
    page.click("#go")
    page.wait_for_selector("[data-id=recorded]", state="hidden")  # a short race may be over before it is seen to run
    finish(page)
    assert engine.answers[-1].trace.prompt == EXAMPLES[0].prompt == recorded.plain.prompt


def test_a_race_that_gained_little_says_why(
    fake: tuple[FakeEngine, str], page: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = fake[0]
    why = page.locator("#stage-race [data-id=why]")
    assert why.is_hidden()  # the race before was fast
    monkeypatch.setattr(engine, "guessing_seconds", 0.08)
    race(page, max_new_tokens=80)
    plain, method = (summarize(download(page)[lane].steps) for lane in ("plain", "method"))
    longer = (method.seconds - 0.18) / method.passes / 0.024
    assert method.micro / plain.micro < 1.1
    said = f"A pass gave {method.tau:.2f} tokens, but took {longer:.2f} times as long as a plain one"
    assert why.inner_text() == f"{said}: wide passes are slow on this device."
    monkeypatch.undo()
    race(page, max_new_tokens=80)
    assert why.is_hidden() and page.problems == []


def test_markup_of_a_model_is_text(page: Any) -> None:
    page.on("dialog", lambda dialog: page.problems.append("a dialog opened"))
    race(page, max_new_tokens=200, prompt="${alert(1)} {{constructor}} <img src=x onerror=window.hacked=3>")
    text = page.locator("[data-id=text-method]").evaluate("(box) => box.textContent")
    assert "<script>window.hacked = 1</script> ${alert(1)} {{constructor}}" in text
    assert page.evaluate("window.hacked") is None
    assert page.locator("[data-id=text-method] :is(script, img)").count() == 0
    assert page.problems == []


def test_two_clicks_of_a_script_start_one_race(page: Any) -> None:
    """gradio learns of the first click after the second, and started a run for each."""
    fill(page, max_new_tokens=10)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if "queue/join" in request.url else None)
    before = page.evaluate(f"{STAGE}.run ?? ''")
    page.evaluate("() => { const go = document.querySelector('#go'); go.click(); go.click(); }")
    page.wait_for_function(f"(before) => {STAGE}.run !== before && {STAGE}.state === 'done'", arg=before)
    appear(page, "#go:enabled")
    assert len(asked) == 1
    race(page, max_new_tokens=10)


@pytest.mark.usefixtures("slow")
def test_stop_ends_a_race_half_way(fake: tuple[FakeEngine, str], page: Any) -> None:
    engine = fake[0]
    start(page, max_new_tokens=1500)
    page.wait_for_function("document.querySelectorAll('[data-id=text-plain] .t').length > 40")
    appear(page, "#go:disabled")
    page.click("#stop")
    finish(page)
    answer = engine.answers[-1]
    assert answer.closed and 0 < len(answer.trace.tokens) < 1500
    before = len(answer.trace.steps)
    time.sleep(0.1)
    assert len(answer.trace.steps) == before
    assert page.locator("#stage-race .big").inner_text().split("\n")[0] == "Stopped"
    assert "had not begun" in page.locator("[data-id=verdict]").inner_text()
    see_charts(page)
    assert page.locator("[data-id=plot-growth]").is_visible() and page.locator("[data-id=plot-gain]").is_hidden()
    page.wait_for_function(AS_WIDE, arg="growth")
    assert page.locator("#stage-race .key").is_hidden()
    appear(page, "#go:enabled")
    appear(page, "#stop:disabled")
    written = sum(tokens for tokens, _ in answer.trace.pieces)
    assert page.evaluate(SOURCES, "plain") == list(answer.trace.sources[:written])
    race(page, max_new_tokens=40)
    assert page.locator("[data-id=badge]").inner_text() == "Identical output"
    see_charts(page)
    assert page.locator("[data-id=plot-gain]").is_visible() and page.locator("#stage-race .key").is_visible()


def test_a_second_visitor_waits_for_the_first(
    fake: tuple[FakeEngine, str], visit: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, url = fake
    monkeypatch.setattr(engine, "step_seconds", 0.02)  # the first lane takes eight seconds
    first, second = visit(url), visit(url)
    before = len(engine.answers)
    fill(second, max_new_tokens=20)
    start(first, max_new_tokens=400)
    second.click("#go")
    second.wait_for_selector("[data-id=verdict]:has-text('1 visitor before you')")
    monkeypatch.setattr(engine, "step_seconds", 0.002)
    finish(first)
    second.wait_for_function(f"{STAGE}.state === 'done'")
    assert [answer.trace.method for answer in engine.answers[before:]] == ["autoregressive", "spectra"] * 2
    assert [answer.limit for answer in engine.answers[before:]] == [400, 400, 20, 20]
    assert second.evaluate(SOURCES, "plain") == list(engine.answers[-2].trace.sources)


@pytest.mark.usefixtures("slow")
def test_closing_the_page_ends_the_decoding(fake: tuple[FakeEngine, str], visit: Callable[..., Any]) -> None:
    engine, url = fake
    page = visit(url)
    start(page, max_new_tokens=2000)
    page.wait_for_function("document.querySelectorAll('[data-id=text-plain] .t').length > 10")
    page.close()
    answer = engine.answers[-1]
    for _ in range(100):
        if answer.closed:
            break
        time.sleep(0.1)
    assert answer.closed and len(answer.trace.tokens) < 2000
    for thread in answer.threads:
        thread.join(10)
    assert not [thread for thread in answer.threads if thread.is_alive()]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_bad_input_is_one_line_at_its_field(page: Any) -> None:
    good = {"prompt": "hi", "max_new_tokens": 16, "temperature": 0, "seed": 1}
    for field, value, text in (
        ("prompt", "   ", "it is empty"),
        ("max_new_tokens", "0", "out of range"),
        ("max_new_tokens", "", "it is empty; give a number"),
        ("temperature", "3", "from 0 to 2"),
        ("seed", "-4", "out of range"),
        ("prompt", "refuse", "9000 tokens do not fit"),
        ("prompt", "break", "ended early (RuntimeError)"),
    ):
        fill(page, **{**good, field: value})
        page.click("#go")
        place = "#ask > .field-error" if value == "break" else f"#field-{field} .field-error"
        note = page.wait_for_selector(f"{place}:has-text('{text}')").inner_text()
        assert "Traceback" not in note and "secret" not in note
        appear(page, "#go:enabled")
        page.click("#go")
        page.wait_for_selector(f"{place}:has-text('{text}')")
        appear(page, "#go:enabled")
    assert page.locator(".toast-body").count() == 0
    race(page, **good)
    assert page.locator(".field-error").count() == 0
    assert page.locator("[data-id=badge]").inner_text() == "Identical output"


def test_the_enter_that_ends_a_composed_word_starts_nothing(page: Any) -> None:
    """The page said that it waited for the model, though no race was asked for."""
    verdict = page.locator("#stage-race [data-id=verdict]").inner_text()
    page.locator("#field-prompt textarea").evaluate(
        "(box) => box.dispatchEvent(new KeyboardEvent('keydown', {key: 'Enter', isComposing: true, bubbles: true}))"
    )
    assert page.locator("#stage-race [data-id=verdict]").inner_text() == verdict


@pytest.mark.all_cases
def test_legend_buttons_toggle_a_colour(page: Any) -> None:
    race(page, max_new_tokens=120)
    tint = "getComputedStyle(document.querySelector('[data-id=text-method] .t.source-retrieval')).backgroundColor"
    before = page.evaluate(tint)
    page.click(".chip.source-retrieval")
    assert page.locator(".chip.source-retrieval").get_attribute("aria-pressed") == "false"
    assert page.evaluate(tint) != before
    page.click(".chip.source-retrieval")
    assert page.evaluate(tint) == before


@pytest.mark.all_cases
def test_a_missed_message_is_asked_for_again(fake: tuple[FakeEngine, str], visit: Callable[..., Any]) -> None:
    engine, url = fake
    page = visit(url)
    page.evaluate(
        """async () => { const { shared } = await import(new URL('spectra/js/race/shared.js', document.baseURI).href);
        const race = shared.race; const take = race.take.bind(race); let seen = 0;
        race.take = (m) => (m.kind === 'delta' && ++seen === 2 ? undefined : take(m)); }"""
    )
    race(page, max_new_tokens=250)
    assert page.evaluate(SOURCES, "plain") == list(engine.answers[-2].trace.sources)
    assert page.evaluate(SOURCES, "method") == list(engine.answers[-1].trace.sources)


@pytest.mark.all_cases
def test_a_thousand_tokens_never_hold_the_browser(
    fake: tuple[FakeEngine, str], visit: Callable[..., Any], browser: Any
) -> None:
    page = visit(fake[1], motion="no-preference")
    see_charts(page)
    browser.start_tracing(page=page, categories=["toplevel", "__metadata"])
    race(page, max_new_tokens=1024)
    tasks = busy_ms(browser.stop_tracing())
    print(f"main thread: {sum(tasks) / 1000:.2f} s in all, longest tasks {[round(ms) for ms in tasks[-5:]]} ms")
    assert len(tasks) > 100
    assert tasks[-1] < 200


STOP_EARLY = """(count) => {
    const { dataset } = document.querySelector('#stage-race .stage');
    const before = dataset.run;
    const look = setInterval(() => {
        const written = document.querySelectorAll('[data-id=text-plain] .t').length;
        if (dataset.run === before || dataset.state !== 'running' || written <= count) return;
        clearInterval(look);
        document.querySelector('#stop').click();
    }, 5);
}"""


@pytest.mark.real
def test_the_embedded_model_races(visit: Callable[..., Any]) -> None:
    from spectra.service.engine import Engine as RealEngine

    served, url = serve(RealEngine.load())
    try:
        page = visit(url)
        page.set_default_timeout(60_000)
        race(page, prompt="Count from one to twenty in words.", max_new_tokens=48)
        traces = download(page)
        assert len(traces["plain"].tokens) <= 48
        assert_page_shows(page, traces)
        assert page.locator("[data-id=badge]").inner_text() == "Identical output"
        page.evaluate(STOP_EARLY, 4)
        start(page, prompt="Write a long story about an island, its people and their boats.", max_new_tokens=512)
        finish(page)
        assert 4 < len(page.evaluate(SOURCES, "plain")) < 512
        assert "Stopped" in page.locator("#stage-race .big").inner_text()
        assert page.outside == [] and page.problems == []
    finally:
        served.close()


def test_a_race_of_one_token_claims_no_speedup(page: Any) -> None:
    race(page, max_new_tokens=1)
    said = {
        name: page.locator(f"#stage-race [data-id={name}]").inner_text() for name in ("speedup", "verdict", "badge")
    }
    assert said == {
        "speedup": "Too short",
        "verdict": "1 token: too little was decoded to compare",
        "badge": "Identical output",
    }
    assert page.locator("#stage-race [data-id=more]").inner_text().startswith(", one token.")
    see_charts(page)
    notes = "document.querySelector('[data-id=plot-growth]').layout?.annotations?.map(({text}) => text).join()"
    page.wait_for_function(f"{notes} === '<b>SPECTRA</b>,Plain'")
    assert page.problems == []


def test_an_answer_for_which_nothing_was_guessed_says_so(page: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeAnswer, "_grow", lambda *_: None)
    race(page, max_new_tokens=20)
    offered = sum(step.offered or 0 for step in download(page)["method"].steps)
    see_charts(page)
    notes = "document.querySelector('[data-id=plot-acceptance]').layout?.annotations?.[0]?.text"
    page.wait_for_function(f"{notes} === 'None of {offered} offered tokens was tried'")
    assert page.locator("#stage-race .chip:visible").count() == 1, "the model itself"
    assert "NaN" not in page.inner_text("#stage-race") and "0 %" not in page.inner_text("#stage-race .legend")
    tab(page, "Compare")
    fill(page, **{"compare-max_new_tokens": 10})
    page.click("#compare-go")
    appear(page, "#stage-compare .stage[data-state=done]")
    cells = page.locator("#stage-compare tbody td:nth-child(7)").all_inner_texts()
    assert cells == ["–", *["none tried"] * (len(cells) - 1)] and page.problems == []
