"""The Chat tab without a browser."""

from types import SimpleNamespace
from typing import Any

import pytest
from fakes_engine import FakeEngine

from visual.run.admission import AdmissionQueue
from visual.run.conversation import Conversation
from visual.tabs.chat import MAX_TURNS, Handlers


def test_a_conversation_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Turns without an answer need none of the model's context, and were kept without end."""
    assert MAX_TURNS == 200
    monkeypatch.setattr("visual.tabs.chat.MAX_TURNS", 3)
    engine = FakeEngine(step_seconds=0.0)
    do, talk = Handlers(engine, AdmissionQueue()), Conversation()
    visit: Any = SimpleNamespace(session_hash="v")

    def say(prompt: str) -> Any:
        return list(do.say(visit, talk, False, prompt, "spectra", 5, 0, 7))[-1].stage

    for _ in range(3):
        say("refuse")
    assert len(talk.turns) == 3 and talk.messages == ()
    assert "this conversation has 3 turns; clear it to begin another" in say("hello")
    assert len(talk.turns) == 3 and not engine.answers
    do.take_back(talk)
    say("hello")
    assert talk.messages and len(talk.turns) == 3
