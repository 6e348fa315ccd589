"""How the page looks in a real browser: nothing sticks out or is cut off, texts are readable, colours told apart."""

from collections.abc import Callable
from typing import Any

import pytest
from browsing import AS_WIDE, READY, STAGE, appear, contrast, ended, fill, finish, race, see_charts, start, tab
from fakes_engine import FakeEngine
from sources import KNOWN_SOURCES


@pytest.mark.all_cases
def test_nothing_sticks_out_at_any_width(fake: tuple[FakeEngine, str], visit: Callable[..., Any]) -> None:
    page = visit(fake[1])
    race(page, max_new_tokens=120)
    see_charts(page)
    plot = page.locator("[data-id=plot-gain]")
    for width in (390, 900, 1440):
        page.set_viewport_size({"width": width, "height": 900})
        drawn = "document.querySelector('[data-id=plot-gain] .main-svg')?.getBoundingClientRect().width"
        page.wait_for_function(f"Math.abs({drawn} - {plot.evaluate('(box) => box.clientWidth')}) <= 1")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        tops = page.locator(".lane").evaluate_all("(lanes) => lanes.map((lane) => lane.getBoundingClientRect().top)")
        assert (tops[0] == tops[1]) == (width > 900)


def test_each_chart_is_as_wide_as_its_box(page: Any) -> None:
    page.set_viewport_size({"width": 1000, "height": 900})  # two columns, and the third chart spans both
    see_charts(page)
    for name in ("growth", "gain", "acceptance"):
        page.wait_for_function(AS_WIDE, arg=name)


@pytest.mark.all_cases
def test_charts_that_are_empty_yet_are_drawn_anew_in_other_colours_and_widths(page: Any, slow: None) -> None:
    start(page, max_new_tokens=2000)
    page.locator("#stage-race [data-id=plot-acceptance]").scroll_into_view_if_needed()
    inks = """() => ['growth', 'gain', 'acceptance'].map((name) => {
      const tick = document.querySelector(`[data-id=plot-${name}] .ytick text`);
      return tick && getComputedStyle(tick).fill; })"""
    same = f"(had) => {{ const inks = ({inks})(); return new Set(inks).size === 1 && inks[0] && inks[0] !== had; }}"
    page.wait_for_function(same, arg="")
    light = page.evaluate(inks)[0]
    page.evaluate("document.body.classList.toggle('dark')")
    page.wait_for_function(same, arg=light)
    page.set_viewport_size({"width": 1000, "height": 900})
    for name in ("growth", "gain", "acceptance"):
        page.wait_for_function(AS_WIDE, arg=name)
    assert page.evaluate(f"{STAGE}.phase") == "plain" and page.problems == []
    page.click("#stop")
    finish(page)


def test_both_bars_are_one_under_the_other_before_the_first_race(page: Any) -> None:
    page.click("[data-id=clear]")
    appear(page, "#stage-race .stage[data-state=empty]")
    plain, method = (box.bounding_box() for box in page.locator("#stage-race .bar").all())
    assert (plain["x"], plain["width"]) == (method["x"], method["width"]) and method["y"] > plain["y"]


def test_no_tab_sticks_out_on_a_narrow_screen(page: Any) -> None:
    race(page, max_new_tokens=60)  # the page may be empty
    page.set_viewport_size({"width": 390, "height": 900})
    for name in ("Chat", "Compare", "Datastore", "Replay", "Learn", "Race"):
        page.get_by_role("tab", name=name).click()
        page.locator(f"#stage-{name.lower()} :is(.stage[data-state], .chapters)").first.wait_for()
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, name
        words = page.get_by_role("tab", name=name)
        assert words.evaluate("(tab) => tab.scrollWidth <= tab.clientWidth"), name
        past = "(all) => all.filter((each) => each.scrollWidth > each.clientWidth).map((each) => each.innerText)"
        assert page.locator(".chapters > li:visible").evaluate_all(past) == []


