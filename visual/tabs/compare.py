"""The Compare tab: one prompt through the methods a visitor chose, one after the other."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import gradio as gr
from gradio.components import Component

from spectra.errors import SpectraError
from visual.engine import Engine
from visual.examples import EXAMPLES
from visual.method_settings import FIELDS, NUMBERS
from visual.names import grouped, short
from visual.request import request_of
from visual.run.admission import AdmissionQueue
from visual.run.comparison import comparison_dict, rows
from visual.run.run import Run, stream
from visual.run.sweep import Sweep, lanes_of, read_sweep
from visual.run.tab_state import ShownTabState, let_go
from visual.settings_panel import FOLD, PAPER, SettingsPanel, start_from
from visual.widgets import (
    PRIVATE,
    RUN,
    SKIP,
    NumberFields,
    RunUpdate,
    choice_field,
    example_buttons,
    number_fields,
    prompt_box,
    refusal,
    restore_buttons,
    stop,
    stop_button,
    visitor_of,
    wire,
)
from visual.wire.events import Event, encode, send

TICKED = ("spectra", "spectra-core", "spectra-paper", "prompt-lookup", "token-recycling")
FOLDED = {
    "spectra-no-recycled", "spectra-no-text",
    "spectra-paper-core-no-forward", "spectra-paper-core-no-backward", "spectra-paper-core-no-subngram",
    "spectra-paper-retrieval-no-ppl", "anpd", "lookahead-7b", "lookahead-rest", "suffix-automaton",
    "specinfer-naive", "rrs", "rrsw",
}  # fmt: skip
"""Ablations and variants, which stand under a heading of their own that opens with a click."""


@dataclass(frozen=True, slots=True)
class CompareFields:
    """methods: a group of boxes each. own: the method with settings of its own. sweep, values: of its settings."""

    go: gr.Button
    halt: gr.Button
    prompt: gr.Textbox
    methods: Sequence[Component]
    numbers: NumberFields
    own: gr.Dropdown
    panel: SettingsPanel
    sweep: gr.Dropdown
    values: gr.Textbox

    @property
    def inputs(self) -> list[Component]:
        """In the order in which `CompareHandlers.start` takes them."""
        return [self.prompt, *self.methods, *self.numbers, self.own, *self.panel.fields, self.sweep, self.values]


class CompareHandlers:
    """What the tab's buttons do."""

    def __init__(self, engine: Engine, admission: AdmissionQueue, ask: CompareFields) -> None:
        self._engine = engine
        self._admission = admission
        self._ask = ask

    def start(
        self, visit: gr.Request, state: ShownTabState | None, filled: str, prompt: str, *fields: Any
    ) -> Iterator[RunUpdate]:
        """filled: the model that the panel is of. fields: the ticked methods of each group, the numbers, the panel's
        method and settings, the sweep."""
        state = state or ShownTabState()
        try:
            self._ask.panel.check_model(filled)
            boxes, numbers = len(self._ask.methods), len(self._ask.numbers)
            ticked = [method for methods in fields[:boxes] for method in methods or []]
            chosen = [
                method for method in ticked if method in self._engine.methods or method in self._engine.references
            ]
            form, rest = fields[boxes : boxes + numbers], fields[boxes + numbers :]
            own, settings, vary = str(rest[0]), rest[1:-2], read_sweep(*rest[-2:])
            request = request_of(prompt, own, *form, visitor=visitor_of(visit))
            varied = vary.name if vary is not None else ""
            own_settings = self._ask.panel.read(own, settings, request.visitor, varied)
            request = replace(request, settings=own_settings)
            self.check_sweep(vary, own)
            alone = any(method in self._engine.references for method in chosen)
            run = Run(request, lanes_of(request, chosen, request, vary), brief=True, drawn=True, alone=alone)
            left = [short(method) for method in ticked if method not in chosen]
            if left:
                run.facts["left"] = left
            if vary is not None:
                run.facts["sweep"] = vary.facts(request)
                run.names |= vary.names(request, self._ask.panel.values(own, request.visitor))
            with state.holding(run):
                yield RunUpdate.begun(state)
                for message in stream(self._engine, run, self._admission):
                    if run.thread is not None:
                        state.shown = run
                    yield RunUpdate(send(with_rows(message, run)) if message else SKIP)
        except SpectraError as error:
            yield RunUpdate(refusal(error))

    def offer(self, own: str, chosen: str) -> Any:
        """What can be varied of this method; what was chosen stays where it has it."""
        choices = sweep_choices(self._ask.panel.values(own))
        kept = chosen if chosen in [name for _, name in choices] else ""
        return gr.update(choices=choices, value=kept)

    def check_sweep(self, vary: Sweep | None, own: str) -> None:
        if vary is not None and vary.name not in self._ask.panel.values(own):
            raise SpectraError("sweep", f"{short(own)} has no such setting; choose another one, or another method")

    def resync(self, state: ShownTabState | None) -> Any:
        if state is None or state.shown is None:
            return SKIP
        return send(with_rows(state.shown.snapshot(), state.shown))

    def download(self, state: ShownTabState | None) -> Any:
        if state is None or state.shown is None:
            return refusal(let_go())
        return send({"kind": "file", "name": "spectra-comparison.json", "text": encode(comparison_dict(state.shown))})


