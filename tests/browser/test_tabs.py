"""Chat, Compare, Datastore and Replay in a real browser, on a scripted engine."""

import csv
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from browsing import appear, ended, fill, serve, tab
from fakes_engine import FakeEngine, recorded_race

from spectra.metrics import PlainRate, overall, speedup, summarize
from spectra.target.choices import STOCK
from spectra.trace import Trace
from visual.examples import CHAT_PROMPTS
from visual.run.race_file import RaceFile
from visual.wire.events import encode
from visual.wire.slow_reason import slow_reason

Visit = Callable[..., Any]
Fake = tuple[FakeEngine, str]

PLAYED = """() => {
  window.played = 0;
  const look = () => (window.played += document.querySelectorAll("#stage-replay [data-id=text-plain] .ahead").length);
  new MutationObserver(look).observe(document.body, { subtree: true, childList: true, attributeFilter: ["class"] });
}"""
"""Counts, at every change of the page, the words of the plain lane that are yet to come; a poll may miss them."""
PICKED = """() => {
  const stage = document.querySelector("#stage-replay .stage[data-run]");
  window.shown = new Set();
  new MutationObserver(() => window.shown.add(stage.dataset.run)).observe(stage, { attributeFilter: ["data-run"] });
  for (const choice of document.querySelectorAll("#stage-replay .choices button")) choice.click();
}"""
"""Clicks every recording and keeps which ones were shown."""


def test_a_shipped_recording_replays_without_a_model(fake: Fake, visit: Visit, races: Path) -> None:
    engine, url = fake
    before = len(engine.answers)
    page = visit(url, motion="no-preference")
    page.evaluate(PLAYED)
    stage = tab(page, "Replay")
    ended(stage)
    page.wait_for_function("window.played > 0")
    stage.get_by_role("button", name="Instant").click()
    assert stage.locator(".ahead").count() == 0
    page.evaluate("window.played = 0")
    stage.get_by_role("button", name="4×").click()
    page.wait_for_function("window.played > 0")
    page.wait_for_function("!document.querySelector('#stage-replay .ahead')")
    recorded = RaceFile.read(races / "first.json")
    text = stage.locator("[data-id=text-method]").evaluate("(box) => box.textContent")
    assert text == recorded.method.text and "<script>" in text
    tau = summarize(recorded.method.steps).tau
    assert f"{tau:.2f} tokens per forward pass" in stage.locator("[data-id=more]").inner_text()
    assert len(engine.answers) == before and page.problems == []


def test_the_chat_names_the_rate_that_its_estimates_compare_with(fake: Fake, visit: Visit) -> None:
    """Another visitor measured it again: the line under the answer went on with the rate of the start."""
    engine, url = fake
    page = visit(url)
    stage = tab(page, "Chat")
    measured = engine.plain
    try:
        engine.plain = PlainRate(12.0, 96)
        fill(page, **{"chat-prompt": "hello", "chat-max_new_tokens": 40})
        page.click("#chat-go")
        ended(stage)
        assert "plain decoding ran 12 tokens/s after 96 tokens" in stage.locator(".readout").inner_text()
        assert "measured here: 12 tokens/s after 96 tokens" in stage.locator("[data-id=rate]").inner_text()
    finally:
        engine.plain = measured


@pytest.mark.all_cases
def test_a_file_of_ones_own_replays_and_one_that_is_none_is_told_why(fake: Fake, visit: Visit, tmp_path: Path) -> None:
    page = visit(fake[1])
    stage = tab(page, "Replay")
    ended(stage)
    upload = page.locator("#field-replay-file input[type=file]")
    damaged = {**recorded_race(), "plain": {"format": "spectra-trace", "version": 1}}
    for name, text, problem in (
        ("none.json", "<img src=x onerror=window.hacked=9>", "not JSON"),
        ("other.json", '{"format": "spectra-trace"}', "this is no race"),
        ("damaged.json", encode(damaged), "plain: damaged"),
    ):
        (tmp_path / name).write_text(text, encoding="utf-8")
        upload.set_input_files(tmp_path / name)
        page.wait_for_selector(f"#field-replay-file .field-error:has-text('{problem}')")
    (tmp_path / "good.json").write_text(encode(recorded_race(40)), encoding="utf-8")
    assert page.locator(".choices [aria-pressed=true]").inner_text() == "A first race"
    upload.set_input_files(tmp_path / "good.json")
    stage.locator("[data-id=note-plain]:has-text('40 tokens')").wait_for()
    assert page.locator(".choices [aria-pressed=true]").count() == 0
    assert page.locator(".field-error").count() == 0 and page.evaluate("window.hacked") is None


