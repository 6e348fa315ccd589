"""The Race tab: a prompt, its settings, and one stage that draws what the wire brings."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gradio as gr

from spectra.errors import SpectraError
from visual import palette
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
    starters,
    stop,
    stop_button,
    visitor_of,
    wire,
)

Update = tuple[Any, ...]


def build_race(page: gr.Blocks, engine: Engine, line: Line, races: Path) -> None:
    """Lay the tab out inside the current one and connect it."""

    def run(race: Race) -> Iterator[Update]:
        yield gr.skip(), race, *buttons(running=True)
        for message in relay(engine, race, line):
            yield message, gr.skip(), gr.skip(), gr.skip()
        yield gr.skip(), gr.skip(), *buttons(running=False)

    def start(visit: gr.Request, *fields: Any) -> Iterator[Update]:
        try:
            race = Race.against_plain(Request.of(*fields, visitor=visitor_of(visit)))
        except SpectraError as error:
            yield refusal(error), gr.skip(), *buttons(running=False)
            return
        yield from run(race)

    def again(race: Race | None) -> Iterator[Update]:
        if race is not None and race.state not in ("waiting", "running"):
            yield from run(Race.against_plain(race.request))

    def resync(race: Race | None) -> Any:
        return send(race.snapshot()) if race else gr.skip()

    def download(race: Race | None) -> Any:
        if race is None:
            return gr.skip()
        return send({"kind": "trace", "name": "spectra-race.json", "text": encode(race_dict(race.traces))})

    def clear(race: Race | None) -> Update:
        if race is not None:
            race.halt()
        return send({"kind": "clear"}), None, "", *buttons(running=False)

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
    running = gr.on([go.click, prompt.submit], start, fields, outputs, **RUN)
    repeated = stage.again(again, memory, outputs, **RUN)
    model.input(switch, model, [stage, model], **RUN)
    halt.click(stop, memory, queue=False, **PRIVATE)
    stage.resync(resync, memory, stage, queue=False, **PRIVATE)
    stage.download(download, memory, stage, queue=False, **PRIVATE)
    stage.clear(clear, memory, [stage, memory, prompt, go, halt], cancels=[running, repeated], queue=False, **PRIVATE)
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