def test_a_phone_shows_the_form_and_its_errors_whole(page: Any) -> None:
    page.set_viewport_size({"width": 390, "height": 900})
    labels = [page.locator(f"#field-{name} label").bounding_box() for name in ("max_new_tokens", "temperature", "seed")]
    assert len({label["y"] for label in labels}) == 1
    words = page.locator("#ask .form [data-testid=block-info]:visible")
    assert words.evaluate_all("(all) => all.filter((each) => each.scrollWidth > each.clientWidth + 1).length") == 0
    examples = page.locator("#ask .examples")
    assert examples.evaluate("(row) => row.scrollWidth <= row.clientWidth"), "every example is seen"
    page.locator("#field-seed input").focus()
    line = page.locator("#field-seed input").evaluate("(input) => getComputedStyle(input).outline")
    assert "solid 2px" in line, "what has the focus is seen"
    page.get_by_role("button", name="Method settings").first.click()
    beside = "(all) => all.filter(({offsetWidth, offsetHeight}) => offsetHeight < offsetWidth / 2).length"
    ticks = page.locator("#ask .method-settings label:has(input[type=checkbox]):visible")
    ticks.first.wait_for()
    assert ticks.evaluate_all(beside) == ticks.count() > 3, "what is ticked stands beside its box, not under it"
    fill(page, max_new_tokens=99999)
    page.click("#go")
    error = page.wait_for_selector("#field-max_new_tokens .field-error")
    right = "(node) => node.getBoundingClientRect().right"
    assert error.evaluate(right) <= page.locator("#ask").evaluate(right)
    assert error.evaluate("(node) => node.scrollWidth <= node.clientWidth")
    assert error.inner_text().startswith("99999 is out of range")


def test_what_a_link_or_a_file_names_is_whole_on_a_phone(
    fake: tuple[FakeEngine, str], visit: Callable[..., Any]
) -> None:
    """Words without a blank ran out of the page, where nobody could scroll to them."""
    page = visit(f"{fake[1]}?rows={'9' * 3000}&method={'W' * 60}", width=390)
    whole = "(node) => node.scrollWidth <= node.clientWidth"
    left_out = page.locator("#left-out:visible")
    left_out.wait_for()
    assert "is out of range" in left_out.inner_text() and left_out.evaluate(whole)
    note = page.locator("#stage-race .recorded:visible")
    note.locator("span, em").last.evaluate("(text) => { text.textContent = 'm'.repeat(200); }")
    assert note.evaluate(whole)


@pytest.mark.all_cases
def test_what_differs_between_presets_is_whole_on_a_phone(
    fake: tuple[FakeEngine, str], visit: Callable[..., Any]
) -> None:
    page = visit(fake[1], width=390)
    page.click("#ask .method-settings button.label-wrap")
    page.click("#ask .differences summary")
    page.wait_for_selector("#ask .differences table")
    rights = page.locator("#ask .differences td").evaluate_all(
        "(all) => all.map((td) => td.getBoundingClientRect().right)"
    )
    assert max(rights) <= 390 - 24


@pytest.mark.all_cases
def test_hits_of_a_datastore_are_whole_on_a_phone(fake: tuple[FakeEngine, str], visit: Callable[..., Any]) -> None:
    page = visit(fake[1], width=390)
    page.click("#ask .method-settings button.label-wrap")
    page.check("#field-explain input")
    race(page, max_new_tokens=20)
    page.click("[data-id=dictionaries] summary")
    table = page.locator("[data-id=held] .source-retrieval table")
    table.locator("td code").last.evaluate("(code) => { code.textContent = '↵' + '·'.repeat(24); }")
    assert table.evaluate("(table) => table.scrollWidth <= table.clientWidth")
    assert page.locator("[data-id=held] ol, [data-id=held] table").evaluate_all(
        "(all) => all.every((each) => getComputedStyle(each).backgroundImage.includes('gradient'))"
    ), "a list that goes on says so"


@pytest.mark.all_cases
def test_a_phone_shows_what_follows_in_one_line_each(fake: tuple[FakeEngine, str], visit: Callable[..., Any]) -> None:
    page = visit(fake[1], width=390)
    tab(page, "Datastore")
    sides = """(button) => { const card = button.closest('.ask').getBoundingClientRect();
      const {left, right} = button.getBoundingClientRect(); return [left - card.left, card.right - right]; }"""
    left, right = page.locator("#store-go").evaluate(sides)
    assert abs(left - right) <= 1, "the wide button stands in the middle"
    page.click("#store-go")
    said = page.locator("#stage-datastore .answers small")
    said.first.wait_for()
    said.first.evaluate("(small) => { small.textContent = 'seen 12 times, a match of 8 tokens'; }")
    assert said.first.bounding_box()["height"] < 24


