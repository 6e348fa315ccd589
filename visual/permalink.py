"""A link that fills the form: `?prompt=&method=&seed=&max_new_tokens=&temperature=&top_p=`. It never starts a run."""

from collections.abc import Mapping
from typing import Any

import gradio as gr

from spectra.errors import SpectraError
from spectra.settings import check_number
from visual.engine import PLAIN, Engine
from visual.form import MOST_CHARACTERS, MOST_SEED, MOST_TOKENS, number

RANGES = {
    "max_new_tokens": (1, MOST_TOKENS, True),
    "temperature": (0, 2, False),
    "seed": (0, MOST_SEED, True),
    "top_p": (0.01, 1, False),
}
"""(least, most, whole) of the numbers a link may set."""


def fields_of(query: Mapping[str, str], engine: Engine) -> tuple[Any, ...]:
    """An update for prompt, method, max new tokens, temperature, seed and top-p; what is out of range is left out."""
    prompt = query.get("prompt", "")[:MOST_CHARACTERS]
    method = query.get("method", "")
    known = method in engine.methods and method != PLAIN
    numbers = {field: _number(query, field) for field in RANGES}
    return (
        prompt if prompt.strip() else gr.skip(),
        method if known else gr.skip(),
        *(gr.skip() if numbers[field] is None else numbers[field] for field in ("max_new_tokens", "temperature")),
        *(gr.skip() if numbers[field] is None else numbers[field] for field in ("seed", "top_p")),
    )


def _number(query: Mapping[str, str], field: str) -> Any:
    low, high, whole = RANGES[field]
    try:
        value = number(field, query.get(field))
        check_number(field, value, low, high, whole=whole)
    except SpectraError:
        return None
    return value
