"""The answer to what a page asks when it opens, as what its link says: what a visitor has changed by then stays."""

import json
from collections.abc import Callable, Sequence
from typing import Any

import gradio as gr
from gradio.components import Component

from visual.widgets import PRIVATE

WHAT_STAYS = """(updates, ...now) => {
  const built = %s, method = %d, panel = %d;
  const touched = (at) => (now[at] ?? '') !== (built[at] ?? '');
  const others = touched(method) ? now.length - panel : now.length;
  return now.map((value, at) => {
    const { value: given, ...rest } = updates[at];
    return at >= others ? { __type__: 'update' } : touched(at) ? rest : updates[at];
  });
}"""
"""In the browser, in the moment in which the answer is there: what a field shows against what it was built with. The
settings of another preset than the visitor's are of no use, so all of them stay where the preset was changed.
"""


def fill_at_first(
    page: gr.Blocks,
    answer: Callable[..., Sequence[Any]],
    fields: Sequence[Component],
    method: Component,
    settings: Sequence[Component],
    others: Sequence[Component] = (),
) -> None:
    """Call `answer` when the page opens; it returns an update for each of the fields, the settings and the others.

    method: the one of the fields that names the preset whose settings these are. others: no fields of a visitor's.
    """
    filled = [*fields, *settings]
    updates = gr.JSON(visible=False)

    def asked(visit: gr.Request) -> list[Any]:
        answered = answer(visit)
        values = [each if isinstance(each, dict) else gr.update(value=each) for each in answered[: len(filled)]]
        return [values, *answered[len(filled) :]]

    built = json.dumps([field.value for field in filled])
    keep = WHAT_STAYS % (built, fields.index(method), len(settings))
    load = page.load(asked, None, [updates, *others], queue=False, **PRIVATE)
    load.then(None, [updates, *filled], filled, js=keep, **PRIVATE)