@pytest.mark.all_cases
def test_of_two_recordings_chosen_at_once_the_one_that_is_shown_is_marked(visit: Visit, tmp_path: Path) -> None:
    for tokens in (20, 40, 60):
        (tmp_path / f"of-{tokens}.json").write_text(encode({**recorded_race(tokens), "title": f"{tokens} tokens"}))
    served, url = serve(FakeEngine(), races=tmp_path)
    try:
        page = visit(url)
        stage = tab(page, "Replay")
        ended(stage)
        page.evaluate(PICKED)
        page.wait_for_function("window.shown.size === 3")
        marked = stage.locator(".choices [aria-pressed=true]").all_inner_texts()
        assert marked == [stage.locator("[data-id=note-plain]").inner_text()]
        assert page.problems == []
    finally:
        served.close()


def test_compare_shows_and_exports_every_method(fake: Fake, visit: Visit) -> None:
    engine, url = fake
    page = visit(url)
    stage = tab(page, "Compare")
    page.fill("#field-compare-max_new_tokens input", "60")
    before = len(engine.answers)
    page.click("#compare-go")
    ended(stage)
    ran = engine.answers[before:]
    assert [answer.trace.method for answer in ran] == ["autoregressive", "spectra", "spectra-core", "spectra-paper"]
    plain = summarize(ran[0].trace.steps)
    for answer in ran:
        figures = summarize(answer.trace.steps)
        cells = stage.locator(f"tr[data-method={answer.trace.method}] > *").all_inner_texts()
        assert cells[2] == f"{figures.micro / plain.micro:.2f}×" and cells[4] == f"{figures.tau:.2f}"
        macro = f"{figures.macro:.0f} ({figures.macro / plain.macro:.2f}×)"
        accepted, _, guesses = overall(answer.trace.steps)
        assert cells[6] == (f"{100 * accepted / guesses + 1e-9:.0f} %" if guesses else "–")
        assert cells[3] == macro and cells[5] == str(figures.passes) and cells[7] == "identical"
    heads = stage.locator("th[scope=col]").all_inner_texts()
    assert [heads[1].split(), heads[3].split()] == [["Mic-TP", "tokens/s"], ["Mac-TP", "tokens/s"]]
    fastest = stage.locator("[data-id=status]").text_content()
    assert fastest.startswith("Fastest: ") and fastest.endswith(" times plain decoding")
    bars = "document.querySelector('#stage-compare [data-id=bars]').calcdata"
    page.wait_for_function(f"{bars}?.[0].length === 4")
    rates = [summarize(answer.trace.steps).micro for answer in ran]
    assert page.evaluate(f"{bars}[0].map((bar) => bar.s)") == pytest.approx(rates, rel=1e-3)
    drawn = "document.querySelector('#stage-compare [data-id=lines]').calcdata"
    page.wait_for_function(f"{drawn}?.length === 4")
    ends = f"() => {drawn}.map((line) => [line.at(-1).x, line.at(-1).y])"
    assert page.evaluate(ends)[1][0] == pytest.approx(summarize(ran[1].trace.steps).seconds, abs=1e-4)
    stage.locator("[data-id=axis-passes]").click()
    passes = [[len(answer.trace.steps), len(answer.trace.tokens)] for answer in ran]
    page.wait_for_function(f"(passes) => String(({ends})()) === String(passes)", arg=passes)
    saved = {}
    for kind in ("csv", "json", "png"):
        with page.expect_download() as waiting:
            stage.locator(f"[data-id={kind}]").click()
        saved[kind] = Path(waiting.value.path()).read_bytes()
    rows = list(csv.DictReader(saved["csv"].decode().splitlines()))
    assert [row["method"] for row in rows] == [answer.trace.method for answer in ran]
    data = json.loads(saved["json"])
    assert data["format"] == "spectra-comparison" and len(data["rows"]) == 4
    assert Trace.from_dict(data["traces"]["spectra"]).tokens == ran[1].trace.tokens
    assert saved["png"].startswith(b"\x89PNG") and page.problems == []


