"""The Compare tab: one prompt through the methods a visitor chose, one after the other."""

from collections.abc import Iterator
from typing import Any

import gradio as gr

from spectra.errors import SpectraError
from visual.engine import PLAIN, Engine
from visual.examples import EXAMPLES
from visual.names import grouped, short
from visual.run.admission import AdmissionQueue
from visual.run.comparison import comparison_dict, rows
from visual.run.request import request_of
from visual.run.run import Run, stream
from visual.run.tab_state import ShownTabState
from visual.widgets import (
    PRIVATE,
    RUN,
    SKIP,
    RunUpdate,
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

TICKED = ("spectra", "spectra-core", "prompt-lookup", "token-recycling")


def build_compare(engine: Engine, admission: AdmissionQueue) -> None:
    """Lay the tab out inside the current one and connect it."""

    groups = grouped(engine.methods)

    def start(visit: gr.Request, state: ShownTabState | None, prompt: str, *fields: Any) -> Iterator[RunUpdate]:
        """fields: the ticked methods of each group, then the numbers."""
        state = state or ShownTabState()
        try:
            ticked = [method for methods in fields[: len(groups)] for method in methods or []]
            chosen = [method for method in ticked if method in engine.methods]
            if not chosen:
                raise SpectraError("methods", "none is chosen; tick at least one")
            request = request_of(prompt, chosen[0], *fields[len(groups) :], visitor=visitor_of(visit))
            run = Run(request, {method: method for method in [PLAIN, *chosen]}, brief=True)
            state.latest = run
            yield RunUpdate.begun(state)
            for message in stream(engine, run, admission):
                if run.thread is not None:
                    state.shown = run
                yield RunUpdate(send(with_rows(message, run)) if message else SKIP)
        except SpectraError as error:
            yield RunUpdate(refusal(error))

    def resync(state: ShownTabState | None) -> Any:
        if state is None or state.shown is None:
            return SKIP
        return send(with_rows(state.shown.snapshot(), state.shown))

    def download(state: ShownTabState | None) -> Any:
        if state is None or state.shown is None:
            return SKIP
        return send({"kind": "file", "name": "spectra-comparison.json", "text": encode(comparison_dict(state.shown))})

    memory = gr.State()
    with gr.Column(elem_id="compare-ask", elem_classes="card ask"):
        with gr.Row(elem_classes="ask-prompt", equal_height=True):
            prompt = prompt_box("field-compare-prompt")
            go = gr.Button("Compare", elem_id="compare-go", elem_classes="go", scale=0, min_width=96)
            halt = stop_button("compare-stop")
        with gr.Column(elem_id="field-compare-methods"):
            methods = [
                gr.CheckboxGroup(presets, value=[each for _, each in presets if each in TICKED], label=heading)
                for heading, presets in groups
            ]
        with gr.Row(elem_classes="ask-settings"):
            numbers = number_fields("compare-", tokens=128)
            example_buttons(prompt, EXAMPLES)
    facts = {
        "methods": dict(engine.methods),
        "names": {method: short(method) for method in engine.methods},
        "examples": [each.why for each in EXAMPLES],
    }
    stage = wire("compare", facts, ("resync", "download"))

    asked = [memory, prompt, *methods, *numbers]
    running = gr.on([go.click, prompt.submit], start, asked, [stage, memory, go, halt], **RUN)
    restore_buttons(running, memory, go, halt)
    halt.click(stop, memory, queue=False, **PRIVATE)
    stage.resync(resync, memory, stage, queue=False, **PRIVATE)
    stage.download(download, memory, stage, queue=False, **PRIVATE)


def with_rows(message: Event, run: Run) -> Event:
    """The message and the rows of the lanes that have ended by now."""
    return {**message, "rows": rows(run)}
