"""The Race tab: a prompt, its settings, and one stage that draws what the wire brings."""

from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any

import gradio as gr

from spectra.errors import SpectraError
from spectra.settings import AnswerRequest
from visual import palette
from visual.engine import Engine
from visual.examples import EXAMPLES
from visual.permalink import read_link
from visual.request import request_of
from visual.run.admission import AdmissionQueue
from visual.run.race_file import RaceFile, race_dict, shipped
from visual.run.run import Run
from visual.run.tab_state import ShownTabState
from visual.settings_panel import FOLD, SettingsPanel
from visual.widgets import (
    PRIVATE,
    RUN,
    SKIP,
    PromptUpdate,
    RunUpdate,
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


def build_race(page: gr.Blocks, engine: Engine, admission: AdmissionQueue, races: Path) -> None:
    """Lay the tab out inside the current one and connect it."""

    def race(state: ShownTabState, request: AnswerRequest, *, alone: bool = False) -> Iterator[RunUpdate]:
        run = Run.against_plain(request, alone=alone, drawn=True)
        state.latest = run
        yield RunUpdate.begun(state)
        for message in relay(engine, run, admission):
            if run.thread is not None:
                state.shown = run
            yield RunUpdate(message)

    def start(visit: gr.Request, state: ShownTabState | None, *fields: Any) -> Iterator[RunUpdate]:
        state = state or ShownTabState()
        try:
            explain, *form = fields[: len(asked)]
            settings = panel.read(form[1], fields[len(asked) :])
            request = request_of(*form, visitor=visitor_of(visit), settings=settings, explain=bool(explain))
        except SpectraError as error:
            yield RunUpdate(refusal(error))
            return
        if state.busy:
            yield RunUpdate()  # a handler must yield something
        else:
            yield from race(state, request)

    def again(state: ShownTabState | None, alone: bool = False) -> Iterator[RunUpdate]:
        if state is None or state.shown is None or state.busy:
            yield RunUpdate()
        else:
            yield from race(state, state.shown.request, alone=alone)

    def measure_alone(state: ShownTabState | None) -> Iterator[RunUpdate]:
        yield from again(state, alone=True)

    def resync(state: ShownTabState | None) -> Any:
        return send(state.shown.snapshot()) if state and state.shown else SKIP

    def download(state: ShownTabState | None) -> Any:
        if state is None or state.shown is None:
            return SKIP
        return send({"kind": "file", "name": "spectra-race.json", "text": encode(race_dict(state.shown.traces))})

    def clear(state: ShownTabState | None) -> PromptUpdate:
        stop(state)
        return PromptUpdate(send({"kind": "clear"}), None, "")

    def switch(model: str, method: str) -> Iterator[list[Any]]:
        as_it_is = [SKIP] * len(panel.fields)
        yield [send({"kind": "loading", "model": model}), SKIP, SKIP, *as_it_is]
        try:
            with admission.turn():
                engine.choose(model)
            ready = send({"kind": "model", "model": engine.model, "badges": badges_of(engine, admission)})
            yield [ready, SKIP, panel.differences(), *panel.updates(method)]
        except SpectraError as error:
            yield [refusal(error), engine.chosen, SKIP, *as_it_is]

    def link(visit: gr.Request) -> list[Any]:
        filled = read_link(visit.query_params, engine, str(method.value))
        settings = panel.updates(filled.method or str(method.value), filled.changed)
        left = f"Left out of the link: {'; '.join(filled.left)}." if filled.left else ""
        return [*filled.form, *settings, gr.update(value=escape(left), visible=bool(left))]

    memory = gr.State()
    with gr.Column(elem_id="ask", elem_classes="card ask"):
        with gr.Row(elem_classes="ask-prompt", equal_height=True):
            prompt = prompt_box("field-prompt")
            go = gr.Button("Race", elem_id="go", elem_classes="go", variant="primary", scale=0, min_width=96)
            halt = stop_button("stop")
        with gr.Row(elem_classes="ask-settings"):
            model = gr.Dropdown(
                list(engine.models),
                value=engine.chosen,
                label="Model",
                elem_id="field-model",
                elem_classes="preset",
                filterable=False,
                visible=len(engine.models) > 1,
            )
            method = method_field(engine)
            tokens, temperature, seed = number_fields()
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
    asked = [explain, prompt, method, tokens, temperature, seed, top_p]
    fields = [*asked, *panel.fields]
    stage = wire("race", facts(engine, races, admission), ("resync", "download", "again", "alone", "clear"))

    outputs = [stage, memory, go, halt]
    running = gr.on([go.click, prompt.submit], start, [memory, *fields], outputs, **RUN)
    repeated = stage.again(again, memory, outputs, **RUN)
    measured = stage.alone(measure_alone, memory, outputs, **RUN)
    model.input(switch, [model, method], [stage, model, panel.changes, *panel.fields], **RUN)
    for each in (running, repeated, measured):
        restore_buttons(each, memory, go, halt)
    halt.click(stop, memory, queue=False, **PRIVATE)
    stage.resync(resync, memory, stage, queue=False, **PRIVATE)
    stage.download(download, memory, stage, queue=False, **PRIVATE)
    stage.clear(clear, memory, [stage, memory, prompt], cancels=[running, repeated, measured], queue=False, **PRIVATE)
    page.load(link, None, [*fields[1:], left_out], queue=False, **PRIVATE)


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
        "recorded": RaceFile.read(recorded[0]).snapshot() if recorded else None,
    }
