"""A link that fills the form: `?prompt=&method=&seed=&max_new_tokens=&temperature=&top_p=`. It never starts a run."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import gradio as gr

from spectra.errors import SpectraError
from visual.engine import PLAIN, Engine
from visual.run.request import MAX_CHARACTERS, RANGES, number


class FormUpdate(NamedTuple):
    """An update for every field of the form, in its order."""

    prompt: Any
    method: Any
    max_new_tokens: Any
    temperature: Any
    seed: Any
    top_p: Any


def form_update(query: Mapping[str, str], engine: Engine) -> FormUpdate:
    """What a link's query sets. What it leaves out or what is out of range stays as it is."""
    prompt = query.get("prompt", "")[:MAX_CHARACTERS].encode(errors="replace").decode()
    method = query.get("method", "")
    known = method in engine.methods and method != PLAIN
    return FormUpdate(
        prompt=prompt if prompt.strip() else gr.skip(),
        method=method if known else gr.skip(),
        max_new_tokens=_number(query, "max_new_tokens"),
        temperature=_number(query, "temperature"),
        seed=_number(query, "seed"),
        top_p=_number(query, "top_p"),
    )


def _number(query: Mapping[str, str], field: str) -> Any:
    try:
        value = number(field, query.get(field))
        RANGES[field].check(field, value)
    except SpectraError:
        return gr.skip()
    return value