def test_the_list_of_methods_looks_like_the_page(page: Any) -> None:
    page.evaluate("document.body.classList.add('dark')")
    page.click("#field-method input")
    page.get_by_role("option", name="SPECTRA-CORE").wait_for()
    colour = "(node) => getComputedStyle(node).backgroundColor"
    assert page.locator("#field-method .options").evaluate(colour) == page.locator("#ask").evaluate(colour)


def test_the_list_of_methods_closes_when_the_keyboard_leaves_it(page: Any) -> None:
    for place, field in (("#ask", "#field-method"), ("#compare-ask", "#field-compare-method")):
        if place == "#compare-ask":
            tab(page, "Compare")
            page.click(f"{place} .method-settings button.label-wrap")
        page.click(f"{field} input")
        page.locator(f"{field} .options").wait_for()
        page.keyboard.press("Tab")
        page.locator(f"{field} .options").wait_for(state="detached")  # it fades, slowly beside a race that is drawn
        page.wait_for_timeout(500)
        assert page.locator(f"{field} .options").count() == 0
        assert page.evaluate("(field) => !document.activeElement.closest(field)", field)


def test_the_hairline_of_a_step_is_where_its_text_begins(page: Any) -> None:
    race(page, max_new_tokens=20)
    shadow = """(leftward) => { const step = document.querySelector('[data-id=text-method] .step');
      step.classList.toggle('leftward', leftward);
      return getComputedStyle(step).boxShadow.split(') ')[1].split('px')[0]; }"""
    assert [float(page.evaluate(shadow, rtl)) for rtl in (False, True)] == [-1.5, 1.5]


@pytest.mark.parametrize("dark", [False, True])
def test_text_is_readable_on_every_tint(page: Any, dark: bool) -> None:
    page.evaluate("(dark) => document.body.classList.toggle('dark', dark)", dark)
    race(page, max_new_tokens=200)
    page_colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (page_colour == "rgb(18, 20, 25)") == dark
    for source in ("forward", "backward", "retrieval", "pool", "model"):
        assert contrast(page, f"[data-id=text-method] .t.source-{source}") >= 6.8, source
    assert contrast(page, "[data-id=verdict]") >= 4.5
    tab(page, "Chat")
    placeholder = page.locator("#field-chat-prompt textarea").evaluate(
        "(box) => { const { color, opacity } = getComputedStyle(box, '::placeholder'); return [color, opacity]; }"
    )
    muted = page.locator("#stage-chat [data-id=hint]").evaluate("(text) => getComputedStyle(text).color")
    assert placeholder == [muted, "1"] and contrast(page, "#stage-chat [data-id=hint]") >= 4.5


@pytest.mark.all_cases
@pytest.mark.parametrize("dark", [False, True])
def test_every_source_is_underlined_in_its_own_way(
    fake: tuple[FakeEngine, str], visit: Callable[..., Any], dark: bool
) -> None:
    page = visit(fake[1], dark=dark)
    lines = page.evaluate(
        """(sources) => sources.map((source) => {
          const token = document.createElement('i'); token.className = `t source-${source}`; token.textContent = 'word';
          document.querySelector('[data-id=text-method]').append(token);
          return getComputedStyle(token).backgroundImage; })""",
        list(KNOWN_SOURCES),
    )
    assert all(line.startswith("url(") for line, source in zip(lines, KNOWN_SOURCES, strict=True) if source != "model")
    assert len(set(lines)) == len(KNOWN_SOURCES)
    shown = page.locator("#stage-race .chip:visible").evaluate_all("(chips) => chips.map((c) => c.classList[1])")
    assert "source-ngram" not in shown and "source-backward" in shown


def test_bars_are_seen_in_forced_colours(page: Any) -> None:
    page.emulate_media(forced_colors="active")
    bars = {"Race": ".bar i", "Learn": ".costs i", "Datastore": ".bins b"}
    for name, bar in bars.items():
        drawn = tab(page, name).locator(bar).first
        behind = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert drawn.evaluate("(bar) => getComputedStyle(bar).backgroundColor") != behind, name


