"""A method's settings as the page has them: names, what a form holds, links, what was changed in words. No gradio."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from spectra.errors import SpectraError
from spectra.settings import AnswerRequest, MethodSettings, Value
from visual.request import number


@dataclass(frozen=True, slots=True)
class Field:
    """letter: what charts and lanes call it. label, info: of its input. switch: on or off, not a number. open: what an
    empty input says, of presets that leave the number open.
    """

    letter: str
    label: str
    info: str
    switch: bool = False
    open: str = ""


FIELDS = {
    "order": Field("N", "N", "Tokens of an n-gram: a dictionary's guess has one less"),
    "rows": Field("W", "W", "Rows of the candidate pool, N − 1 query tokens each", open="as pays"),
    "guesses": Field("G", "G", "The most guesses a step; on this device as many as pay", open="as pays"),
    "refine": Field("refine", "Refine", "Chance that a row must predict a token that no n-gram begins with yet"),
    "nodes": Field(
        "budget",
        "Node budget",
        "The most guessed tokens a step, pool rows too; none: as N, W and G",
        open="none",
    ),
    "successors": Field(
        "top-k", "Top-k", "Likely successors kept of each scored token, to guess from; 0: none", open="as pays"
    ),
    "forward": Field("forward dictionary", "Forward dictionary", "What followed the last token", switch=True),
    "backward": Field("backward dictionary", "Backward dictionary", "What followed the last few tokens", switch=True),
    "subngrams": Field("sub-n-grams", "Sub-n-grams", "A pool row teaches every n-gram in it", switch=True),
    "pool": Field("pool", "Candidate pool", "Rows of tokens that each pass moves on by one", switch=True),
    "retrieval": Field("retrieval", "Retrieval", "Guess from the datastores that fit the model", switch=True),
}
"""Of `MethodSettings`, in the order of the panel."""

ON, OFF = "on", "off"
"""How a link says it."""
NUMBERS = tuple(name for name, field in FIELDS.items() if not field.switch)


def settings_of(form: Mapping[str, object], preset: Mapping[str, Value], varied: str = "") -> MethodSettings:
    """What a form changes about a preset. What the form or the preset has not and what is equal is not changed.

    A number of rows alone would bring a pool, so a pool that the form leaves off beside one is switched off. Another
    retrieval alone would bring another top-k, another N or node budget other rows, so the form's are asked for beside
    it. varied: a setting that will have other values than the form's, see `visual.run.sweep`.
    Raises `SpectraError` naming the field that is no number, out of range, or empty where the preset has a number, and
    for a pool without rows.
    """
    changed: dict[str, object] = {}
    for name, field in FIELDS.items():
        value = form.get(name)
        left_open = preset.get(name) is None and value in (None, "")
        if name not in preset or name not in form or left_open:
            continue
        value = bool(value) if field.switch else number(name, value)
        if value != preset[name]:
            changed[name] = value
    if form.get("pool") and changed.get("rows", preset.get("rows")) == 0:
        raise SpectraError("rows", "it is 0, so there is no pool; give 1 or more, or switch the pool off")
    if changed.get("rows") and not form.get("pool", True):
        changed["pool"] = False
    if "rows" in preset and "rows" not in changed and _rows_follow(preset) & {*changed, varied}:
        if not form.get("pool", True):
            changed["pool"] = False
        elif form.get("rows") not in (None, ""):
            changed["rows"] = number("rows", form["rows"])
    if "retrieval" in changed and "successors" in preset and form.get("successors") not in (None, ""):
        changed["successors"] = number("successors", form["successors"])
    return MethodSettings(**changed)  # type: ignore[arg-type]


def _rows_follow(preset: Mapping[str, Value]) -> set[str]:
    """What the rows of a preset go by: a fixed number is cut to the node budget, one that goes by the device by N too.

    Only presets that go by the device have successors.
    """
    return {"order", "nodes"} if "successors" in preset else {"nodes"}


def form_of(preset: Mapping[str, Value], changed: Mapping[str, Value]) -> dict[str, Value]:
    """What a form shows of a preset with these changes: there is a pool where there are rows and it is not left off."""
    form = {**preset, **changed}
    if "pool" in preset and "rows" in changed and "pool" not in changed:
        form["pool"] = bool(changed["rows"])
    return form


def link_of(request: AnswerRequest) -> dict[str, Any]:
    """The fields that a link to this request sets, see `visual.permalink`."""
    return {
        "max_new_tokens": request.max_new_tokens,
        "temperature": request.sampling.temperature,
        "top_p": request.sampling.top_p,
        "seed": request.sampling.seed,
        "prompt": request.prompt,
        "method": request.method,
        **link_values(request.settings.changed),
    }


def link_values(changed: Mapping[str, Value]) -> dict[str, Any]:
    """What was changed, as a link has it."""
    return {name: (ON if value else OFF) if FIELDS[name].switch else value for name, value in changed.items()}


CUT_BY = {
    "rows": "the node budget has no room for more rows",
    "nodes": "the other settings, or this device, allow no more",
}
"""Settings of which a method may take less than was asked for, and why."""
CUT_BY_SIZE = {"nodes": "the method, or this device, makes no more of it"}
"""The same of a method that has no other setting; a tree of whole levels may come to less than its largest size."""


def cut_in_words(changed: Mapping[str, object], values: Mapping[str, object]) -> str:
    """What was asked for and did not come of it, in a sentence; "" where everything did.

    values: what the settings came to.
    """
    of_pool = ("rows", "refine", "subngrams")
    asked = [name for name in of_pool if name in changed and (changed[name] or name != "rows")]
    if changed.get("pool") is not False:
        asked = [name for name in asked if name != "rows"]  # they were cut to none
    idle = asked if values.get("pool") is False else []
    letters = listed([FIELDS[name].letter for name in idle])
    cut = [f"{letters} changed nothing: there was no candidate pool"] if idle else []
    cut += [
        f"{FIELDS[name].letter} was {values[name]} instead of {changed[name]}: {why}"
        for name, why in (CUT_BY_SIZE if values.keys() == CUT_BY_SIZE.keys() else CUT_BY).items()
        if name in changed and name in values and values[name] != changed[name] and name not in idle
    ]
    return f"{'; '.join(cut)}." if cut else ""


def listed(items: Sequence[str]) -> str:
    """The items as a part of a sentence: with commas, and "and" before the last one."""
    return " and ".join(part for part in (", ".join(items[:-1]), *items[-1:]) if part)


def in_words(changed: Mapping[str, Value]) -> str:
    """What was changed, in a few words; "" for nothing."""
    return ", ".join(
        f"{'with' if value else 'no'} {FIELDS[name].letter}"
        if FIELDS[name].switch
        else f"{FIELDS[name].letter} {value:g}"
        for name, value in changed.items()
        if name in FIELDS and value is not None
    )
