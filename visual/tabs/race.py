"""The Race tab: a prompt, its settings, and one stage that draws what the wire brings."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import gradio as gr
from gradio.components import Component

from spectra.errors import SpectraError
from spectra.settings import AnswerRequest
from visual import palette
from visual.engine import Engine
from visual.examples import EXAMPLES
from visual.first_answer import fill_at_first
from visual.permalink import read_link
from visual.request import request_of
from visual.run.admission import AdmissionQueue
from visual.run.race_file import RaceFile, race_dict, shipped
from visual.run.run import Run
from visual.run.tab_state import ShownTabState, let_go
from visual.settings_panel import FOLD, SettingsPanel
from visual.widgets import (
    PRIVATE,
    RUN,
    SKIP,
    PromptUpdate,
    RunUpdate,
    choice_field,
    example_buttons,
    method_field,
    number_fields,
    prompt_box,
    refusal,
    relay,
    restore_buttons,
    stop,
    stop_button,
    visitor_of,
    wire,
)
from visual.wire.events import Event, encode, send


@dataclass(frozen=True, slots=True)
class RaceFields:
    """model: which one is wanted. filled: the one that the panel is of, which stays while the other is loaded.

    asked: what a race is asked for, in the order in which `RaceHandlers.start` takes it after `filled` and before the
    panel's fields.
    """

    go: gr.Button
    halt: gr.Button
    prompt: gr.Textbox
    model: gr.Dropdown
    filled: gr.State
    method: gr.Dropdown
    panel: SettingsPanel
    asked: Sequence[Component]
    left_out: gr.HTML


class RaceHandlers:
    """What the tab's buttons and fields do."""

    def __init__(self, engine: Engine, admission: AdmissionQueue, ask: RaceFields) -> None:
        self._engine = engine
        self._admission = admission
        self._asked = ask.asked
        self._method = ask.method
        self._model = ask.model
        self._panel = ask.panel
        self._badges = list(engine.badges)

    def race(self, state: ShownTabState, request: AnswerRequest, *, alone: bool = False) -> Iterator[RunUpdate]:
        run = Run.against_plain(request, alone=alone, drawn=True)
        with state.holding(run):
            yield RunUpdate.begun(state)
            for message in relay(self._engine, run, self._admission):
                if run.thread is not None:
                    state.shown = run
                yield RunUpdate(message)

    def start(self, visit: gr.Request, state: ShownTabState | None, filled: str, *fields: Any) -> Iterator[RunUpdate]:
        state = state or ShownTabState()
        try:
            self._panel.check_model(filled)
            explain, *form = fields[: len(self._asked)]
            visitor = visitor_of(visit)
            settings = self._panel.read(form[1], fields[len(self._asked) :], visitor)
            request = request_of(*form, visitor=visitor, settings=settings, explain=bool(explain))
        except SpectraError as error:
            yield RunUpdate(refusal(error))
            return
        if state.busy:
            yield RunUpdate()  # a handler must yield something
        else:
            yield from self.race(state, request)

    def again(self, state: ShownTabState | None, filled: str, alone: bool = False) -> Iterator[RunUpdate]:
        try:
            if state is None or state.shown is None:
                raise let_go()
            self._panel.check_model(filled)
        except SpectraError as error:
            yield RunUpdate(refusal(error))
            return
        if state.busy:
            yield RunUpdate()
        else:
            yield from self.race(state, state.shown.request, alone=alone)

    def measure_alone(self, state: ShownTabState | None, filled: str) -> Iterator[RunUpdate]:
        yield from self.again(state, filled, alone=True)

    def resync(self, state: ShownTabState | None) -> Any:
        return send(state.shown.snapshot()) if state and state.shown else SKIP

    def download(self, state: ShownTabState | None) -> Any:
        if state is None or state.shown is None:
            return refusal(let_go())
        return send({"kind": "file", "name": "spectra-race.json", "text": encode(race_dict(state.shown.traces))})

    def clear(self, state: ShownTabState | None) -> PromptUpdate:
        stop(state)
        return PromptUpdate(send({"kind": "clear"}), None, "")

    def switch(self, visit: gr.Request, model: str, filled: str, method: str) -> Iterator[list[Any]]:
        """Load a model that was chosen. Where the field was left as it was, none is: the page shows what is in use."""
        as_it_is = [SKIP] * len(self._panel.fields)
        if model == filled:
            yield self.of_the_model(visit, filled, method)
            return
        yield [send({"kind": "loading", "model": model}), SKIP, SKIP, SKIP, *as_it_is]
        try:
            with self._admission.turn(visitor_of(visit)):
                self._engine.choose(model)
                panel = [self._panel.differences(), *self._panel.updates(method)]
                ready = [self.model_in_use(), SKIP, model, *panel]
            yield ready
        except SpectraError as error:
            yield [refusal(error), self._engine.chosen, SKIP, SKIP, *as_it_is]

    def model_in_use(self) -> str:
        badges = badges_of(self._engine, self._admission)
        cost = [list(row) for row in self._engine.cost]
        return send({"kind": "model", "model": self._engine.model, "badges": badges, "cost": cost})

    def opened(self) -> list[Any]:
        """The page was built for the first model; a visitor may have chosen another one since, or had it measured."""
        chosen = self._engine.chosen
        if chosen == self._model.value and list(self._engine.badges) == self._badges:
            return [SKIP, SKIP, SKIP, SKIP]
        return [self.model_in_use(), chosen, chosen, self._panel.differences()]

    def of_the_model(self, visit: gr.Request, filled: str, method: str) -> list[Any]:
        """After a race, or one that was refused for it: another visitor may have chosen another model."""
        stage = SKIP if filled == self._engine.chosen else self.model_in_use()
        chosen, *panel = self._panel.of_the_model(visit, filled, method)
        return [stage, chosen, chosen, *panel]

    def learned(self) -> str | Any:
        """What a lent GPU told of the model during a race."""
        return self.model_in_use() if self._engine.cost else SKIP

    def link(self, visit: gr.Request) -> list[Any]:
        usual = str(self._method.value)
        filled = read_link(visit.query_params, self._engine, usual)
        named = filled.method or filled.changed
        settings = self._panel.updates(filled.method or usual, filled.changed) if named else self._panel.opened(usual)
        left = f"Left out of the link: {'; '.join(filled.left)}." if filled.left else ""
        return [*filled.form, *settings, gr.update(value=escape(left), visible=bool(left))]


