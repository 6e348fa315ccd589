"""The Compare tab: one prompt through the methods a visitor chose, one after the other."""

from collections.abc import Iterator, Sequence
from typing import Any

import gradio as gr

from spectra.errors import SpectraError
from visual.compare import comparison_dict, rows
from visual.desk import Desk
from visual.engine import PLAIN, Engine
from visual.events import Event, encode, send
from visual.examples import EXAMPLES
from visual.form import Request
from visual.line import Line
from visual.names import grouped, short
from visual.race import Race, stream
from visual.widgets import (
    PRIVATE,
    RUN,
    buttons,
    number_fields,
    prompt_box,
    refusal,
    settle,
    starters,
    stop,
    stop_button,
    visitor_of,
    wire,
)

TICKED = ("spectra", "spectra-core", "prompt-lookup", "token-recycling")
Update = tuple[Any, ...]


def build_compare(engine: Engine, line: Line) -> None:
    """Lay the tab out inside the current one and connect it."""

    groups = grouped(engine.methods)

    def start(visit: gr.Request, desk: Desk | None, prompt: str, *fields: Any) -> Iterator[Update]:
        desk = desk or Desk()
        ticked: Sequence[Sequence[str] | None] = fields[: len(groups)]
        numbers = fields[len(groups) :]
        try:
            chosen = [method for methods in ticked for method in methods or [] if method in engine.methods]
            if not chosen:
                raise SpectraError("methods", "none is chosen; tick at least one")
            request = Request.of(prompt, chosen[0], *numbers, visitor=visitor_of(visit))
            race = desk.running = Race(request, {each: each for each in [PLAIN, *chosen]}, brief=True)
            yield gr.skip(), desk, *buttons(running=True)
            for message in stream(engine, race, line):
                if race.thread is not None:
                    desk.shown = race
                yield send(with_rows(message, race)) if message else gr.skip(), gr.skip(), gr.skip(), gr.skip()
        except SpectraError as error:
            yield refusal(error), gr.skip(), gr.skip(), gr.skip()

    def resync(desk: Desk | None) -> Any:
        return send(with_rows(desk.shown.snapshot(), desk.shown)) if desk and desk.shown else gr.skip()

    def download(desk: Desk | None) -> Any:
        if desk is None or desk.shown is None:
            return gr.skip()
        return send({"kind": "file", "name": "spectra-comparison.json", "text": encode(comparison_dict(desk.shown))})

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
            starters(prompt, EXAMPLES)
    facts = {
        "methods": dict(engine.methods),
        "names": {method: short(method) for method in engine.methods},
        "examples": [each.why for each in EXAMPLES],
    }
    stage = wire("compare", facts, ("resync", "download"))

    asked = [memory, prompt, *methods, *numbers]
    settle(gr.on([go.click, prompt.submit], start, asked, [stage, memory, go, halt], **RUN), memory, go, halt)
    halt.click(stop, memory, queue=False, **PRIVATE)
    stage.resync(resync, memory, stage, queue=False, **PRIVATE)
    stage.download(download, memory, stage, queue=False, **PRIVATE)


def with_rows(message: Event, race: Race) -> Event:
    """The message and the rows of the lanes that have ended by now."""
    return {**message, "rows": rows(race)}