def build_compare(page: gr.Blocks, tab: gr.Tab, engine: Engine, admission: AdmissionQueue) -> None:
    """Lay the tab out, inside of it, and connect it."""
    memory = gr.State()
    filled = gr.State(engine.chosen)
    ask = compare_fields(engine)
    facts = {
        "methods": {**engine.methods, **engine.references},
        "examples": [each.why for each in EXAMPLES],
    }
    stage = wire("compare", facts, ("resync", "download"))
    do = CompareHandlers(engine, admission, ask)
    running = gr.on(
        [ask.go.click, ask.prompt.submit],
        do.start,
        [memory, filled, *ask.inputs],
        [stage, memory, ask.go, ask.halt],
        **RUN,
    )
    restore_buttons(running, memory, ask.go, ask.halt)
    ask.halt.click(stop, memory, queue=False, **PRIVATE)
    stage.resync(do.resync, memory, stage, queue=False, **PRIVATE)
    stage.download(do.download, memory, stage, queue=False, **PRIVATE)
    ask.own.change(do.offer, [ask.own, ask.sweep], ask.sweep, queue=False, **PRIVATE)
    if len(engine.models) > 1:
        panel = [filled, ask.panel.changes, *ask.panel.fields]
        for trigger in (tab.select, running.then):
            trigger(ask.panel.of_the_model, [filled, ask.own], panel, queue=False, **PRIVATE)
    ask.panel.follow_stores(tab)
    ask.panel.begin_empty(page)
    page.load(lambda: ask.panel.opened(str(ask.own.value)), None, ask.panel.fields, queue=False, **PRIVATE)


def compare_fields(engine: Engine) -> CompareFields:
    """Laid out inside the current container."""
    with gr.Column(elem_id="compare-ask", elem_classes="card ask"):
        with gr.Row(elem_classes="ask-prompt", equal_height=True):
            prompt = prompt_box("field-compare-prompt")
            go = gr.Button("Compare", elem_id="compare-go", elem_classes="go", scale=0, min_width=96)
            halt = stop_button("compare-stop")
        methods = method_boxes(engine)
        with gr.Row(elem_classes="ask-settings"):
            numbers = number_fields("compare-", tokens=128)
            with gr.Accordion("A method with settings of its own", open=False, elem_classes=FOLD):
                own = own_field(engine)
                panel = SettingsPanel(engine, own, "compare-")
                sweep, values = sweep_fields(panel.values(str(own.value)))
            example_buttons(prompt, EXAMPLES)
    return CompareFields(go, halt, prompt, methods, numbers, own, panel, sweep, values)


def method_boxes(engine: Engine) -> list[gr.CheckboxGroup]:
    """Laid out inside the current container, ablations and variants under a heading that opens with a click."""
    usual = grouped(method for method in engine.methods if method not in FOLDED)
    folded = grouped(method for method in engine.methods if method in FOLDED)
    with gr.Column(elem_id="field-compare-methods"):
        methods = [
            gr.CheckboxGroup(presets, value=[each for _, each in presets if each in TICKED], label=heading)
            for heading, presets in usual
        ]
        if engine.references:
            stock = [(short(name), name) for name in engine.references]
            methods.append(gr.CheckboxGroup(stock, label="Transformers"))
        if folded:
            with gr.Accordion("Ablations and variants", open=False, elem_classes="more-settings"):
                methods += [gr.CheckboxGroup(presets, label=heading) for heading, presets in folded]
    return methods


def own_field(engine: Engine) -> gr.Dropdown:
    """The methods that have settings."""
    adjustable = [name for name in engine.methods if engine.settings.get(name)]
    choices = [(short(name), name) for name in adjustable]
    return choice_field(choices, start_from(engine, PAPER), "Method", "field-compare-method")


def sweep_choices(settings: Collection[str]) -> list[tuple[str, str]]:
    """The numbers among a method's settings, as a list to choose from takes them."""
    return [("no setting", ""), *((FIELDS[name].label, name) for name in NUMBERS if name in settings)]


def sweep_fields(settings: Collection[str]) -> tuple[gr.Dropdown, gr.Textbox]:
    """Laid out inside the current container: which of a method's settings is varied, and over what."""
    with gr.Row(elem_classes="sweep"):
        sweep = choice_field(sweep_choices(settings), "", "Sweep", "field-compare-sweep")
        values = gr.Textbox(
            label="over the values", placeholder="0, 3, 7, 15", elem_id="field-compare-values", max_lines=1
        )
    return sweep, values


def with_rows(message: Event, run: Run) -> Event:
    """The message and the rows of the lanes that have ended by now."""
    return {**message, "rows": rows(run)}
