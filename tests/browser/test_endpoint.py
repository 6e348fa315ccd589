"""The Chat tab on a server, in headless Chromium: text and tokens a second, no colours, and a sentence why."""

import pytest
from browsing import serve
from endpoint import GOOD, event, later
from endpoint import serve as client
from fakes_engine import FakeEngine

from visual.endpoint import Endpoint


@pytest.fixture
def answered(visit, races):
    """The tab once a question was sent to a server that answers with these lines."""
    pages = []

    def ask(lines, width=1300):
        endpoint = Endpoint("http://there", client=client(lines + "data: [DONE]\n\n", []))
        page, url = serve(FakeEngine(), endpoint=endpoint, races=races)
        pages.append(page)
        tab = visit(url, width=width)
        tab.click("button[role=tab]:has-text('Chat')")
        tab.fill("#field-chat-prompt textarea", "Colours?")
        tab.click("#chat-go")
        return tab

    yield ask
    for page in pages:
        page.close()


def test_a_conversation_with_a_server(visit, races):
    asked = []
    words = later(GOOD.splitlines(keepends=True), 0.1)
    page, url = serve(FakeEngine(), endpoint=Endpoint("http://there", client=client(words, asked)), races=races)
    try:
        tab = visit(url)
        tab.click("button[role=tab]:has-text('Chat')")
        tab.wait_for_selector("#stage-chat [data-id=hint]:has-text('Served-1B answers from http://there.')")
        assert tab.inner_text("#stage-chat [data-id=rate]") == ""
        tab.fill("#field-chat-prompt textarea", "Colours?")
        tab.click("#chat-go")
        tab.wait_for_selector("#stage-chat .readout:has-text('tokens/s for 5 tokens')")
        assert tab.inner_text("#stage-chat .turn .text").strip() == "Red, blue"
        assert "colours need this page's own engine" in tab.inner_text("#stage-chat [data-id=rate]")
        hidden = ("renew", "race", "legend", "key")
        assert not any(tab.is_visible(f"#stage-chat [data-id={one}]") for one in hidden)
        assert len(asked) == 2 and not tab.problems
    finally:
        page.close()


def test_an_answer_that_came_in_one_piece_has_no_speed(answered):
    tab = answered(event("Yes", "stop"))
    tab.wait_for_selector("#stage-chat .readout:has-text('1 piece, the first after')")
    assert "/s" not in tab.inner_text("#stage-chat .readout")


def test_an_answer_without_text_says_why(answered):
    tab = answered(event("", "content_filter"))
    said = "nothing to show was written; ended by the server: content_filter"
    tab.wait_for_selector(f"#stage-chat .readout:text-is('{said}')")
    assert not tab.problems


def test_an_answer_after_long_thoughts_begins_at_the_beginning_of_its_box(answered):
    thought = 'data: {"choices": [{"delta": {"reasoning_content": "Hm"}}]}\n\n'
    tab = answered(thought * 400 + event("Colours") + event(" are", "stop"), width=390)
    tab.wait_for_selector("#stage-chat .readout:has-text('402 pieces')")
    box, first = (tab.locator(f"#stage-chat .turn .text{one}").first.bounding_box() for one in ("", " .t"))
    assert 0 <= first["x"] - box["x"] < 30 and 0 <= first["y"] - box["y"] < 30
    assert first["height"] < 30, "the word was broken"


CUT = "#stage-chat .readout .cut"


def test_an_answer_that_broke_off_is_marked_and_one_that_ended_is_not(answered):
    """Once its message was gone from the form, it read as a whole one."""
    tab = answered(event("Red") + 'data: {"error": "no room"}\n\n')
    tab.wait_for_selector(f"{CUT}:text-is('Broke off before its end.')")
    assert "it failed (no room)" in tab.inner_text("#chat-ask")
    status = tab.locator("#stage-chat [data-id=status]").text_content()
    assert ": 1 piece, the first after " in status and status.endswith(". Broke off before its end.")
    whole = answered(event("Red", "stop"))
    whole.wait_for_selector("#stage-chat .readout:has-text('1 piece')")
    assert not whole.is_visible(CUT)


@pytest.mark.parametrize("before", [0, 2])
def test_an_answer_that_was_stopped_is_marked(visit, races, before):
    words = later([event("Red ")] * before + [": wait\n\n"] * 400, 0.1)
    page, url = serve(FakeEngine(), endpoint=Endpoint("http://there", client=client(words, [])), races=races)
    try:
        tab = visit(url)
        tab.click("button[role=tab]:has-text('Chat')")
        tab.fill("#field-chat-prompt textarea", "Colours?")
        tab.click("#chat-go")
        tab.wait_for_selector("#stage-chat .turn .t" if before else "#stage-chat .turn", state="attached")
        tab.click("#chat-stop")
        tab.wait_for_selector(f"{CUT}:text-is('Stopped.')")
        assert not tab.problems
    finally:
        page.close()
