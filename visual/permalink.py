"""A link that fills the form: `?prompt=&method=&seed=&max_new_tokens=&temperature=&top_p=` and the settings of a method
by name, `&rows=3&pool=off`. It never starts a run.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import gradio as gr
from starlette.datastructures import QueryParams

from spectra.errors import SpectraError
from spectra.settings import MethodSettings, Value
from visual.engine import PLAIN, Engine
from visual.method_settings import FIELDS, OFF, ON, form_of, settings_of
from visual.request import MAX_CHARACTERS, RANGES, number

NUMBERS = ("max_new_tokens", "temperature", "seed", "top_p")
MAX_NAMED = 5
"""Unknown names that are reported, at most."""


class Filled(NamedTuple):
    """What a link sets. form: an update for prompt, method, the lengths and the sampling, in the form's order.

    method: the preset it names, "" for none. changed: that preset's settings. left: what could not be used, and why.
    """

    form: list[Any]
    method: str
    changed: dict[str, Value]
    left: list[str]


def read_link(query: Mapping[str, str], engine: Engine, usual: str) -> Filled:
    """usual: the preset that a link without one is about. What it leaves out or what is out of range stays as it is.

    Of a name that is there several times the last value counts.
    """
    left = _repeated(query)
    whole = query.get("prompt", "")
    prompt = whole[:MAX_CHARACTERS].encode(errors="replace").decode()
    if len(whole) > MAX_CHARACTERS:
        left.append(f"prompt: what follows its first {MAX_CHARACTERS} characters")
    if "prompt" in query and not prompt.strip():
        left.append("prompt: it is blank")
    method = query.get("method", "")
    known = method in engine.methods and method != PLAIN
    if "method" in query and not known:
        left.append(f"method: {method[:40]!r} is not offered here")
    numbers = {field: _number(query, field, left) for field in NUMBERS}
    changed: dict[str, Value] = {}
    for name in FIELDS:
        if name in query:
            changed.update(_setting(name, query[name], method if known else usual, engine, left))
    _leave_empty_pool(changed, engine.settings.get(method if known else usual, {}), left)
    unknown = [name for name in query if not _is_known(name) and not name.startswith("__")]  # those are gradio's own
    left += [f"{name[:40]!r}: there is no such setting" for name in unknown[:MAX_NAMED]]
    if len(unknown) > MAX_NAMED:
        more = len(unknown) - MAX_NAMED
        left.append("1 more name that is no setting" if more == 1 else f"{more} more names that are no setting")
    form = [prompt if prompt.strip() else gr.skip(), method if known else gr.skip(), *numbers.values()]
    return Filled(form, method if known else "", changed, left)


def _leave_empty_pool(changed: dict[str, Value], preset: Mapping[str, Value], left: list[str]) -> None:
    """Take out a pool that would be without rows: each value is in range, but no form with both is taken."""
    try:
        settings_of(form_of(preset, changed), preset)
    except SpectraError:
        changed.pop("pool", None)
        left.append("pool: with 0 rows there is none")


def _is_known(name: str) -> bool:
    return name in {"prompt", "method", *NUMBERS, *FIELDS}


def _repeated(query: Mapping[str, str]) -> list[str]:
    """A line for each field that a link of a browser sets more than once."""
    if not isinstance(query, QueryParams):
        return []
    names = [name for name, _ in query.multi_items()]
    again = [name for name in query if _is_known(name) and names.count(name) > 1]
    return [f"{name}: it is there {names.count(name)} times, and the last one counts" for name in again]


def _number(query: Mapping[str, str], field: str, left: list[str]) -> Any:
    if field not in query:
        return gr.skip()
    try:
        value = number(field, query[field])
        RANGES[field].check(field, value)
    except SpectraError as error:
        left.append(str(error))
        return gr.skip()
    return value


def _setting(name: str, text: str, method: str, engine: Engine, left: list[str]) -> dict[str, Value]:
    """One setting as the preset's form would take it; nothing, and a line in `left`, where it cannot."""
    preset = engine.settings.get(method, {})
    if name not in preset:
        left.append(f"{name}: {method} has no such setting")
        return {}
    if FIELDS[name].switch:
        if text not in (OFF, ON):
            left.append(f"{name}: {text[:40]!r} is neither on nor off")
            return {}
        return MethodSettings(**{name: text == ON}).changed  # type: ignore[arg-type]
    if not text.strip():
        left.append(f"{name}: it is blank")
        return {}
    try:
        return settings_of({name: text}, preset).changed
    except SpectraError as error:
        left.append(str(error))
        return {}
