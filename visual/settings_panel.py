"""The panel of a method's settings: two presets to start from, a field for each setting, and how the presets differ."""

import json
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import gradio as gr

from spectra.settings import MethodSettings, Value
from visual.engine import Engine
from visual.method_settings import FIELDS, form_of, settings_of
from visual.run.run import another_chose
from visual.widgets import PRIVATE, SKIP, visitor_of

PAPER = ("spectra-paper", "spectra-paper-core")
FAST = ("spectra", "spectra-core")
FOLD = ["more-settings", "method-settings"]
"""Classes of the fold that a panel is in."""
ROWS_MAKE_A_POOL = "(rows) => rows === null || rows > 0"
"""What the box of the pool shows once a number of rows was written, or taken out again where the preset leaves it open:
it can be switched off after that."""
OF_STORES = ("retrieval", "successors")
"""Settings that come to something else where a refined datastore fits the model."""
ELSE = (
    "The paper scores every guess, up to G of them, whatever a wide pass costs; on this device a budget keeps those "
    "worth their time, the dictionaries also learn from the text and from rejected guesses, and the backward one "
    "guesses longer runs."
)


def start_from(engine: Engine, presets: Sequence[str]) -> str:
    """The first of these presets that runs here."""
    return next((name for name in presets if name in engine.methods), next(iter(engine.methods)))


