"""Charts, step panel and replay of a race in a real browser: acceptance by source, links of text, chart and tree."""

import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import fakes_engine
import pytest
from browsing import (
    STAGE,
    appear,
    download,
    finish,
    race,
    see_charts,
    start,
)
from fakes_engine import FakeAnswer, FakeEngine

from spectra.guess import Source
from spectra.metrics import judge, summarize
from spectra.tree import TokenTree
from visual import palette


def test_acceptance_is_drawn_by_source_and_of_which_guesses_can_be_chosen(page: Any) -> None:
    race(page, max_new_tokens=300)
    steps = download(page)["method"].steps
    see_charts(page)
    drawn = "document.querySelector('[data-id=plot-acceptance]').calcdata"
    last = f"{drawn}.map((line) => line.filter((point) => point.y !== undefined).at(-1).y)"
    figures = summarize(steps)
    for choice, place, shares, guesses in (
        ("reached", 1, figures.acceptance, figures.offered),
        ("guessed", 2, figures.of_guessed, figures.guessed),
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
            chip = page.locator(f".chip.source-{source}")
            assert chip.locator("small").inner_text() == f"{share * 100 + 1e-9:.0f} % accepted"
            assert f"of {guesses[source]:,} guesses" in chip.get_attribute("title")
    assert page.problems == []


def test_a_source_of_which_nothing_was_judged_keeps_its_chip(page: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def grow(_: FakeAnswer, tree: TokenTree, ids: list[int], __: object) -> None:
        wrong = next(token for token in ids if token != ids[0])
        tree.add(tree.add(0, wrong, Source.BACKWARD), ids[1], Source.RETRIEVAL)

    monkeypatch.setattr(FakeAnswer, "_grow", grow)
    race(page, max_new_tokens=40)
    figures = summarize(download(page)["method"].steps)
    assert not figures.offered.get(Source.RETRIEVAL) and figures.guessed[Source.RETRIEVAL] == 40
    chip = page.locator("#stage-race .chip.source-retrieval")
    for choice, share in (("reached", ""), ("guessed", "0 % accepted")):
        page.click(f"[data-id=accepted-of] [data-choice={choice}]")
        assert chip.is_visible() and chip.locator("small").inner_text() == share


def test_a_drafters_own_source_is_on_the_page_as_the_projects_are(page: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    own = Source("my-own")
    monkeypatch.setattr(fakes_engine, "SOURCES", (own, Source.BACKWARD, own, Source.POOL))
    race(page, max_new_tokens=300)
    steps = download(page)["method"].steps
    given = sum(source == own for step in steps for source in step.sources)
    chip = page.locator("#stage-race .chip.source-my-own")
    counted = chip.locator("b").inner_text()
    assert given and chip.inner_text().startswith("My own") and counted == str(given)
    assert chip.locator("small").inner_text() == f"{summarize(steps).of_guessed[own] * 100 + 1e-9:.0f} % accepted"
    bars = """() => document.querySelector('[data-id=plot-gain]').data.filter(({ type }) => type === 'bar')
      .reduce((sum, { y }) => sum + y.reduce((a, b) => a + b, 0), 0)"""
    see_charts(page)
    assert page.evaluate(bars) == sum(len(step.tokens) for step in steps)
    panel = page.locator("#stage-race [data-id=reasons]").inner_text()
    titles = page.locator("#stage-race [data-id=tree] title").evaluate_all("(all) => all.map((t) => t.textContent)")
    assert "my own" in panel and any(title.endswith("from My own") for title in titles)
    colour = "(text) => getComputedStyle(text).backgroundImage"
    text = page.locator("[data-id=text-method] .t.source-my-own").first
    assert text.evaluate(colour) != "none"
    chip.click()
    assert text.evaluate(colour) == "none" and page.problems == []


def start_with_a_slow_method(page: Any, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch, tokens: int) -> None:
    """Start a race whose method's lane takes several drawings long."""
    monkeypatch.setattr(engine, "before_step", lambda _: time.sleep(0.3 if engine.answers[-1].guesses else 0.005))
    start(page, max_new_tokens=tokens)
    page.wait_for_function("document.querySelector('[data-id=text-plain] .step')")


def test_acceptance_is_drawn_while_the_method_writes_where_it_is_on_the_screen(
    fake: tuple[FakeEngine, str], page: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = fake[0]
    drawn = "document.querySelector('[data-id=plot-acceptance]').calcdata"
    see_charts(page)
    page.wait_for_function(drawn)  # of the recorded race
    page.evaluate("scrollTo(0, 0)")
    start_with_a_slow_method(page, engine, monkeypatch, 120)
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


@pytest.mark.all_cases
def test_what_a_visitor_asks_of_a_chart_is_drawn_while_the_race_runs(
    fake: tuple[FakeEngine, str], page: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The charts follow a measured lane every 1.5 seconds at most; a click does not wait for that."""
    engine = fake[0]
    start_with_a_slow_method(page, engine, monkeypatch, 200)
    page.locator("[data-id=plot-acceptance]").evaluate("(box) => box.scrollIntoView()")
    drawn = "document.querySelector('[data-id=plot-acceptance]').calcdata"
    page.wait_for_function("document.querySelectorAll('[data-id=text-method] .step').length > 2")
    waits = []
    for selector in (
        "[data-id=accepted-of] [data-choice=reached]",
        "[data-id=axis-passes]",
        "[data-id=accepted-of] [data-choice=guessed]",
    ):
        page.evaluate(f"window.before = {drawn}")
        page.wait_for_function(f"window.before !== {drawn}")  # a pause begins
        waits.append(
            page.evaluate(
                f"""async (selector) => {{ const before = {drawn}, begun = performance.now();
                document.querySelector(selector).click();
                while (before === {drawn}) await new Promise(requestAnimationFrame);
                return performance.now() - begun; }}""",
                selector,
            )
        )
    page.click("#stop")
    finish(page)
    assert min(waits) < 1000, waits


def test_credit_is_shared_where_several_offered_a_token(page: Any) -> None:
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
            chip = page.locator(f".chip.source-{source}")
            assert chip.locator("b").inner_text() == str(counted[source])
            more = f"+{total - counted[source]} shared" if total > counted[source] else ""
            assert chip.locator("em").inner_text() == more
    page.locator(f"[data-id=text-method] [data-step='{shared[0]}']").hover()
    others = [source for each in offers[shared[0]] for source in each[1:]]
    named = [
        f"{palette.LOOKS[source].name.lower()} {others.count(source)}" for source in palette.LOOKS if source in others
    ]
    assert page.locator("[data-id=tip] .also").inner_text() == "also offered by: " + " and ".join(named)
    page.click(".legend [data-choice=first]")
    assert page.problems == []


def test_a_step_is_linked_in_text_chart_and_tree(page: Any) -> None:
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
    offered = f"{kept + 3} tokens were offered, all in one tree; the {kept} likeliest to pay were kept, from "
    assert offered in reasons
    span = page.locator(f"[data-id=text-method] [data-step='{chosen}']")
    assert "chosen" in span.get_attribute("class")
    see_charts(page)
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
def test_the_mask_opens_what_the_tree_lets_each_token_read(page: Any) -> None:
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
