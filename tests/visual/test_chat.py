"""The Chat tab without a browser."""

import json
from types import SimpleNamespace
from typing import Any

import pytest
from fakes_engine import FakeEngine

from visual.run.admission import AdmissionQueue
from visual.run.conversation import Conversation
from visual.tabs.chat import MAX_TURNS, ChatHandlers

VISIT: Any = SimpleNamespace(session_hash="v")


def say(do: ChatHandlers, talk: Conversation, prompt: str) -> list[Any]:
    return list(do.say(VISIT, talk, False, prompt, "spectra", 5, 0, 7))


def message_of(update: Any) -> Any:
    return json.loads(update.stage)


def test_a_conversation_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Turns without an answer need none of the model's context, and were kept without end."""
    assert MAX_TURNS == 200
    monkeypatch.setattr("visual.tabs.chat.MAX_TURNS", 3)
    engine = FakeEngine(step_seconds=0.0)
    do, talk = ChatHandlers(engine, AdmissionQueue()), Conversation()
    for _ in range(3):
        say(do, talk, "hello")
        talk.turns[-1].traces.clear()
    assert len(talk.turns) == 3 and talk.messages == ()
    answered = len(engine.answers)
    assert "this conversation has 3 turns; clear it to begin another" in say(do, talk, "hello")[-1].stage
    assert len(talk.turns) == 3 and len(engine.answers) == answered
    do.take_back(talk)
    say(do, talk, "hello")
    assert talk.messages and len(talk.turns) == 3


def test_a_conversation_is_what_was_said_and_as_long_as_its_last_turn() -> None:
    assert Conversation().messages == () and Conversation().context == 0
    said = [("one", "first", [1, 2], [3]), ("two", " \n", [1, 2, 3, 4], [5]), ("three", "last", [1, 2, 3, 6], [7, 8])]
    turns: list[Any] = [
        SimpleNamespace(
            request=SimpleNamespace(prompt=prompt),
            traces={"method": SimpleNamespace(text=text, prompt_tokens=before, tokens=new)},
        )
        for prompt, text, before, new in said
    ]
    talk = Conversation(turns=turns)
    assert [message["content"] for message in talk.messages] == ["one", "first", "three", "last"]
    assert [message["role"] for message in talk.messages] == ["user", "assistant"] * 2
    assert talk.context == 4 + 2


@pytest.mark.parametrize("turns", [0, 1])
def test_a_message_that_is_refused_leaves_the_conversation_as_it_was_and_returns_to_the_box(turns: int) -> None:
    do, talk = ChatHandlers(FakeEngine(step_seconds=0.0), AdmissionQueue()), Conversation()
    for _ in range(turns):
        say(do, talk, "hello")
    before = list(talk.turns)
    last = say(do, talk, "refuse")[-1]
    problem = {"field": "prompt", "text": "9000 tokens do not fit; give at most 8192"}
    expected = {"kind": "back", "turn": turns, "problem": problem}
    assert message_of(last).items() >= expected.items() and last.prompt == "refuse"
    assert talk.turns == before and not talk.busy and talk.latest is (before[-1] if before else None)
    say(do, talk, "hello")
    assert len(talk.turns) == turns + 1


def test_a_message_that_is_cancelled_before_it_waits_for_its_turn_leaves_the_conversation_free() -> None:
    do, talk = ChatHandlers(FakeEngine(step_seconds=0.0), AdmissionQueue()), Conversation()
    updates = do.say(VISIT, talk, False, "hello", "spectra", 5, 0, 7)
    next(updates)
    assert talk.busy
    updates.close()
    assert not talk.busy
    say(do, talk, "hello")
    assert len(talk.turns) == 1
