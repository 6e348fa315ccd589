"""The Race tab: a prompt, its settings, and one stage that draws what the wire brings."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gradio as gr

from spectra.errors import SpectraError
from visual import palette
from visual.desk import Desk
from visual.engine import Engine
from visual.events import Event, encode, send
from visual.examples import EXAMPLES
from visual.form import Request
from visual.line import Line
from visual.names import short
from visual.permalink import fields_of
from visual.race import Race
from visual.racefile import RaceFile, race_dict, shipped
from visual.widgets import (
    PRIVATE,
    RUN,
    buttons,
    method_field,
    number_fields,
    prompt_box,
    refusal,
    relay,
    settle,
    starters,
    stop,
    stop_button,
    visitor_of,
    wire,
)

Update = tuple[Any, ...]
NOTHING: tuple[Update] = ((gr.skip(), gr.skip(), gr.skip(), gr.skip()),)
"""Updates of a start while a run goes on: a handler must yield something."""


def build_race(page: gr.Blocks, engine: Engine, line: Line, races: Path) -> None:
    """Lay the tab out inside the current one and connect it."""

    def run(desk: Desk, request: Request) -> Iterator[Update]:
        race = desk.running = Race.against_plain(request)
        yield gr.skip(), desk, *buttons(running=True)
        for message in relay(engine, race, line):
            if race.thread is not None:
                desk.shown = race
            yield message, gr.skip(), gr.skip(), gr.skip()

    def start(visit: gr.Request, desk: Desk | None, *fields: Any) -> Iterator[Update]:
        desk = desk or Desk()
        try:
            request = Request.of(*fields, visitor=visitor_of(visit))
        except SpectraError as error:
            yield refusal(error), gr.skip(), gr.skip(), gr.skip()
            return
        yield from NOTHING if desk.busy else run(desk, request)

    def again(desk: Desk | None) -> Iterator[Update]:
        if desk is None or desk.shown is None or desk.busy:
            yield from NOTHING
        else:
            yield from run(desk, desk.shown.request)

    def resync(desk: Desk | None) -> Any:
        return send(desk.shown.snapshot()) if desk and desk.shown else gr.skip()

    def download(desk: Desk | None) -> Any:
        if desk is None or desk.shown is None:
            return gr.skip()
        return send({"kind": "trace", "name": "spectra-race.json", "text": encode(race_dict(desk.shown.traces))})

    def clear(desk: Desk | None) -> Update:
        stop(desk)
        return send({"kind": "clear"}), None, ""

    def switch(model: str) -> Iterator[tuple[Any, Any]]:
        yield send({"kind": "loading", "model": model}), gr.skip()
        try:
            with line.turn():
                engine.choose(model)
            yield send({"kind": "model", "model": engine.model, "badges": list(engine.badges)}), gr.skip()
        except SpectraError as error:
            yield refusal(error), engine.chosen

    def link(request: gr.Request) -> Update:
        return fields_of(request.query_params, engine)

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
            starters(prompt, EXAMPLES)
    fields = [prompt, method, tokens, temperature, seed, top_p]
    stage = wire("race", facts(engine, races), ("resync", "download", "again", "clear"))

    outputs = [stage, memory, go, halt]
    running = gr.on([go.click, prompt.submit], start, [memory, *fields], outputs, **RUN)
    repeated = stage.again(again, memory, outputs, **RUN)
    model.input(switch, model, [stage, model], **RUN)
    for each in (running, repeated):
        settle(each, memory, go, halt)
    halt.click(stop, memory, queue=False, **PRIVATE)
    stage.resync(resync, memory, stage, queue=False, **PRIVATE)
    stage.download(download, memory, stage, queue=False, **PRIVATE)
    stage.clear(clear, memory, [stage, memory, prompt], cancels=[running, repeated], queue=False, **PRIVATE)
    page.load(link, None, fields, queue=False, **PRIVATE)


def facts(engine: Engine, races: Path) -> Event:
    """What the stage knows from the start, with the first recorded race, finished."""
    recorded = list(shipped(races).values())
    return {
        "model": engine.model,
        "badges": list(engine.badges),
        "methods": dict(engine.methods),
        "names": {method: short(method) for method in engine.methods},
        "legend": palette.legend(),
        "examples": [each.why for each in EXAMPLES],
        "recorded": RaceFile.read(recorded[0]).snapshot() if recorded else None,
    }
