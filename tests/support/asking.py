"""Requests for an engine, short to write."""

from collections.abc import Sequence
from typing import Any

from spectra.settings import AnswerRequest, Message, Sampling


def asked(
    prompt: str | Sequence[Message],
    method: str,
    *,
    max_new_tokens: int = 256,
    temperature: float = 0.0,
    top_p: float = 1.0,
    seed: int = 0,
    **options: Any,
) -> AnswerRequest:
    """prompt: a text, or the messages of a conversation. options: other fields of `AnswerRequest`."""
    talk = not isinstance(prompt, str)
    messages = tuple(prompt) if talk else ({"role": "user", "content": prompt},)
    sampling = Sampling(temperature, top_p=top_p, seed=seed)
    return AnswerRequest(messages, method, max_new_tokens, sampling, in_conversation=talk, **options)
