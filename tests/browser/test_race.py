"""The Race tab in a real browser: a scripted engine for speed, and one race of the embedded model."""

import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from browsing import (
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
    serve,
    start,
)
from fakes_engine import FakeEngine

from spectra.metrics import judge, summarize
from visual import palette
from visual.examples import EXAMPLES
from visual.run.race_file import RaceFile


def test_a_race_shows_what_the_trace_holds(fake: tuple[FakeEngine, str], visit: Callable[..., Any]) -> None:
    engine, url = fake
    page = visit(url)
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
    fake: tuple[FakeEngine, str], visit: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, url = fake
    page = visit(url)
    why = page.locator("#stage-race [data-id=why]")
    assert why.is_hidden()  # the recorded race was fast
    monkeypatch.setattr(engine, "guessing_seconds", 0.08)
    race(page, max_new_tokens=80)
    plain, method = (summarize(download(page)[lane].steps) for lane in ("plain", "method"))
    longer = (method.seconds - 0.18) / method.passes / 0.024
    assert method.micro / plain.micro < 1.1
    said = f"A pass gave {method.tau:.2f} tokens, but took {longer:.2f} times as long as a plain one"
    assert why.inner_text() == f"{said}: wide passes are dear on this device."
    monkeypatch.undo()
    race(page, max_new_tokens=80)
    assert why.is_hidden() and page.problems == []


def test_markup_of_a_model_is_text(fake: tuple[FakeEngine, str], visit: Callable[..., Any]) -> None:
    page = visit(fake[1])
    page.on("dialog", lambda dialog: page.problems.append("a dialog opened"))
    race(page, max_new_tokens=200, prompt="${alert(1)} {{constructor}} <img src=x onerror=window.hacked=3>")
    text = page.locator("[data-id=text-method]").evaluate("(box) => box.textContent")
    assert "<script>window.hacked = 1</script> ${alert(1)} {{constructor}}" in text
    assert page.evaluate("window.hacked") is None
    assert page.locator("[data-id=text-method] :is(script, img)").count() == 0
    assert page.problems == []


def test_stop_ends_a_race_half_way(fake: tuple[FakeEngine, str], visit: Callable[..., Any]) -> None:
    engine, url = fake
    page = visit(url)
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
    assert page.locator("[data-id=plot-growth]").is_visible() and page.locator("[data-id=plot-gain]").is_hidden()
    assert page.locator("#stage-race .key").is_hidden()
    appear(page, "#go:enabled")
    appear(page, "#stop:disabled")
    written = sum(tokens for tokens, _ in answer.trace.pieces)
    assert page.evaluate(SOURCES, "plain") == list(answer.trace.sources[:written])
    race(page, max_new_tokens=40)
    assert page.locator("[data-id=badge]").inner_text() == "Identical output"
    assert page.locator("[data-id=plot-gain]").is_visible() and page.locator("#stage-race .key").is_visible()


def test_a_second_visitor_waits_for_the_first(fake: tuple[FakeEngine, str], visit: Callable[..., Any]) -> None:
    engine, url = fake
    first, second = visit(url), visit(url)
    before = len(engine.answers)
    fill(second, max_new_tokens=20)
    start(first, max_new_tokens=700)
    second.click("#go")
    second.wait_for_selector("[data-id=verdict]:has-text('1 visitor before you')")
    finish(first)
    second.wait_for_function(f"{STAGE}.state === 'done'")
    assert [answer.trace.method for answer in engine.answers[before:]] == ["autoregressive", "spectra"] * 2
    assert [answer.limit for answer in engine.answers[before:]] == [700, 700, 20, 20]
    assert second.evaluate(SOURCES, "plain") == list(engine.answers[-2].trace.sources)


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
def test_bad_input_is_one_line_at_its_field(fake: tuple[FakeEngine, str], visit: Callable[..., Any]) -> None:
    page = visit(fake[1])
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


@pytest.mark.all_cases
def test_legend_buttons_toggle_a_colour(fake: tuple[FakeEngine, str], visit: Callable[..., Any]) -> None:
    page = visit(fake[1])
    race(page, max_new_tokens=120)
    tint = "getComputedStyle(document.querySelector('[data-id=text-method] .t.retrieval')).backgroundColor"
    before = page.evaluate(tint)
    page.click(".chip.retrieval")
    assert page.locator(".chip.retrieval").get_attribute("aria-pressed") == "false"
    assert page.evaluate(tint) != before
    page.click(".chip.retrieval")
    assert page.evaluate(tint) == before


