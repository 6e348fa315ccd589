"""What a visitor asked for, checked once. The page's ranges are narrower than the library's."""

import math
import re
from dataclasses import replace
from decimal import Decimal
from typing import Any

from spectra.errors import SpectraError
from spectra.settings import AnswerRequest, Message, MethodSettings, Range, Sampling
from visual.engine import PLAIN

MAX_TOKENS = 2048
MAX_CHARACTERS = 20_000
MAX_SEED = 2**53 - 1
WHOLE = re.compile(r"[+-]?[0-9]{1,4000}")
"""A whole number as text, no longer than Python reads one."""


RANGES = {
    "max_new_tokens": Range(1, MAX_TOKENS, whole=True),
    "temperature": Range(0, 2),
    "top_p": Range(0, 1, open_low=True),
    "seed": Range(0, MAX_SEED, whole=True),
}
"""The numbers of a request."""


def request_of(
    prompt: object,
    method: object,
    max_new_tokens: object,
    temperature: object,
    seed: object,
    top_p: object = 1.0,
    *,
    earlier: tuple[Message, ...] = (),
    **options: Any,
) -> AnswerRequest:
    """A request from the fields of the form, whatever they hold.

    earlier: the turns before, in a conversation. options: other fields of `AnswerRequest`. Raises `SpectraError` naming
    the field that is empty or out of range.
    """
    fields = {"max_new_tokens": max_new_tokens, "temperature": temperature, "seed": seed, "top_p": top_p}
    numbers = {field: number(field, value) for field, value in fields.items()}
    if prompt is not None and not isinstance(prompt, str):
        raise SpectraError("prompt", "it is no text; give one")
    text = prompt or ""
    if not text.strip():
        raise SpectraError("prompt", "it is empty; write what the model should answer")
    if len(text) > MAX_CHARACTERS:
        raise SpectraError("prompt", f"{len(text)} characters; give at most {MAX_CHARACTERS}")
    if text != text.encode(errors="replace").decode():
        raise SpectraError("prompt", "it is not valid Unicode; give it as UTF-8")
    for field, allowed in RANGES.items():
        allowed.check(field, numbers[field])
    sampling = Sampling(numbers["temperature"], top_p=numbers["top_p"], seed=numbers["seed"])
    messages = (*earlier, {"role": "user", "content": text})
    return AnswerRequest(messages, str(method or ""), numbers["max_new_tokens"], sampling, **options)


def plainly(request: AnswerRequest) -> AnswerRequest:
    """The same by plain decoding."""
    return replace(request, method=PLAIN, settings=MethodSettings(), explain=False)


def number(field: str, value: object) -> Any:
    """A browser sends 256 as 256.0, an empty field as None and a link's figures as text; the check refuses the rest."""
    if value is None or value == "":
        raise SpectraError(field, "it is empty; give a number")
    if isinstance(value, str):
        if WHOLE.fullmatch(value.strip()):
            return int(value)  # a float would be another number from 2**53 on
        try:
            value = value if "_" in value or not value.isascii() else float(value)
        except ValueError:
            return value
    if isinstance(value, float) and math.isfinite(value) and value.is_integer():
        return int(Decimal(repr(value)))  # 1e30 has other figures in binary
    return value