class SettingsPanel:
    """Lays itself out inside the current container. method: the field that names the preset.

    scope: what ids start with after "field-".
    """

    def __init__(self, engine: Engine, method: gr.Dropdown, scope: str = "") -> None:
        self.engine = engine
        self.method = method
        with gr.Row(elem_classes="start-from"):
            paper = gr.Button("As in the paper", elem_classes="quiet", size="sm", min_width=0)
            fast = gr.Button("As fast as this device allows", elem_classes="quiet", size="sm", min_width=0)
        preset = str(method.value)
        self._built = dict(self.values(preset))
        self.fields = [self._field(name, preset, scope) for name in FIELDS]
        self.changes = gr.HTML(self.differences(), apply_default_css=False, elem_classes="differences")
        for button, presets in ((paper, PAPER), (fast, FAST)):
            button.click(self._starter(presets), None, [method, *self.fields], queue=False, **PRIVATE)
        method.input(self.chosen, method, self.fields, queue=False, **PRIVATE)
        named = dict(zip(FIELDS, self.fields, strict=True))
        named["rows"].input(None, named["rows"], named["pool"], js=ROWS_MAKE_A_POOL, **PRIVATE)

    def read(self, method: object, values: Sequence[object], visitor: str, varied: str = "") -> MethodSettings:
        """What the fields change about a preset, see `settings_of`. Raises `SpectraError` naming the field."""
        return settings_of(dict(zip(FIELDS, values, strict=True)), self.values(str(method), visitor), varied)

    def chosen(self, visit: gr.Request, method: str) -> list[Any]:
        """`updates` for a preset that the visitor chose."""
        return self.updates(method, visitor=visitor_of(visit))

    def updates(self, method: str, changed: Mapping[str, Value] | None = None, *, visitor: str = "") -> list[Any]:
        """For every field: the preset's values, some of them changed; what the preset has not is not to be seen.

        visitor: whose own datastore counts.
        """
        values = self.values(method, visitor)
        now = form_of(values, changed or {})
        return [
            gr.update(value=now.get(name), visible=name in values, **({} if field.switch else _empty(values, name)))
            for name, field in FIELDS.items()
        ]

    def begin_empty(self, page: gr.Blocks) -> None:
        """gradio begins a number that is None with 0; the browser empties it, sooner than anyone can write into it."""
        named = zip(FIELDS, self.fields, strict=True)
        left_open = [field for name, field in named if not FIELDS[name].switch and self._built.get(name) is None]
        if left_open:
            page.load(None, None, left_open, js=f"() => {json.dumps([None] * len(left_open))}", **PRIVATE)

    def opened(self, method: str) -> list[Any]:
        """For every field of a page that was just opened on this preset, the one that it was built on.

        A visitor may have changed a field before this comes, so all stay as they are unless the page was built for
        another model with other values.
        """
        return [SKIP] * len(self.fields) if self.values(method) == self._built else self.updates(method)

    def check_model(self, filled: str) -> None:
        """Raises `SpectraError` where another visitor has chosen another model since the panel was filled for this one:
        what it shows would run as changes of that model's presets."""
        if filled != self.engine.chosen:
            raise another_chose(self.engine.chosen)

    def of_the_model(self, visit: gr.Request, filled: str, method: str) -> list[Any]:
        """The model in use, how its presets differ, and an update for every field; nothing where it is `filled`."""
        if filled == self.engine.chosen:
            return [SKIP] * (2 + len(self.fields))
        visitor = visitor_of(visit)
        return [self.engine.chosen, self.differences(visitor), *self.updates(method, visitor=visitor)]

    def follow_stores(self, tab: gr.Tab) -> None:
        """Whenever the tab is opened: show what runs once the visitor has a datastore, or has it no more."""
        fits = gr.State(self._store_fits())
        shown = [fits, self.changes, *self.fields]
        tab.select(self.with_stores, [fits, self.method], shown, queue=False, **PRIVATE)

    def with_stores(self, visit: gr.Request, fitted: bool, method: str) -> list[Any]:
        """fitted: whether a refined datastore fitted when the panel was filled; where it is as it was, all stays."""
        visitor = visitor_of(visit)
        fits = self._store_fits(visitor)
        if fits == fitted:
            return [SKIP] * (2 + len(self.fields))
        values = self.values(method, visitor)
        of_stores = [gr.update(value=values[name]) if name in OF_STORES and name in values else SKIP for name in FIELDS]
        return [fits, self.differences(visitor), *of_stores]

    def _store_fits(self, visitor: str = "") -> bool:
        return any(card.get("refined") for card in self.engine.stores(visitor))

    def values(self, method: str, visitor: str = "") -> Mapping[str, Value]:
        return self.engine.settings_of(method, visitor)

    def differences(self, visitor: str = "") -> str:
        """The two presets side by side, as HTML."""
        presets = [self.values(start_from(self.engine, names), visitor) for names in (PAPER, FAST)]
        rows = "".join(
            f"<tr><th scope=row>{escape(field.label)}</th>"
            + "".join(f"<td>{_shown(values, name)}</td>" for values in presets)
            + f"<td>{escape(field.info)}</td></tr>"
            for name, field in FIELDS.items()
        )
        head = "<tr><th></th><th scope=col>Paper</th><th scope=col>This device</th><th></th></tr>"
        return (
            f"<details><summary>What differs between the two</summary><div><table>{head}{rows}</table></div>"
            f"<p>{ELSE}</p></details>"
        )

    def _starter(self, presets: Sequence[str]) -> Any:
        def start(visit: gr.Request) -> list[Any]:
            chosen = start_from(self.engine, presets)
            return [chosen, *self.chosen(visit, chosen)]

        return start

    def _field(self, name: str, preset: str, scope: str) -> gr.Number | gr.Checkbox:
        field, values = FIELDS[name], self.values(preset)
        common: dict[str, Any] = {"label": field.label, "elem_id": f"field-{scope}{name}", "visible": name in values}
        value: Any = values.get(name)
        if field.switch:
            return gr.Checkbox(bool(value), **common)
        return gr.Number(value, step=0.1 if name == "refine" else 1, **_empty(values, name), **common)


def _empty(values: Mapping[str, Value], name: str) -> dict[str, Any]:
    """What the field says while it is empty: only where the preset leaves it open may it stay so."""
    return {"placeholder": FIELDS[name].open if name in values and values[name] is None else ""}


def _shown(values: Mapping[str, Value], name: str) -> str:
    if name not in values:
        return "–"
    value = values[name]
    if value is None:
        return FIELDS[name].open
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"{value:g}"
