"""Settings of a method in a real browser: presets of the panel, refusals at the field, links, traces, the sweep."""

import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from browsing import READY, appear, download, fill, race, serve, tab, value_of
from fakes_engine import LIBRARY, SETTINGS, FakeEngine

Visit = Callable[..., Any]
Fake = tuple[FakeEngine, str]


def unfold(page: Any, root: str = "#ask") -> None:
    fold = f"{root} .method-settings button.label-wrap"
    if not page.locator(f"{fold}.open").count():
        page.click(fold)
    appear(page, f"{fold}.open")


def test_two_presets_fill_the_panel_and_changes_reach_trace_and_link(fake: Fake, visit: Visit) -> None:
    engine, url = fake
    page = visit(url)
    unfold(page)
    assert (value_of(page, "rows"), value_of(page, "guesses"), value_of(page, "nodes")) == ("2", "", "64")
    page.get_by_role("button", name="As in the paper").first.click()
    page.wait_for_function("document.querySelector('#field-rows input').value === '15'")
    assert value_of(page, "method") == "Paper: SPECTRA" and value_of(page, "guesses") == "15"
    page.locator("#field-successors").wait_for(state="hidden")
    fill(page, rows=3, order=4, max_new_tokens=40)
    page.uncheck("#field-retrieval input")
    race(page)
    trace = engine.answers[-1].trace
    changed = {"order": 4, "rows": 3, "retrieval": False}
    assert trace.method == "spectra-paper" and trace.settings["method"]["changed"] == changed
    assert engine.answers[-2].trace.settings["method"]["changed"] == {}
    assert download(page)["method"].settings["method"] == {"changed": changed, "values": SETTINGS}
    name = "Paper: SPECTRA (N 4, W 3, no retrieval)"
    assert page.locator("#stage-race [data-id=title]").inner_text() == name
    assert page.locator("#stage-race [data-id=text-method]").get_attribute("aria-label") == f"Answer of {name}"
    page.click("[data-id=link]")
    page.wait_for_function("location.search.includes('rows=3')")
    assert "order=4" in page.url and "retrieval=off" in page.url and "guesses" not in page.url
    other = visit(page.url)
    unfold(other)
    other.wait_for_function("document.querySelector('#field-rows input')?.value === '3'")
    assert not other.locator("#field-retrieval input").is_checked() and value_of(other, "order") == "4"
    assert other.locator("#left-out").count() == 0 or other.locator("#left-out").is_hidden()
    other.get_by_role("button", name="As fast as this device allows").first.click()
    other.wait_for_function("document.querySelector('#field-nodes input').value === '64'")
    assert value_of(other, "method") == "SPECTRA" and other.locator("#field-retrieval input").is_checked()
    differ = other.locator("#ask .differences")
    differ.locator("summary").click()
    rows = [row.split("\t") for row in differ.locator("tr").all_inner_texts()]
    assert rows[2][:3] == ["W", "15", "2"] and rows[3][:3] == ["G", "15", "as pays"]
    assert page.problems == [] and other.problems == []


def test_a_pool_is_what_its_box_says(fake: Fake, visit: Visit, monkeypatch: pytest.MonkeyPatch) -> None:
    engine, url = fake
    monkeypatch.setitem(engine.settings, "spectra", {**SETTINGS, "rows": 0, "pool": False})
    page = visit(url)
    unfold(page)
    page.wait_for_function("document.querySelector('#field-rows input').value === '0'")  # by what was patched
    for preset, rows in (("As in the paper", 15), ("As fast as this device allows", 0)):
        page.get_by_role("button", name=preset).first.click()
        page.wait_for_function(f"document.querySelector('#field-rows input').value === '{rows}'")
    box = page.locator("#field-pool input")
    assert not box.is_checked()
    fill(page, rows=3, max_new_tokens=10)
    page.wait_for_function("document.querySelector('#field-pool input').checked")
    race(page)
    assert engine.answers[-1].trace.settings["method"]["changed"] == {"rows": 3, "pool": True}
    box.uncheck()
    race(page)
    assert engine.answers[-1].trace.settings["method"]["changed"] == {"rows": 3, "pool": False}
    assert page.locator("#stage-race [data-id=title]").inner_text() == "SPECTRA (W 3, no pool)"
    box.check()
    fill(page, rows=0)
    page.wait_for_function("!document.querySelector('#field-pool input').checked")
    race(page)
    assert engine.answers[-1].trace.settings["method"]["changed"] == {} and page.problems == []


