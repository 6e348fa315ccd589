"""The page: inputs above, one stage below that draws what the wire brings. Layout and events; no measuring."""

import json
import threading
from collections.abc import Iterator
from typing import Any

import gradio as gr

from spectra.errors import SpectraError
from visual import palette
from visual.engine import PLAIN, Engine
from visual.events import encode, send
from visual.examples import EXAMPLES
from visual.form import Request
from visual.race import Race, explain, stream

HEADER = """<header class="top"><h1>SPECTRA</h1><p>The same text in fewer steps.</p><ul class="badges"></ul></header>"""
MOUNT = """
const facts = JSON.parse(props.value);
const script = new URL('spectra/race.js', document.baseURI).href;
import(script).then((race) => race.mount({element, props, watch, facts, ask: (what) =>
  what === 'resync' ? trigger('resync') : trigger('download')}));
"""
Update = tuple[Any, Any, Any, Any]


def build_page(engine: Engine) -> gr.Blocks:
    """The demo for one engine. `visual.serve.launch_options` has what its `launch` needs."""
    target = threading.Lock()
    methods = [name for name in engine.methods if name != PLAIN]

    def start(prompt: str, method: str, tokens: float, temperature: float, seed: float) -> Iterator[Update]:
        try:
            race = Race(Request.of(prompt, method, tokens, temperature, seed))
        except SpectraError as error:
            yield send({"kind": "refused", **explain(error)}), gr.skip(), *buttons(running=False)
            return
        yield gr.skip(), race, *buttons(running=True)
        for message in stream(engine, race, target):
            yield send(message) if message else gr.skip(), gr.skip(), gr.skip(), gr.skip()
        yield gr.skip(), gr.skip(), *buttons(running=False)

    def stop(race: Race | None) -> tuple[Any, Any, Any]:
        if race is None:
            return gr.skip(), *buttons(running=False)
        race.halt()
        return send(race.snapshot()), *buttons(running=False)

    def resync(race: Race | None) -> Any:
        return send(race.snapshot()) if race else gr.skip()

    def download(race: Race | None) -> Any:
        if race is None:
            return gr.skip()
        return send({"kind": "trace", "name": "spectra-race.json", "text": encode(race.download())})

    with gr.Blocks(title="SPECTRA", fill_width=True, analytics_enabled=False) as page:
        memory = gr.State()
        gr.HTML(HEADER, apply_default_css=False, js_on_load=None)
        with gr.Column(elem_id="ask", elem_classes="card"):
            with gr.Row(elem_id="ask-prompt", equal_height=True):
                prompt = gr.Textbox(
                    EXAMPLES[0].prompt,
                    label="Prompt",
                    lines=1,
                    max_lines=6,
                    elem_id="field-prompt",
                    container=False,
                    scale=1,
                )
                go = gr.Button("Race", elem_id="go", variant="primary", scale=0, min_width=96)
                halt = gr.Button("Stop", elem_id="stop", interactive=False, scale=0, min_width=84)
            with gr.Row(elem_id="ask-settings"):
                method = gr.Dropdown(
                    [(name, name) for name in methods],
                    value=methods[0],
                    label="Method",
                    elem_id="field-method",
                    filterable=False,
                )
                tokens = gr.Number(256, label="Max new tokens", elem_id="field-max_new_tokens")
                temperature = gr.Number(0, label="Temperature", elem_id="field-temperature", step=0.1)
                seed = gr.Number(7, label="Seed", elem_id="field-seed")
                with gr.Row(elem_id="examples"):
                    starts = [gr.Button(each.name, elem_classes="example", size="sm", min_width=0) for each in EXAMPLES]
        wire = gr.HTML(
            encode(
                {
                    "model": engine.model,
                    "badges": list(engine.badges),
                    "methods": dict(engine.methods),
                    "legend": palette.legend(),
                    "examples": [each.why for each in EXAMPLES],
                }
            ),
            html_template="<div class='stage'></div>",
            js_on_load=MOUNT,
            apply_default_css=False,
            elem_id="stage",
        )

        private: dict[str, Any] = {"api_visibility": "private", "show_progress": "hidden"}
        running = gr.on(
            [go.click, prompt.submit],
            start,
            [prompt, method, tokens, temperature, seed],
            [wire, memory, go, halt],
            trigger_mode="once",
            concurrency_id="gpu",
            concurrency_limit=1,
            **private,
        )
        halt.click(stop, memory, [wire, go, halt], cancels=[running], queue=False, **private)
        wire.resync(resync, memory, wire, queue=False, **private)
        wire.download(download, memory, wire, queue=False, **private)
        for button, each in zip(starts, EXAMPLES, strict=True):
            button.click(None, None, prompt, js=f"() => {json.dumps(each.prompt)}")
    return page


def buttons(*, running: bool) -> tuple[Any, Any]:
    """Race and Stop, of which one is of use."""
    return gr.update(interactive=not running), gr.update(interactive=running)