def test_acceptance_is_drawn_by_source_and_of_which_guesses_can_be_chosen(
    fake: tuple[FakeEngine, str], visit: Callable[..., Any]
) -> None:
    page = visit(fake[1])
    race(page, max_new_tokens=300)
    steps = download(page)["method"].steps
    drawn = "document.querySelector('[data-id=plot-acceptance]').calcdata"
    last = f"{drawn}.map((line) => line.filter((point) => point.y !== undefined).at(-1).y)"
    figures = summarize(steps)
    for choice, place, shares, guesses in (
        ("guessed", 2, figures.of_guessed, figures.guessed),
        ("reached", 1, figures.acceptance, figures.offered),
    ):
        page.click(f"[data-id=accepted-of] [data-choice={choice}]")
        recent = [judge(step) for step in steps[-32:]]
        expected = []
        for source in [each for each in palette.LOOKS if each in figures.guessed]:
            rows = [judged[source] for judged in recent if source in judged]
            assert rows, "the script guesses by every source all the time"
            expected.append(sum(row.accepted for row in rows) / sum(row[place] for row in rows))
        close = "(want) => want.length === got.length && want.every((y, i) => Math.abs(y - got[i]) < 1e-9)"
        page.wait_for_function(f"(want) => {{ const got = {last}; return ({close})(want); }}", arg=expected)
        for source, share in shares.items():
            chip = page.locator(f".chip.{source}")
            assert chip.locator("small").inner_text() == f"{share * 100 + 1e-9:.0f} % accepted"
            assert f"of {guesses[source]:,} guesses" in chip.get_attribute("title")
    assert page.problems == []