@pytest.mark.all_cases
def test_what_a_lent_gpu_decides_is_open_until_it_is_named(
    fake: Fake, visit: Visit, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, url = fake
    left_open = {**SETTINGS, "guesses": None, "rows": None, "successors": None}
    monkeypatch.setitem(engine.settings, "spectra", left_open)
    page = visit(url)
    unfold(page)
    page.wait_for_function("document.querySelector('#field-rows input').placeholder === 'as pays'")
    assert (
        value_of(page, "rows") == value_of(page, "successors") == "" and page.locator("#field-pool input").is_checked()
    )
    for rows, changed in ((3, {"rows": 3}), (0, {"rows": 0, "pool": False}), ("", {})):
        fill(page, rows=rows, max_new_tokens=10)
        page.wait_for_function(f"document.querySelector('#field-pool input').checked === {str(rows != 0).lower()}")
        race(page)
        assert engine.answers[-1].trace.settings["method"]["changed"] == changed
    tab(page, "Compare")
    page.click("#compare-ask .method-settings > button")
    page.locator("#compare-ask").get_by_role("button", name="As fast as this device allows").click()
    page.wait_for_function("document.querySelector('#field-compare-rows input').placeholder === 'as pays'")
    assert value_of(page, "compare-rows") == "" and page.locator("#field-compare-pool input").is_checked()
    assert page.problems == []


def hold_first_answers(page: Any, url: str) -> Callable[[], None]:
    """Open the page; what it asks for waits until the returned function is called."""
    held: list[Any] = []
    page.route("**/run/predict**", lambda route: held.append(route))
    page.goto(url)
    appear(page, READY)

    def let_go() -> None:
        assert held
        for route in held:
            with page.expect_response(route.request.url):
                route.continue_()
        page.unroute("**/run/predict**")

    return let_go


def test_what_is_changed_before_the_first_answers_of_the_page_come_stays(fake: Fake, visit: Visit) -> None:
    engine, url = fake
    page = visit(url)
    let_go = hold_first_answers(page, url)
    unfold(page)
    fill(page, rows=3, guesses=7)
    page.uncheck("#field-pool input")
    let_go()
    race(page, max_new_tokens=10)
    assert engine.answers[-1].trace.settings["method"]["changed"] == {"rows": 3, "guesses": 7, "pool": False}
    assert page.problems == []


@pytest.mark.all_cases
def test_what_is_changed_before_a_link_is_read_stays(fake: Fake, visit: Visit) -> None:
    engine, url = fake
    link = f"{url}?prompt=Count&method=spectra-paper&rows=5&order=3&temperature=0.5&seed=4&max_new_tokens=10"
    page = visit(url)
    let_go = hold_first_answers(page, link)
    unfold(page)
    fill(page, rows=3, temperature=0.8)
    let_go()
    page.wait_for_function("document.querySelector('#field-order input').value === '3'")
    assert value_of(page, "method") == "Paper: SPECTRA" and value_of(page, "prompt") == "Count"
    race(page)
    trace = engine.answers[-1].trace
    assert trace.method == "spectra-paper" and trace.settings["method"]["changed"] == {"rows": 3, "order": 3}
    assert (trace.settings["temperature"], trace.settings["seed"]) == (0.8, 4) and page.problems == []


@pytest.mark.all_cases
def test_settings_of_a_link_are_left_where_another_method_was_chosen_before_it_was_read(
    fake: Fake, visit: Visit
) -> None:
    engine, url = fake
    page = visit(url)
    let_go = hold_first_answers(page, f"{url}?method=spectra-core&rows=5&seed=4&max_new_tokens=10")
    page.click("#field-method input")
    page.get_by_role("option", name="Paper: SPECTRA", exact=True).click()
    let_go()
    page.wait_for_function("document.querySelector('#field-seed input').value === '4'")
    unfold(page)
    page.wait_for_function("document.querySelector('#field-guesses input').value === '15'")
    race(page)
    trace = engine.answers[-1].trace
    assert trace.method == "spectra-paper" and trace.settings["method"]["changed"] == {} and page.problems == []


@pytest.mark.all_cases
def test_a_number_that_the_others_decide_stays_empty(fake: Fake, visit: Visit) -> None:
    engine, url = fake
    page = visit(url)
    unfold(page)
    page.get_by_role("button", name="As in the paper").first.click()
    page.wait_for_function("document.querySelector('#field-rows input').value === '15'")
    assert value_of(page, "nodes") == ""
    assert page.locator("#field-nodes input").get_attribute("placeholder") == "none"
    race(page, rows=4, max_new_tokens=20)
    assert engine.answers[-1].trace.settings["method"]["changed"] == {"rows": 4}
    race(page, nodes=20)
    assert engine.answers[-1].trace.settings["method"]["changed"] == {"rows": 4, "nodes": 20}
    tab(page, "Compare")
    unfold(page, "#compare-ask")
    assert value_of(page, "compare-method") == "Paper: SPECTRA"
    assert (value_of(page, "compare-guesses"), value_of(page, "compare-nodes")) == ("15", "")


def test_bad_settings_are_refused_at_their_field(fake: Fake, page: Any) -> None:
    engine = fake[0]
    unfold(page)
    before = len(engine.answers)
    for name, bad, said in (("order", "1", "from 2 to 16"), ("refine", "1.5", "from 0 to 1"), ("rows", "2.5", "whole")):
        usual = value_of(page, name)
        page.locator(f"#field-{name} input").evaluate(
            "(box, bad) => { box.value = bad; box.dispatchEvent(new Event('input', {bubbles: true})); }", bad
        )
        page.click("#go")
        page.locator(f"#field-{name} .field-error:has-text('{said}')").wait_for()
        appear(page, "#ask .method-settings button.label-wrap.open")
        fill(page, **{name: usual})
    assert len(engine.answers) == before
    race(page, max_new_tokens=20)
    assert page.locator(".field-error").count() == 0 and page.problems == []


def test_a_link_with_bad_settings_says_what_it_left(fake: Fake, visit: Visit) -> None:
    page = visit(f"{fake[1]}?rows=999&pool=%3Cb%3E&method=%24%7Balert(1)%7D&max_tokens=5&seed=-1&order=4&order=6")
    note = page.locator("#left-out")
    note.wait_for()
    unfold(page)
    page.wait_for_function("document.querySelector('#field-order input')?.value === '6'")
    assert value_of(page, "rows") == "2" and page.locator("#field-pool input").is_checked()
    said = note.inner_text()
    assert "order: it is there 2 times, and the last one counts" in said
    assert "rows: 999 is out of range" in said and "pool: '<b>' is neither on nor off" in said
    assert (
        "'max_tokens': there is no such setting" in said
        and "seed: -1 is out of range; give a whole number from 0 to 9007199254740991" in said
    )
    assert "method: '${alert(1)}' is not offered here" in said and page.problems == []


def test_the_dictionaries_are_opened_where_they_were_recorded(fake: Fake, page: Any) -> None:
    engine = fake[0]
    race(page, max_new_tokens=30)
    assert page.locator("[data-id=dictionaries]").is_hidden()
    assert all(step.inside is None for step in download(page)["method"].steps)
    unfold(page)
    page.check("#field-explain input")
    race(page, max_new_tokens=30)
    traces = download(page)
    assert all(step.inside is None for step in traces["plain"].steps)
    steps, words = traces["method"].steps, traces["method"].vocabulary
    page.click("[data-id=dictionaries] summary")
    for number in (1, 4):
        page.locator("[data-id=step-slider]").fill(str(number))
        inside = steps[number - 1].inside
        assert inside is not None

        def shown(*tokens: int) -> list[str]:
            return [words[token].replace(" ", "·").replace("\n", "↵") for token in tokens]

        held = page.locator("[data-id=held]")
        runs = [item.locator("code").all_inner_texts() for item in held.locator(".source-forward li").all()]
        assert runs == [shown(*continuation) for continuation in inside.forward]
        chain = held.locator(".source-backward li").all_inner_texts()
        ends = zip(inside.backward, chain, strict=True)
        assert all(f"last {match} tokens" in said and shown(token)[0] in said for (match, token), said in ends)
        learned = held.locator(".learned li")
        assert learned.first.inner_text().startswith("Pool row 2, refined:")
        assert learned.first.locator("code").all_inner_texts() == shown(*inside.learned[0].tokens)
        assert learned.first.locator("small").inner_text() == "2 forward, 3 backward"
        text = held.locator(".learned p").inner_text()
        assert text.startswith("6 entries.") and "asked 1 row of 3 for a token" in text
        assert "same last 3 tokens, seen 66 times" in held.locator(".source-retrieval p").inner_text()
        cells = [row.locator("td").all_inner_texts() for row in held.locator("tr").all()[1:]]
        assert cells[0] == [*shown(inside.hits[0].token), "41", "smollm2-code", "7", "1.25"]
        assert cells[1][3:] == ["–", "–"]
    for number, step in enumerate(steps, 1):
        page.locator("[data-id=step-slider]").fill(str(number))
        last = words[step.tree.tokens[0]].replace(" ", "·").replace("\n", "↵")
        assert f"Held for “{last}”" in page.locator("[data-id=held] .source-forward p").inner_text()
        assert page.locator("[data-id=tree] .node.root text").text_content() == last
        given = {source for sources in step.tree.sources for source in sources}
        for source in ("forward", "backward", "retrieval"):
            said = page.locator(f"[data-id=held] .source-{source} p").inner_text()
            assert said.endswith("No guess of this step came from here.") == (source not in given)
    asked = len(engine.answers)
    page.click("[data-id=again]")
    while len(engine.answers) < asked + 2:
        page.wait_for_timeout(50)
    page.wait_for_function("document.querySelector('#stage-race .stage').dataset.state === 'done'")
    assert engine.answers[-1].explain and page.problems == []
    page.uncheck("#field-explain input")


def test_compare_sweeps_one_setting(fake: Fake, page: Any) -> None:
    engine, _ = fake
    page.get_by_role("tab", name="Compare").click()
    appear(page, "#stage-compare .stage[data-state]")
    for box in page.locator("#field-compare-methods input").all():
        box.uncheck()
    unfold(page, "#compare-ask")
    fill(page, **{"compare-max_new_tokens": 30, "compare-order": 4, "compare-values": "0, x"})
    page.click("#field-compare-sweep input")
    page.locator("#field-compare-sweep .item", has_text="W").first.click()
    page.click("#compare-go")
    page.locator("#field-compare-values .field-error:has-text('is not')").wait_for()
    fill(page, **{"compare-values": "0, 3, 15"})
    before = len(engine.answers)
    page.click("#compare-go")
    appear(page, "#stage-compare .stage[data-state=done]")
    ran = [answer.trace.settings["method"]["changed"] for answer in engine.answers[before:]]
    assert ran == [{}, *({"order": 4, "rows": rows} for rows in (0, 3, 15))]
    names = page.locator("#stage-compare tbody th").all_inner_texts()
    assert names == ["Plain decoding", *(f"Paper: SPECTRA (N 4, W {rows})" for rows in (0, 3, 15))]
    assert page.locator("#stage-compare [data-id=sweep-name]").inner_text() == "W"
    drawn = "document.querySelector('#stage-compare [data-id=sweep]').calcdata"
    page.wait_for_function(f"{drawn}?.length === 2 && {drawn}[0].length === 3")
    shown = page.evaluate(f"{drawn}[0].map((point) => point.s ?? point.y)")
    taus = page.locator("#stage-compare tbody tr td:nth-child(5)").all_inner_texts()
    assert [f"{tau:.2f}" for tau in shown] == taus[1:] and page.problems == []


def choose(page: Any, field: str, name: str) -> list[str]:
    """Open a list of Compare and take one, as soon as it is offered; returns what was offered with it."""
    page.click(f"#field-compare-{field} input")
    items = page.locator(f"#field-compare-{field} .item")
    wanted = items.filter(has_text=re.compile(rf"^\W*{re.escape(name)}\W*$"))
    wanted.wait_for()
    offered = [text.removeprefix("✓").strip() for text in items.all_inner_texts()]
    wanted.click()
    page.wait_for_function(
        "([field, name]) => document.querySelector(`#field-compare-${field} input`).value === name", arg=[field, name]
    )
    return offered


def test_compare_offers_to_sweep_what_the_method_has(page: Any) -> None:
    tab(page, "Compare")
    unfold(page, "#compare-ask")
    numbers = ["no setting", "N", "W", "G", "Refine", "Node budget"]
    assert choose(page, "sweep", "W") == numbers
    choose(page, "method", "SPECTRA")
    appear(page, "#field-compare-successors")
    assert value_of(page, "compare-sweep") == "W" and choose(page, "sweep", "Top-k") == [*numbers, "Top-k"]
    page.locator("#compare-ask").get_by_role("button", name="As in the paper").click()
    page.wait_for_function("document.querySelector('#field-compare-sweep input').value === 'no setting'")
    assert choose(page, "sweep", "G") == numbers and page.problems == []


@pytest.mark.all_cases
def test_a_sweep_that_changes_nothing_says_so(fake: Fake, visit: Visit, monkeypatch: pytest.MonkeyPatch) -> None:
    engine, url = fake
    monkeypatch.setitem(engine.settings, "spectra", {**SETTINGS, "rows": 0, "pool": False})
    page = visit(url)
    stage = tab(page, "Compare")
    for box in page.locator("#field-compare-methods input:visible").all():
        box.uncheck()
    unfold(page, "#compare-ask")
    said, compared = stage.locator("[data-id=cut]"), "document.querySelector('#stage-compare .stage').dataset"
    for method, nothing in (("SPECTRA", True), ("Paper: SPECTRA", False)):
        choose(page, "method", method)
        choose(page, "sweep", "Refine")
        fill(page, **{"compare-max_new_tokens": 20, "compare-values": "0, 0.5, 1"})
        before = len(engine.answers)
        run = page.evaluate(f"{compared}.run ?? ''")
        page.click("#compare-go")
        page.wait_for_function(f"(run) => {compared}.run !== run && {compared}.state === 'done'", arg=run)
        assert len(engine.answers) == before + 4
        assert said.is_visible() == nothing
        assert said.inner_text() == ("Refine changed nothing: there was no candidate pool." if nothing else "")
    assert page.problems == []


@pytest.mark.all_cases
def test_a_method_without_its_datastore_builds_it_first_and_says_so(fake: Fake, visit: Visit) -> None:
    engine, url = fake
    engine.built = 0
    page = visit(f"{url}?method=rest&max_new_tokens=20")
    page.wait_for_function("document.querySelector('#field-method input').value === 'Baseline: REST'")
    for number in (1, 2):
        page.evaluate(
            """() => { window.told = {verdict: [], status: []}; for (const id in told) {
            const node = document.querySelector(`#stage-race [data-id=${id}]`);
            new MutationObserver(() => told[id].push(node.textContent)).observe(node, {childList: true}); } }"""
        )
        race(page)
        told, indexing = page.evaluate("told"), "building its datastore: indexing"
        shown, aloud = ([text for text in told[each] if text.startswith(indexing)] for each in ("verdict", "status"))
        assert engine.built == 1 and bool(shown) == (number == 1)
        assert aloud == [indexing] * (number == 1), "each figure was read out"
    assert engine.answers[-1].trace.method == "rest" and page.problems == []


def test_a_store_of_text_the_model_did_not_write_shows_what_refining_left_out(fake: Fake, visit: Visit) -> None:
    engine, url = fake
    page = visit(url)
    page.get_by_role("tab", name="Datastore").click()
    appear(page, "#stage-datastore .stage[data-state]")
    page.click("#own-library")
    page.wait_for_function("document.querySelector('#field-store-store input').value === 'python-library'")
    assert engine.uploads[-1] is None
    card = page.locator("#stage-datastore .own-store .store")
    card.wait_for()
    seen = LIBRARY["perplexity"]
    pairs = list(zip(seen["kept"], seen["scored"], strict=True))
    ends = [f"perplexity {low:.1f} to {high:.1f}" for low, high in pairwise(seen["edges"])]
    bins = card.locator(".bins > span")
    titles = bins.evaluate_all("(all) => all.map((bin) => bin.title)")
    assert titles == [f"{end}: {kept} of {scored} kept" for end, (kept, scored) in zip(ends, pairs, strict=True)]
    tall = bins.evaluate_all("(all) => all.map((bin) => ['b', 'i'].map((n) => bin.querySelector(n).offsetHeight))")
    scale = max(seen["scored"]) / max(height for _, height in tall)
    for heights, counts in zip(tall, pairs, strict=True):
        assert [height * scale for height in heights] == pytest.approx(counts, abs=scale)
    cut = "(bin) => [bin.className, bin.style.getPropertyValue('--at')]"
    assert [bins.nth(i).evaluate(cut) for i in (1, 2, 3)] == [["", ""], ["cut", "50%"], ["", ""]]
    assert card.locator("dd").all_inner_texts()[:2] == ["60 of 120 kept", "1 duplicate, 2 near duplicates"]
    assert "up to a perplexity of 5.00" in card.inner_text()
    assert page.problems == []


@pytest.mark.all_cases
@pytest.mark.parametrize(("name", "scope", "card"), [("Race", "", "#ask"), ("Compare", "compare-", "#compare-ask")])
def test_retrieval_is_what_runs_once_a_visitor_has_a_store(
    visit: Visit, races: Path, name: str, scope: str, card: str
) -> None:
    """Where none comes with the model the box stayed off, and the store could not be left out."""
    engine = FakeEngine(step_seconds=0, shared=())
    engine.settings["spectra"] = {**engine.settings["spectra"], "retrieval": False}
    served, url = serve(engine, races=races)
    try:
        page = visit(url)

        def changed() -> dict[str, Any]:
            before = len(engine.answers)
            page.click("#compare-go" if scope else "#go")
            while len(engine.answers) < before + 2:
                page.wait_for_timeout(50)
            stage = f"#stage-{name.lower()} .stage[data-state=done]"
            page.wait_for_selector(stage, state="attached")
            return dict(engine.answers[-1].trace.settings["method"]["changed"])

        tab(page, name)
        unfold(page, card)
        box = page.locator(f"#field-{scope}retrieval input")
        if scope:
            page.locator(card).get_by_role("button", name="As fast as this device allows").click()
            for each in page.locator("#field-compare-methods input:visible").all():
                each.uncheck()
        page.wait_for_selector(f"#field-{scope}successors")
        assert not box.is_checked()
        fill(page, **{f"{scope}max_new_tokens": 10, f"{scope}refine": 0.3})
        tab(page, "Datastore")
        page.click("#own-library")
        page.wait_for_selector("#stage-datastore .own-store .store")
        tab(page, name)
        page.wait_for_function(f"document.querySelector('#field-{scope}retrieval input').checked")
        assert (value_of(page, f"{scope}successors"), value_of(page, f"{scope}refine")) == ("0", "0.3")
        assert changed() == {"refine": 0.3}
        box.uncheck()
        assert changed() == {"refine": 0.3, "retrieval": False, "successors": 0}
        tab(page, "Datastore")
        tab(page, name)
        page.wait_for_timeout(300)
        assert not box.is_checked()
        tab(page, "Datastore")
        page.click("#stage-datastore .own-store button:has-text('Delete it')")
        page.wait_for_selector("#stage-datastore .own-store .store", state="detached")
        tab(page, name)
        page.wait_for_function(f"document.querySelector('#field-{scope}successors input').value === '8'")
        assert changed() == {"refine": 0.3} and page.problems == []
    finally:
        served.close()