def test_tints_and_what_is_chosen_are_seen_in_forced_colours(page: Any) -> None:
    page.emulate_media(forced_colors="active")
    paint = "(node) => getComputedStyle(node).backgroundColor"
    token = page.locator("[data-id=text-method] .t.source-backward").first
    assert token.evaluate(paint) != page.locator("[data-id=text-method] .t.source-model").first.evaluate(paint)
    assert token.evaluate("(node) => getComputedStyle(node).forcedColorAdjust") == "none"  # else text has a backplate
    assert "rgb" in page.locator(".method .step").nth(1).evaluate("(step) => getComputedStyle(step).boxShadow")
    for chosen, other in (
        ("#tabs .tab-container:not(.visually-hidden) button.selected", "#tabs .tab-container button:not(.selected)"),
        (".switch button[aria-pressed=true]", ".switch button[aria-pressed=false]"),
    ):
        assert page.locator(chosen).first.evaluate(paint) != page.locator(other).last.evaluate(paint), chosen


def test_nothing_moves_for_who_asks_for_less_motion(page: Any) -> None:
    page.evaluate("addEventListener('transitionrun', ({target}) => { document.body.dataset.moved = target.id; })")
    race(page, max_new_tokens=40)
    moving = "() => document.getAnimations().map(({effect}) => effect.target.outerHTML.slice(0, 99))"
    assert page.evaluate(moving) == []
    assert page.evaluate("document.body.dataset.moved") is None


def test_every_stop_of_the_keyboard_is_seen(fake: tuple[FakeEngine, str], visit: Callable[..., Any]) -> None:
    page = visit(fake[1])
    look = """(number) => { const {activeElement: stop, body} = document;
      if (stop === body || stop.dataset.stop) return null;
      stop.dataset.stop = number;
      const {width, height} = stop.getBoundingClientRect();
      const framed = getComputedStyle(stop).outlineStyle !== 'none' || stop.closest('.ask:has(textarea:focus)');
      return [Boolean(framed) && width > 8 && height > 8, stop.outerHTML.slice(0, 99)]; }"""
    stops = []
    for number in range(99):
        page.keyboard.press("Tab")
        stop = page.evaluate(look, number)
        if stop is None:
            break
        stops.append(stop)
    assert len(stops) > 20 and [html for seen, html in stops if not seen] == []


@pytest.mark.parametrize("width", [1300, 390])
def test_no_ring_around_what_has_the_focus_is_cut(page: Any, width: int) -> None:
    """The folds of the form cut it at their edges, the row of tabs above and below."""
    page.set_viewport_size({"width": width, "height": 900})
    fold = page.locator("#ask .method-settings > button")
    if "open" not in (fold.get_attribute("class") or ""):
        fold.click()
    appear(page, "#field-refine input")
    cut = """() => { const stop = document.activeElement, style = getComputedStyle(stop);
      const wide = parseFloat(style.outlineWidth) + parseFloat(style.outlineOffset);
      const ring = stop.getBoundingClientRect(), cutting = [];
      for (let box = stop.parentElement; box !== document.body; box = box.parentElement) {
        const {overflowX, overflowY} = getComputedStyle(box), edge = box.getBoundingClientRect();
        if (overflowX === 'visible' && overflowY === 'visible') continue;
        if (Math.min(ring.left - edge.left, edge.right - ring.right, ring.top - edge.top, edge.bottom - ring.bottom)
          < wide - 0.5) cutting.push(box.className); }
      return cutting; }"""
    page.get_by_role("tab", name="Race").focus()
    page.keyboard.press("Shift+Tab")
    for stop in ("#tabs [role=tab].selected", "#ask .start-from button", "#field-order input", "#field-refine input"):
        for _ in range(30):
            if page.evaluate("(stop) => document.activeElement.matches(stop)", stop):
                break
            page.keyboard.press("Tab")
        assert page.evaluate("(stop) => document.activeElement.matches(stop)", stop), stop
        assert page.evaluate(cut) == [], stop
    fold.click()