def test_stock_generate_can_be_compared(fake: Fake, page: Any) -> None:
    engine = fake[0]
    stage = tab(page, "Compare")
    for box in page.locator("#field-compare-methods input:visible").all():
        box.uncheck()
    page.get_by_label("Stock generate").check()
    page.fill("#field-compare-max_new_tokens input", "30")
    before = len(engine.answers)
    page.click("#compare-go")
    ended(stage)
    assert [answer.trace.method for answer in engine.answers[before:]] == ["autoregressive", STOCK]
    row = stage.locator(f"tr[data-method={STOCK}]")
    assert row.locator("th").inner_text() == "Stock generate" and row.get_attribute("title") == engine.references[STOCK]


@pytest.mark.all_cases
@pytest.mark.usefixtures("slow")
def test_plain_decoding_is_the_fastest_without_a_factor(
    fake: Fake, visit: Visit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fake[0], "guessing_seconds", 0.8)
    page = visit(fake[1])
    stage = tab(page, "Compare")
    page.fill("#field-compare-max_new_tokens input", "20")
    page.click("#compare-go")
    ended(stage)
    assert stage.locator("[data-id=status]").text_content() == "Fastest: Plain decoding"


@pytest.mark.usefixtures("slow")
def test_a_comparison_stopped_after_plain_decoding_names_no_fastest(page: Any) -> None:
    stage = tab(page, "Compare")
    appear(page, "#compare-go:enabled")
    page.get_by_label("SPECTRA", exact=True).locator("visible=true").first.check()
    page.fill("#field-compare-max_new_tokens input", "150")
    page.click("#compare-go")
    begun = "#stage-compare tr.now:not([data-method=autoregressive]) td:nth-child(6)"
    page.wait_for_function("(begun) => document.querySelector(begun)?.textContent > 3", arg=begun)
    page.click("#compare-stop")
    ended(stage, "stopped")
    assert stage.locator("[data-id=note]").inner_text().startswith("Stopped. 1 method,")
    assert stage.locator("[data-id=status]").text_content() == "Stopped."


@pytest.mark.usefixtures("slow")
def test_compare_stops_and_refuses_at_the_field(page: Any) -> None:
    stage = tab(page, "Compare")
    page.fill("#field-compare-max_new_tokens input", "5000")
    page.click("#compare-go")
    page.wait_for_selector("#field-compare-max_new_tokens .field-error:has-text('out of range')")
    page.fill("#field-compare-max_new_tokens input", "1500")
    page.click("#compare-go")
    page.wait_for_function("document.querySelector('#stage-compare tr.now td:nth-child(6)')?.textContent > 20")
    page.click("#compare-stop")
    ended(stage, "stopped")
    assert "Stopped." in stage.locator("[data-id=note]").inner_text()
    assert "…" not in stage.locator("table").inner_text() and stage.locator("tr.now").count() == 0
    assert stage.locator("tbody tr").filter(has_text="stopped").locator("td").last.inner_text() == "stopped"
    for box in page.locator("#field-compare-methods input").all():
        box.uncheck()
    appear(page, "#compare-go:enabled")
    page.click("#compare-go")
    page.wait_for_selector("#field-compare-methods .field-error:has-text('tick at least one')")


