"""What a conversation asks of whatever answers: the own engine, or a server somewhere."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from visual.engine import Answer, Message, Rate


class Talker(Protocol):
    """The part of an `Engine` that the Chat tab needs; see there."""

    @property
    def methods(self) -> Mapping[str, str]: ...

    @property
    def plain(self) -> Rate: ...

    def measure(self, context: int) -> Rate: ...

    def answer(
        self,
        prompt: str,
        method: str,
        *,
        max_new_tokens: int,
        temperature: float,
        top_p: float,
        seed: int,
        visitor: str = "",
    ) -> Answer: ...

    def chat(
        self,
        messages: Sequence[Message],
        method: str,
        *,
        max_new_tokens: int,
        temperature: float,
        top_p: float,
        seed: int,
        visitor: str = "",
        copied: int | None = None,
        warm: bool = False,
    ) -> Answer: ...

    def start_over(self, visitor: str) -> None: ...
