"""What a visitor asked for, checked once. The page's ranges are narrower than the library's."""

import math
from dataclasses import dataclass
from typing import Any

from spectra.errors import SpectraError
from spectra.settings import check_number
from visual.engine import Answer, Message, Talker

MOST_TOKENS = 2048
MOST_CHARACTERS = 20_000
MOST_SEED = 2**53 - 1
SETTINGS = ("max_new_tokens", "temperature", "top_p", "seed")


@dataclass(frozen=True, slots=True)
class Request:
    """Raises `SpectraError` naming the field that is out of range. earlier: the turns before, in a conversation.

    visitor: who asks. copied: start from a copy of so many tokens of the visitor's kept cache and leave that as it is.
    warm: guess by what earlier answers taught.
    """

    prompt: str
    method: str
    max_new_tokens: int
    temperature: float
    seed: int
    top_p: float = 1.0
    earlier: tuple[Message, ...] = ()
    conversation: bool = False
    visitor: str = ""
    copied: int | None = None
    warm: bool = False

    def __post_init__(self) -> None:
        if not self.prompt.strip():
            raise SpectraError("prompt", "it is empty; write what the model should answer")
        if len(self.prompt) > MOST_CHARACTERS:
            raise SpectraError("prompt", f"{len(self.prompt)} characters; give at most {MOST_CHARACTERS}")
        check_number("max_new_tokens", self.max_new_tokens, 1, MOST_TOKENS, whole=True)
        check_number("temperature", self.temperature, 0, 2)
        check_number("top_p", self.top_p, 0, 1, open_low=True)
        check_number("seed", self.seed, 0, MOST_SEED, whole=True)

    @classmethod
    def of(
        cls,
        prompt: object,
        method: object,
        max_new_tokens: object,
        temperature: object,
        seed: object,
        top_p: object = 1.0,
        **more: Any,
    ) -> "Request":
        """From the fields of the form, whatever they hold."""
        return cls(
            prompt=str(prompt or ""),
            method=str(method or ""),
            max_new_tokens=number("max_new_tokens", max_new_tokens),
            temperature=number("temperature", temperature),
            seed=number("seed", seed),
            top_p=number("top_p", top_p),
            **more,
        )

    @property
    def settings(self) -> dict[str, Any]:
        """What an engine is asked besides prompt and method."""
        return {key: getattr(self, key) for key in SETTINGS}

    def start(self, engine: Talker, method: str) -> Answer:
        """Begin this answer by some method."""
        settings = {**self.settings, "visitor": self.visitor}
        if self.conversation:
            messages = [*self.earlier, {"role": "user", "content": self.prompt}]
            return engine.chat(messages, method, **settings, copied=self.copied, warm=self.warm)
        return engine.answer(self.prompt, method, **settings)


def number(field: str, value: object) -> Any:
    """A browser sends 256 as 256.0, an empty field as None and a link's figures as text; the check refuses the rest."""
    if value is None or value == "":
        raise SpectraError(field, "it is empty; give a number")
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return value
    return int(value) if isinstance(value, float) and math.isfinite(value) and value.is_integer() else value