def test_acceptance_is_drawn_while_the_method_writes_where_it_is_on_the_screen(
    fake: tuple[FakeEngine, str], visit: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, url = fake
    monkeypatch.setattr(engine, "step_seconds", 0.03)
    page = visit(url)
    start(page, max_new_tokens=120)
    page.wait_for_function(f"{STAGE}.phase === 'plain'")
    monkeypatch.setattr(engine, "step_seconds", 0.3)  # of the method's lane: several drawings long
    drawn = "document.querySelector('[data-id=plot-acceptance]').calcdata"
    page.evaluate(f"window.before = {drawn}")
    page.wait_for_function("document.querySelectorAll('[data-id=text-method] .step').length > 8")
    assert page.evaluate(f"window.before === {drawn}"), "drawn, though it is below the screen"
    plot = page.locator("[data-id=plot-acceptance]")
    assert plot.is_hidden(), "a chart of the race before"
    plot.evaluate("(box) => box.scrollIntoView()")
    page.wait_for_function(f"{STAGE}.state === 'running' && window.before !== {drawn} && {drawn}.length >= 3")
    plot.wait_for()
    page.click("#stop")
    finish(page)


def test_credit_is_shared_where_several_offered_a_token(
    fake: tuple[FakeEngine, str], visit: Callable[..., Any]
) -> None:
    page = visit(fake[1])
    race(page, max_new_tokens=200)
    steps = download(page)["method"].steps
    offers = [[list(step.tree.sources[node]) for node in step.path][: len(step.tokens)] for step in steps]
    shared = [at for at, tokens in enumerate(offers) if any(len(each) > 1 for each in tokens)]
    assert shared
    spans = page.locator("[data-id=text-method] .step:has(.shared)")
    assert [int(step) for step in spans.evaluate_all("(spans) => spans.map((span) => span.dataset.step)")] == shared
    first, every = Counter(), Counter()
    for tokens in offers:
        first.update(each[0] for each in tokens)
        every.update(source for each in tokens for source in each)
    for choice, counted in (("first", first), ("every", every)):
        page.click(f".legend [data-choice={choice}]")
        for source, total in every.items():
            chip = page.locator(f".chip.{source}")
            assert chip.locator("b").inner_text() == str(counted[source])
            more = f"+{total - counted[source]} shared" if total > counted[source] else ""
            assert chip.locator("em").inner_text() == more
    page.locator(f"[data-id=text-method] [data-step='{shared[0]}']").hover()
    others = [source for each in offers[shared[0]] for source in each[1:]]
    named = [
        f"{palette.LOOKS[source].name.lower()} {others.count(source)}" for source in palette.LOOKS if source in others
    ]
    assert page.locator("[data-id=tip] .also").inner_text() == "also offered by: " + " and ".join(named)
    assert page.problems == []


def test_a_step_is_linked_in_text_chart_and_tree(fake: tuple[FakeEngine, str], visit: Callable[..., Any]) -> None:
    page = visit(fake[1])
    race(page, max_new_tokens=120)
    steps = download(page)["method"].steps
    chosen = max(range(len(steps)), key=lambda i: (len(steps[i].path), -i))
    page.locator("[data-id=step-slider]").fill(str(chosen + 1))
    assert page.locator("[data-id=step-at]").inner_text() == f"{chosen + 1} of {len(steps)}"
    assert page.locator("[data-id=tree] .node.yes").count() == len(steps[chosen].path)
    pool = sum(not eligible for eligible in steps[chosen].tree.eligible)
    rejected = len(steps[chosen].tree) - 1 - len(steps[chosen].path) - pool
    assert page.locator("[data-id=tree] .node.no").count() == rejected
    held = steps[chosen].held
    reasons = page.locator("[data-id=reasons]").inner_text()
    assert f"{held['forward']:,} in the forward dictionary and {held['backward']:,} in the backward" in reasons
    kept = steps[chosen].offered - 3  # the script offers three more than it guesses
    assert f"offered {kept + 3} tokens, merged into one tree; the {kept} likeliest to pay were kept." in reasons
    span = page.locator(f"[data-id=text-method] [data-step='{chosen}']")
    assert "chosen" in span.get_attribute("class")
    appear(page, "[data-id=plot-gain] .band")
    first = page.locator("[data-id=text-method] [data-step='2']")
    first.hover()
    assert "lit" in first.get_attribute("class")
    assert page.locator("[data-id=tip] b").inner_text().startswith("Step 3")
    assert page.locator(".band").is_visible()
    page.locator("[data-id=plot-gain] .nsewdrag").hover(position={"x": 120, "y": 90})
    appear(page, ".step.lit")
    page.locator(".top").hover()
    page.wait_for_function("!document.querySelector('.step.lit')")
    first.click()
    assert page.locator("[data-id=step-at]").inner_text() == f"3 of {len(steps)}"


@pytest.mark.all_cases
def test_the_mask_opens_what_the_tree_lets_each_token_read(
    fake: tuple[FakeEngine, str], visit: Callable[..., Any]
) -> None:
    page = visit(fake[1])
    race(page, max_new_tokens=120)
    steps = download(page)["method"].steps
    chosen = max(range(len(steps)), key=lambda i: len(steps[i].tree))
    tree = steps[chosen].tree
    depth = [0] * len(tree)
    for node in range(1, len(tree)):
        depth[node] = depth[tree.parents[node]] + 1
    page.locator("[data-id=step-slider]").fill(str(chosen + 1))
    assert page.locator(".sees svg").count() == 0
    page.click("[data-id=mask] summary")
    appear(page, ".sees svg")
    rows = page.locator(".sees .row").evaluate_all("(rows) => rows.map((row) => row.querySelectorAll('.open').length)")
    assert rows == [2 + each for each in depth]  # itself, those above it and the text before
    assert page.locator(".sees .row.yes").count() == 1 + len(steps[chosen].path)
    page.locator("[data-id=step-slider]").fill("1")
    assert page.locator(".sees .row").count() == len(steps[0].tree)


@pytest.mark.all_cases
def test_both_answers_replay_on_one_clock(fake: tuple[FakeEngine, str], visit: Callable[..., Any]) -> None:
    page = visit(fake[1], motion="no-preference")
    race(page, max_new_tokens=40)
    appear(page, "[data-id=play]:not([hidden])")
    page.click("[data-id=play]")
    ahead = "document.querySelectorAll('[data-id=text-{}] .ahead').length"
    page.wait_for_function(f"{ahead.format('method')} === 0 && {ahead.format('plain')} > 0")
    page.wait_for_function(f"{ahead.format('plain')} === 0")
    assert page.locator("[data-id=play]").inner_text() == "Play both"


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
    page.wait_for_function("window.Plotly")
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
