"""A row of a data set to the texts in it, each with the prompt it answers."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

ANSWERS = ("assistant", "text", "content", "answer", "completion", "output")
PROMPTS = ("user", "prompt", "instruction", "question")
MESSAGES = "messages"
FIELDS = (*ANSWERS, *PROMPTS, MESSAGES)


@dataclass(frozen=True, slots=True)
class Text:
    """prompt: what it answers, where that is known."""

    text: str
    prompt: str | None = None


def texts_of(row: Any) -> Iterator[Text]:
    """The first of ANSWERS a row has, else the assistant's turns of its messages.

    Raises ValueError saying what is wrong with the row.
    """
    if not isinstance(row, dict):
        raise ValueError("is not a JSON object")
    for name in ANSWERS:
        if row.get(name) is not None:
            yield Text(_text(row[name], name), prompt_of(row))
            return
    turns = row.get(MESSAGES)
    if turns is None:
        raise ValueError(f"has none of the fields {', '.join(ANSWERS)}, {MESSAGES}")
    if not isinstance(turns, list) or not all(isinstance(turn, dict) for turn in turns):
        raise ValueError(f"has {MESSAGES} that are not a list of turns")
    prompt = None
    for turn in turns:
        if turn.get("role") == "user":
            prompt = _text(turn.get("content"), "content")
        elif turn.get("role") == "assistant":
            yield Text(_text(turn.get("content"), "content"), prompt)


def prompt_of(row: dict[str, Any]) -> str | None:
    """The first of PROMPTS that is text."""
    return next((row[name] for name in PROMPTS if isinstance(row.get(name), str)), None)


def _text(value: Any, name: str) -> str:
    if not isinstance(value, str):
        raise ValueError(f"has a {name} that is not text")
    return value.encode("utf-8", "replace").decode()  # JSON can hold half a surrogate pair