@pytest.mark.all_cases
def test_what_is_stopped_in_the_build_of_its_datastore_shows_no_figures(
    fake: Fake, visit: Visit, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, url = fake
    monkeypatch.setattr(engine, "step_seconds", 0.05)  # the build takes 20 s
    engine.built = 0
    page = visit(url)
    stage = tab(page, "Compare")
    page.check("#field-compare-methods input[value=rest], #field-compare-methods label:has-text('REST') input")
    page.click("#compare-go")
    note = stage.locator("[data-id=note]", has_text="Building its datastore: indexing")
    note.wait_for()
    page.wait_for_function("document.querySelector('#stage-compare [data-id=lines] .main-svg')")
    page.click("#compare-stop")
    ended(stage, "stopped")
    assert stage.locator("[data-id=note]").inner_text() == "Stopped. No method came to its end."
    assert stage.locator("[data-id=bars] text:visible, [data-id=lines] text:visible").count() == 0
    assert engine.built == 0 and page.problems == []


@pytest.mark.all_cases
def test_an_example_starts_a_conversation_and_then_makes_room(fake: Fake, visit: Visit) -> None:
    page = visit(fake[1])
    stage = tab(page, "Chat")
    page.fill("#field-chat-max_new_tokens input", "3")
    example = page.locator("#chat-ask .example", has_text=CHAT_PROMPTS[0].name)
    assert example.get_attribute("title") == CHAT_PROMPTS[0].why
    example.click()
    page.wait_for_function("document.querySelector('#field-chat-prompt textarea').value")
    assert page.locator("#field-chat-prompt textarea").input_value() == CHAT_PROMPTS[0].prompt
    page.click("#chat-go")
    stage.locator(".turn .estimate").wait_for()
    assert example.is_hidden()
    assert stage.locator(".turn .text").bounding_box()["height"] < 100  # a short answer's card is low


def test_a_conversation_is_coloured_estimated_and_raced(fake: Fake, page: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = fake[0]
    stage = tab(page, "Chat")
    page.fill("#field-chat-max_new_tokens input", "60")
    for said in ("Hello <b>there</b> ${alert(1)}", "And then?"):
        appear(page, "#chat-go:enabled")
        page.fill("#field-chat-prompt textarea", said)
        page.click("#chat-go")
        page.wait_for_function("document.querySelector('#field-chat-prompt textarea').value === ''")
        stage.locator(f".turn .user:has-text('{said}')").wait_for()
        ended(stage)
    first = engine.answers[-2].trace
    assert engine.conversations[-1] == [
        {"role": "user", "content": "Hello <b>there</b> ${alert(1)}"},
        {"role": "assistant", "content": first.text},
        {"role": "user", "content": "And then?"},
    ]
    shown = stage.locator(".turn").last
    sources = "(ts) => ts.flatMap((t) => t.dataset.sources.split(','))"
    trace = engine.answers[-1].trace
    assert shown.locator(".t").evaluate_all(sources) == list(trace.sources)
    figures = summarize(trace.steps)
    rate = figures.tokens / (figures.seconds - figures.prefill_seconds)
    assert shown.locator(".estimate").inner_text() == f"≈ {rate / engine.plain.tokens_per_second:.2f}×"
    assert "estimated" in shown.locator(".readout").inner_text()
    assert trace.kept == 3 and shown.locator(".kept").inner_text().startswith("3 of 3 prompt tokens kept")
    assert stage.locator(".turn").first.locator(".kept").count() == 0
    stage.locator("[data-id=race]").click()
    stage.locator(".measured:has-text('from copies of the same 3 kept tokens: identical output')").wait_for()
    assert [answer.trace.kept for answer in engine.answers[-2:]] == [3, 3]
    plain, method = (summarize(answer.trace.steps) for answer in engine.answers[-2:])
    assert shown.locator(".measured b").inner_text() == f"{method.micro / plain.micro:.2f}×"
    monkeypatch.setattr(engine, "guessing_seconds", 0.31)
    stage.locator("[data-id=race]").click()
    slow = "identical output. A pass gave"
    stage.locator(f".measured:has-text('{slow}')").wait_for()
    base, ours = (answer.trace for answer in engine.answers[-2:])
    why = slow_reason(base, ours, speedup(summarize(base.steps), summarize(ours.steps)))
    assert why and stage.locator(".measured").inner_text().endswith(f"identical output. {why}")
    monkeypatch.undo()
    stage.locator("[data-id=renew]").click()
    stage.locator("[data-id=rate]:has-text('50 tokens/s')").wait_for()
    assert engine.measured[-1] == max(64, len(trace.prompt_tokens) + len(trace.tokens))
    stage.locator("[data-id=back]").click()
    page.wait_for_function("document.querySelector('#field-chat-prompt textarea').value === 'And then?'")
    assert stage.locator(".turn").count() == 1
    page.click("#chat-go")
    stage.locator(".turn").nth(1).wait_for()
    ended(stage)
    assert engine.conversations[-1] == engine.conversations[-2]
    visitor = list(engine.kept)[-1]
    stage.locator("[data-id=clear]").click()
    page.wait_for_function("!document.querySelector('#stage-chat .turn')")
    assert visitor not in engine.kept
    assert page.problems == [] and page.outside == []


def test_a_refused_message_leaves_the_conversation_as_it_was(page: Any) -> None:
    stage = tab(page, "Chat")
    page.fill("#field-chat-max_new_tokens input", "20")
    for said, state, turns in (("refuse", "empty", 0), ("hello", "done", 1), ("refuse", "done", 1)):
        page.fill("#field-chat-prompt textarea", said)
        appear(page, "#chat-go:enabled")
        page.click("#chat-go")
        if said == "refuse":
            page.wait_for_selector("#field-chat-prompt .field-error:has-text('9000 tokens do not fit')")
        else:
            stage.locator(".turn .readout b").wait_for()
        ended(stage, state)
        assert stage.locator(".turn").count() == turns
        assert page.locator("#field-chat-prompt textarea").input_value() == ("refuse" if said == "refuse" else "")
        assert stage.locator("[data-id=race]").is_visible() == bool(turns)
    assert page.problems == [] and page.outside == []


@pytest.mark.all_cases
def test_a_warm_turn_is_labelled(fake: Fake, visit: Visit) -> None:
    _, url = fake
    page = visit(url)
    stage = tab(page, "Chat")
    page.fill("#field-chat-max_new_tokens input", "20")
    page.check("#field-chat-warm input")
    for said, label in (("One", "warm from the next answer on"), ("Two", "what 1 answer before taught")):
        page.fill("#field-chat-prompt textarea", said)
        page.click("#chat-go")
        stage.locator(f".turn .user:has-text('{said}')").wait_for()
        ended(stage)
        assert label in stage.locator(".turn").last.locator(".warm").inner_text()
    page.uncheck("#field-chat-warm input")
    page.fill("#field-chat-prompt textarea", "Three")
    page.click("#chat-go")
    stage.locator(".turn .user:has-text('Three')").wait_for()
    ended(stage)
    assert stage.locator(".turn").last.locator(".warm").count() == 0
    assert page.problems == [] and page.outside == []


@pytest.mark.all_cases
def test_what_was_kept_goes_when_the_tab_closes(fake: Fake, visit: Visit) -> None:
    engine, url = fake
    page = visit(url)
    stage = tab(page, "Chat")
    page.fill("#field-chat-max_new_tokens input", "20")
    page.fill("#field-chat-prompt textarea", "Keep this")
    page.click("#chat-go")
    stage.locator(".turn").wait_for()
    ended(stage)
    visitor = list(engine.kept)[-1]
    page.close()
    deadline = time.monotonic() + 20
    while visitor not in engine.gone:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert visitor not in engine.kept


@pytest.mark.usefixtures("slow")
def test_a_stopped_turn_keeps_what_was_written(fake: Fake, page: Any) -> None:
    engine = fake[0]
    stage = tab(page, "Chat")
    page.fill("#field-chat-max_new_tokens input", "2000")
    page.fill("#field-chat-prompt textarea", "Go on for long")
    page.click("#chat-go")
    page.wait_for_function("document.querySelectorAll('#stage-chat .t').length > 20")
    page.click("#chat-stop")
    ended(stage, "stopped")
    assert engine.answers[-1].closed and len(engine.answers[-1].trace.tokens) < 2000
    page.fill("#field-chat-prompt textarea", " ")
    page.click("#chat-go")
    page.wait_for_selector("#field-chat-prompt .field-error:has-text('it is empty')")


def test_a_datastore_shows_its_card_and_what_follows_a_few_words(page: Any) -> None:
    stage = tab(page, "Datastore")
    text = stage.inner_text()
    assert "2,600 of 8,000 kept" in text and "120 near duplicates" in text and "up to a perplexity of 3.34" in text
    bins = stage.locator(".bins span")
    assert bins.count() == 6 and bins.nth(2).get_attribute("class") == "cut"
    page.click("#store-go")
    stage.locator(".answers li").first.wait_for()
    assert stage.locator(".answers code").all_inner_texts() == ["·self.balance", "<b>bold</b>↵"]
    assert stage.locator(".answers b").all_inner_texts() == ["62 %", "6 %"]
    assert stage.locator(".answers small").first.inner_text() == "seen 41 times, a match of 3 tokens"
    page.fill("#field-store-text textarea", "unknown")
    page.click("#store-go")
    stage.locator(".answers p:has-text('has not seen these words')").wait_for()
    page.fill("#field-store-text textarea", " ")
    page.click("#store-go")
    page.wait_for_selector("#field-store-text .field-error:has-text('it is empty')")