def build_race(page: gr.Blocks, tab: gr.Tab, engine: Engine, admission: AdmissionQueue, races: Path) -> None:
    """Lay the tab out, inside of it, and connect it."""
    memory = gr.State()
    ask = race_fields(engine)
    stage = wire("race", facts(engine, races, admission), ("resync", "download", "again", "alone", "clear", "opened"))
    do = RaceHandlers(engine, admission, ask)
    fields = [ask.filled, *ask.asked, *ask.panel.fields]
    outputs = [stage, memory, ask.go, ask.halt]
    running = gr.on([ask.go.click, ask.prompt.submit], do.start, [memory, *fields], outputs, **RUN)
    repeated = stage.again(do.again, [memory, ask.filled], outputs, **RUN)
    measured = stage.alone(do.measure_alone, [memory, ask.filled], outputs, **RUN)
    told = [stage, ask.model, ask.filled, ask.panel.changes]
    switched = [*told, *ask.panel.fields]
    last = {**RUN, "trigger_mode": "always_last"}
    # it has its new value when it is left, once for each choice; gradio says `input` then, too, and before
    ask.model.blur(do.switch, [ask.model, ask.filled, ask.method], switched, **last)
    for each in (running, repeated, measured):
        if len(engine.models) > 1:
            each.then(do.of_the_model, [ask.filled, ask.method], switched, queue=False, **PRIVATE)
        restore_buttons(each, memory, ask.go, ask.halt)
        if not engine.cost:
            each.then(do.learned, None, stage, queue=False, **PRIVATE)
    ask.halt.click(stop, memory, queue=False, **PRIVATE)
    stage.resync(do.resync, memory, stage, queue=False, **PRIVATE)
    stage.download(do.download, memory, stage, queue=False, **PRIVATE)
    cleared = [stage, memory, ask.prompt]
    stage.clear(do.clear, memory, cleared, cancels=[running, repeated, measured], queue=False, **PRIVATE)
    stage.opened(do.opened, None, told, queue=False, **PRIVATE)
    ask.panel.follow_stores(tab)
    ask.panel.begin_empty(page)
    fill_at_first(page, do.link, ask.asked[1:], ask.method, ask.panel.fields, [ask.left_out])


def race_fields(engine: Engine) -> RaceFields:
    """Laid out inside the current container."""
    with gr.Column(elem_id="ask", elem_classes="card ask"):
        with gr.Row(elem_classes="ask-prompt", equal_height=True):
            prompt = prompt_box("field-prompt")
            go = gr.Button("Race", elem_id="go", elem_classes="go", variant="primary", scale=0, min_width=96)
            halt = stop_button("stop")
        with gr.Row(elem_classes="ask-settings"):
            models = list(engine.models)
            model = choice_field(models, engine.chosen, "Model", "field-model", visible=len(models) > 1)
            filled = gr.State(engine.chosen)
            method = method_field(engine)
            numbers = number_fields()
            with gr.Accordion("More settings", open=False, elem_classes="more-settings"):
                top_p = gr.Number(1, label="Top-p", elem_id="field-top_p", step=0.05)
            with gr.Accordion("Method settings", open=False, elem_classes=FOLD):
                panel = SettingsPanel(engine, method)
                explain = gr.Checkbox(
                    False,
                    label="Record what the dictionaries hold, to open it inside each step",
                    elem_id="field-explain",
                )
            example_buttons(prompt, EXAMPLES)
        left_out = gr.HTML("", visible=False, elem_id="left-out", apply_default_css=False)
    asked = [explain, prompt, method, *numbers, top_p]
    return RaceFields(go, halt, prompt, model, filled, method, panel, asked, left_out)


def badges_of(engine: Engine, admission: AdmissionQueue) -> list[str]:
    """How the model runs, and how many visitors it serves at once."""
    together = admission.together
    return [*engine.badges, *([f"up to {together} visitors together"] if together > 1 else [])]


def facts(engine: Engine, races: Path, admission: AdmissionQueue) -> Event:
    """What the stage knows from the start, with the first recorded race, finished."""
    recorded = list(shipped(races).values())
    return {
        "model": engine.model,
        "badges": badges_of(engine, admission),
        "methods": dict(engine.methods),
        "legend": palette.legend(),
        "examples": [each.why for each in EXAMPLES],
        "changing": len(engine.models) > 1 or not engine.cost,
        "recorded": RaceFile.read(recorded[0]).snapshot() if recorded else None,
    }
