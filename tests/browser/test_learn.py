"""The Learn tab in a real browser: what its chapters say of the last race, and the tour that leads to it."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from browsing import appear, finish, race, start, tab
from fakes_engine import FakeEngine

from spectra.guess import Source
from spectra.metrics import summarize
from spectra.trace import StepTrace
from visual.run.race_file import RaceFile
from visual.serve import ASSETS

Visit = Callable[..., Any]
Fake = tuple[FakeEngine, str]


def test_the_tour_speaks_of_the_last_race_and_points_at_it(fake: Fake, page: Any) -> None:
    engine, _ = fake
    stage = tab(page, "Learn")
    assert "recorded race" in stage.locator(".lead").inner_text()
    page.get_by_role("tab", name="Race").click()
    race(page, max_new_tokens=100)
    stage = tab(page, "Learn")
    stage.locator(".lead:has-text('your last race')").wait_for()
    text = stage.inner_text().replace("\u00a0", " ")
    assert "1 token takes 21 ms, over 8 tokens 26 ms" in text and "1.24 times" in text
    steps = engine.answers[-1].trace.steps
    best = max(range(len(steps)), key=lambda i: (len(steps[i].path), -i))
    assert f"In step {best + 1}," in text and f"{len(steps[best].path)} guesses accepted" in text
    right, wrong = stage.locator(".sample").all()
    assert right.locator(".yes").count() == len(steps[best].path) and right.locator(".pick").count() == 1
    assert wrong.locator(".no").count() > 0 and wrong.locator(".yes").count() == 0
    stage.get_by_role("button", name="Show this step").first.click()
    appear(page, "#stage-race [data-id=inside].pointed")
    assert page.locator("#stage-race [data-id=step-at]").inner_text() == f"{best + 1} of {len(steps)}"
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.dataset.id") == "step-slider", "the keyboard goes on from there"
    page.mouse.click(5, 5)
    page.wait_for_function("!document.querySelector('.pointed')")


@pytest.mark.all_cases
def test_the_tour_waits_for_a_race_that_runs(fake: Fake, visit: Visit, monkeypatch: pytest.MonkeyPatch) -> None:
    """It told to run one first, and went on doing so when the race was over."""
    monkeypatch.setattr(fake[0], "step_seconds", 0.02)
    page = visit(fake[1])
    start(page, max_new_tokens=250)
    lead = tab(page, "Learn").locator(".lead")
    assert lead.inner_text().endswith("from the race in the Race tab as soon as it is over.")
    finish(page)
    page.wait_for_selector("#stage-learn .lead:has-text('your last race')")
    assert page.problems == []


def test_what_if_has_the_race_as_a_point_and_says_where_it_stops_paying(fake: Fake, page: Any) -> None:
    engine = fake[0]
    race(page, max_new_tokens=100)
    plain, method = (summarize(answer.trace.steps) for answer in engine.answers[-2:])
    steps = engine.answers[-1].trace.steps
    stage = tab(page, "Learn")
    drawn = "document.querySelector('.what-if .plot').calcdata"
    page.wait_for_function(f"{drawn}?.length === 4")
    x, y = page.evaluate(f"[{drawn}[3][0].x, {drawn}[3][0].y]")
    guesses = sum(sum(step.tree.eligible) - 1 for step in steps) / len(steps)
    assert (x, y) == (pytest.approx(guesses), pytest.approx(method.micro / plain.micro))
    tried = [step for step in steps if sum(step.tree.eligible) > 1]
    held = sum(bool(step.path) for step in tried) / len(tried)
    sliders = stage.locator(".what-if input")
    assert stage.locator(".what-if span", has_text="The sliders begin with the race").is_visible()
    assert float(sliders.first.input_value()) == pytest.approx(held, abs=0.006)
    whole = "It pays up to 32, as far as the curve goes."
    for value, said in (("0", "It does not pay"), ("0.3", "It stops paying at"), ("1", whole)):
        sliders.first.fill(value)
        stage.locator(f".what-if .verdict:has-text('{said}')").wait_for()
    cost = dict(engine.cost)
    sliders.nth(0).fill("0.5")
    sliders.nth(1).fill("3")
    faster = (1 + 0.5 + 0.25 + 0.125) / (cost[4] / cost[1])
    stage.locator(f".what-if .verdict:has-text('3 guesses a pass: {faster:.2f} times')").wait_for()
    sliders.nth(2).fill("0")
    stage.locator(".what-if .verdict:has-text('3 guesses a pass: 1.88 times')").wait_for()
    text = stage.inner_text().replace("\u00a0", " ")
    for source, name in (("forward", "The forward dictionary"), ("retrieval", "Here the datastores")):
        share = f"{method.of_guessed[source] * 100 + 1e-9:.0f} % were accepted."
        assert f"{name} guessed {method.guessed[source]} tokens, of which {share}" in text
    pool = sum(Source.POOL in sources for step in steps for sources in step.tree.sources)
    assert f"the pool had {pool} token" in text and page.problems == []


@pytest.mark.parametrize("width", [1300, 390])
def test_bars_are_as_long_as_what_they_stand_for(fake: Fake, page: Any, width: int) -> None:
    """The longest ones were cut to make room for their figures, and the others were not."""
    page.set_viewport_size({"width": width, "height": 844})
    chapter = tab(page, "Learn").locator(".chapters li").first
    lengths = chapter.locator(".costs i").evaluate_all("(all) => all.map((bar) => bar.getBoundingClientRect().width)")
    seconds = [seconds for _, seconds in fake[0].cost]
    longest = max(lengths)
    assert longest > 60
    assert lengths == pytest.approx([longest * each / max(seconds) for each in seconds], abs=0.1)
    past = "(all) => all.filter((row) => row.scrollWidth > row.clientWidth).length"
    assert chapter.locator(".costs dd").evaluate_all(past) == 0


def test_chapters_on_trees_show_the_last_race_or_a_recorded_one(fake: Fake, page: Any) -> None:
    engine = fake[0]
    race(page, max_new_tokens=100)
    stage = tab(page, "Learn")
    steps = engine.answers[-1].trace.steps

    def siblings(step: StepTrace) -> list[int]:
        return [
            sum(parent == node and may for parent, may in zip(step.tree.parents, step.tree.eligible, strict=True))
            for node in (0, *step.path)
        ]

    branched = [i for i, step in enumerate(steps) if step.path and max(siblings(step)) > 1]
    fits = [i for i in branched if len(steps[i].path) <= 3] or branched
    chosen = max(fits, key=lambda i: (len(steps[i].path), -i))
    chapter = stage.locator(".chapters li", has_text="Trees, and draws")
    assert f"Step {chosen + 1} of your last race" in chapter.inner_text()
    assert chapter.locator(".node.yes").count() == len(steps[chosen].path)
    assert chapter.locator(".node.no").count() == sum(siblings(steps[chosen])) - len(steps[chosen].path)
    boxes = stage.locator(".chapters > li, .what-if")
    long = "(all) => all.filter((box) => box.offsetHeight > innerHeight).map((box) => box.textContent)"
    assert boxes.count() == 14 and boxes.evaluate_all(long) == [], "longer than a screen"
    page.set_viewport_size({"width": 390, "height": 844})
    chapters = stage.locator(".chapters > li")
    assert chapters.evaluate_all(long) == [], "longer than a phone's"
    page.set_viewport_size({"width": 1300, "height": 900})
    past = "(all) => all.filter((tree) => tree.scrollWidth > tree.clientWidth).length"
    assert stage.locator(".chapters .tree").evaluate_all(past) == 0
    hub = stage.locator(".chapters li", has_text="SpecHub: a pair")
    assert "a recorded race by SpecHub" in hub.inner_text()
    taken = [0, 0, 0]
    for step in RaceFile.read(ASSETS / "learn" / "two-drafts.json").method.steps:
        for node in (0, *step.path):
            drafts = [child for child, parent in enumerate(step.tree.parents) if child and parent == node]
            place = next((at for at, child in enumerate(drafts) if child in step.path), None)
            taken[2 if place is None else min(place, 1)] += bool(drafts)
    assert hub.locator("dd span").all_inner_texts() == [str(number) for number in taken] and min(taken) > 0
    assert page.problems == []


def test_chapters_on_sampling_and_half_precision_have_measured_figures(fake: Fake, page: Any) -> None:
    engine = fake[0]
    race(page, max_new_tokens=60, temperature=1)
    stage = tab(page, "Learn")
    steps = engine.answers[-1].trace.steps
    guesses = sum(sum(step.tree.eligible) - 1 for step in steps)
    accepted = sum(len(step.path) for step in steps)
    noise = stage.locator(".chapters li", has_text="Drafts that know the noise").inner_text()
    assert f"at temperature 1: {summarize(steps).tau:.2f} tokens a pass" in noise
    assert f"{100 * accepted / guesses + 1e-9:.0f} % of {guesses} guesses were accepted" in noise
    recorded = json.loads((ASSETS / "learn" / "half-precision.json").read_text(encoding="utf-8"))
    chapter = stage.locator(".chapters li", has_text="What half precision does")
    cells = [row.locator("td").all_inner_texts() for row in chapter.locator("tr").all()[1:]]
    pairs = [recorded[who][way] for who in ("stock", "exact") for way in ("alone", "wide")]
    assert cells == [[f"{logit:.4f}" for logit in pair] for pair in pairs]
    assert cells[2] == cells[3] and chapter.locator("tr").nth(1).locator("td.most").count() == 1
    assert f"They write the same {recorded['index']} tokens" in chapter.inner_text() and page.problems == []