@pytest.mark.all_cases
def test_a_tablet_has_the_fields_of_an_answer_in_one_line(
    fake: tuple[FakeEngine, str], visit: Callable[..., Any]
) -> None:
    page = visit(fake[1], width=768)
    middles = (
        "(all) => all.map((one) => one.getBoundingClientRect()).map((box) => Math.round(box.top + box.height / 2))"
    )
    for name, scope in (("Race", ""), ("Chat", "chat-")):
        tab(page, name)
        fields = ", ".join(f"#field-{scope}{field}" for field in ("method", "max_new_tokens", "temperature", "seed"))
        found = page.locator(fields).evaluate_all(middles)
        assert len(found) == 4 and len(set(found)) == 1, name


def test_charts_are_drawn_once_they_are_seen(fake: tuple[FakeEngine, str], visit: Callable[..., Any]) -> None:
    page = visit(fake[1])
    assert page.evaluate("document.querySelector('[data-id=figures]').getBoundingClientRect().top > innerHeight")
    assert not page.evaluate("document.querySelector('[data-id=plot-gain]').calcdata")
    charts = page.locator("#stage-race .figures")
    page.emulate_media(media="print")
    assert charts.is_hidden(), "empty boxes on paper"
    page.emulate_media(media="screen")
    see_charts(page)
    page.emulate_media(media="print")
    assert charts.is_visible()
    page.emulate_media(media="screen")
    page.evaluate("scrollTo(0, 0)")
    bars = "document.querySelector('[data-id=plot-gain]').calcdata"
    settled = f"() => {{ const last = window.before; window.before = {bars}; return last && last === window.before; }}"
    page.wait_for_function(settled, polling=500)
    page.set_viewport_size({"width": 1000, "height": 600})
    page.evaluate("() => new Promise((done) => setTimeout(done, 300))")
    assert page.evaluate(f"window.before === {bars}"), "drawn, though they are below the screen"
    see_charts(page)
    page.wait_for_function(AS_WIDE, arg="gain")
    assert page.problems == []


@pytest.mark.all_cases
def test_plotly_is_loaded_ahead_while_no_race_runs(
    fake: tuple[FakeEngine, str], visit: Callable[..., Any], slow: None
) -> None:
    page = visit("about:blank", ready="body")
    page.clock.install()
    page.add_init_script("""new MutationObserver((_, watching) => {
        if (!document.querySelector('script[data-plotly]')) return;
        window.asked_for = document.querySelector('.stage[data-state=running]') ? 'in a race' : 'between races';
        watching.disconnect(); }).observe(document, {childList: true, subtree: true});""")
    page.goto(fake[1])
    appear(page, READY)
    start(page, max_new_tokens=2000)
    page.clock.fast_forward(8500)
    page.click("#stop")
    finish(page)
    page.clock.fast_forward(8500)
    page.wait_for_function("window.Plotly")
    assert page.evaluate("window.asked_for") == "between races"
    assert page.problems == []


@pytest.mark.all_cases
def test_charts_that_could_not_be_loaded_say_so_and_come_with_the_next_look(
    fake: tuple[FakeEngine, str], visit: Callable[..., Any]
) -> None:
    """What was said stayed under charts that had come since, and nothing was said of What if? and the picture."""
    page = visit("about:blank", ready="body")
    first: list[Any] = []
    page.route("**/plotly.min.js", lambda route: route.abort() if first else first.append(route))
    page.goto(fake[1])
    appear(page, "#stage-race .figures")
    page.locator("#stage-race .figures").evaluate("(box) => box.scrollIntoView()")
    appear(page, "#stage-race .figures[data-waits='The charts are being loaded.']")
    first[0].abort()
    appear(page, "#stage-race .figures[data-problem^='The charts could not be loaded.']:not([data-waits])")
    tab(page, "Learn")
    appear(page, "#stage-learn .plot[data-problem]")
    stage = tab(page, "Compare")
    fill(page, **{"compare-max_new_tokens": 10})
    page.click("#compare-go")
    ended(stage)
    appear(page, "#stage-compare .figures[data-problem]")
    page.click("#stage-compare [data-id=png]")
    page.unroute("**/plotly.min.js")
    tab(page, "Race")
    see_charts(page)
    for name in ("Learn", "Compare"):
        tab(page, name)
        appear(page, f"#stage-{name.lower()} .plot .main-svg")
    page.wait_for_function("!document.querySelector('[data-problem]')")
    assert page.problems == []
