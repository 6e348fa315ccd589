"""Parts that every tab is made of: its wire to the browser, its fields, and the messages of a run."""

import json
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import gradio as gr

from spectra.errors import SpectraError
from visual.engine import PLAIN, Backend, Engine
from visual.examples import EXAMPLES, Example
from visual.names import choices
from visual.run.admission import AdmissionQueue
from visual.run.run import Run, explain, stream
from visual.run.tab_state import TabState
from visual.wire.events import Event, harmless, send

PRIVATE: dict[str, Any] = {"api_visibility": "private", "show_progress": "hidden", "show_progress_on": []}
"""For every handler: none of them is an endpoint. With every message gradio tells each component that shows progress,
hidden or not, of every handler that ever ran; with none named, nothing is sent.
"""

RUN: dict[str, Any] = {**PRIVATE, "trigger_mode": "once", "concurrency_id": "gpu", "concurrency_limit": None}
"""For handlers that decode. They start at once and take turns in the `AdmissionQueue`, which can be left."""

SKIP: Any = gr.skip()
"""Leaves an output as it is."""

MOUNT = """
const facts = JSON.parse(props.value);
const script = new URL('spectra/js/tabs/%s.js', document.baseURI).href;
const asks = {%s};
import(script).then((module) => module.mount({element, props, watch, facts, ask: (what, data) => asks[what](data)}));
"""


class RunUpdate(NamedTuple):
    """What a handler of a run changes, in the order of its outputs."""

    stage: Any = SKIP
    memory: Any = SKIP
    start_button: Any = SKIP
    stop_button: Any = SKIP

    @classmethod
    def begun(cls, memory: Any = SKIP) -> "RunUpdate":
        """The first one: from now on the run can be stopped, and no other one started."""
        start, stop = button_updates(running=True)
        return cls(memory=memory, start_button=start, stop_button=stop)


class PromptUpdate(NamedTuple):
    """What a handler changes that takes a run, or a turn of a conversation, off the screen."""

    stage: Any = SKIP
    memory: Any = SKIP
    prompt: Any = SKIP


def wire(module: str, facts: Event, events: Sequence[str] = ()) -> gr.HTML:
    """A place that assets/js/tabs/<module>.js fills. Its value is `facts` first and then one message after another."""
    asks = ",".join(f"{event}: (data) => trigger('{event}', data ?? {{}})" for event in events)
    return gr.HTML(
        harmless(facts),
        html_template="<div class='stage'></div>",
        js_on_load=MOUNT % (module, asks),
        apply_default_css=False,
        elem_id=f"stage-{module}",
    )


def relay(engine: Engine, run: Run, admission: AdmissionQueue) -> Iterator[Any]:
    """A run's messages, encoded for the wire; a full queue is one message at the button."""
    try:
        for message in stream(engine, run, admission):
            yield send(message) if message else SKIP
    except SpectraError as error:
        yield refusal(error)


def stop(state: TabState | None) -> None:
    """What a Stop button does."""
    if state is not None:
        state.stop()


def restore_buttons(handler: gr.events.Dependency, memory: gr.State, go: gr.Button, halt: gr.Button) -> None:
    """Enable Start again when a run's handler is over, however it ended: gradio drops a click before."""

    def update(state: TabState | None) -> tuple[Any, Any]:
        return button_updates(running=state is not None and state.busy)

    handler.then(update, memory, [go, halt], queue=False, **PRIVATE)
    tell_failure(handler, str(go.elem_id))


def tell_failure(handler: gr.events.Dependency, place: str) -> None:
    """Tell the element of this id where the server does not take what was asked of it: no message comes then."""
    tell = f"() => {{ document.getElementById({json.dumps(place)})?.dispatchEvent(new Event('spectra-failed')); }}"
    handler.failure(None, None, None, js=tell, **PRIVATE)


def visitor_of(request: gr.Request) -> str:
    """A name for one open page, drawn by it at random; what is kept for a visitor is kept under it."""
    return str(request.session_hash or "")


def refusal(error: BaseException) -> str:
    """A message with what was wrong, at the field it belongs to."""
    return send({"kind": "refused", **explain(error)})


def button_updates(*, running: bool) -> tuple[Any, Any]:
    """For Start and Stop, of which one is enabled."""
    return gr.update(interactive=not running), gr.update(interactive=running)


def prompt_box(
    elem_id: str,
    text: str | None = EXAMPLES[0].prompt,
    label: str = "Prompt",
    placeholder: str = "Write what the model should answer",
) -> gr.Textbox:
    """Where the prompt is written. text: what it opens on."""
    return gr.Textbox(
        text, label=label, placeholder=placeholder, lines=1, max_lines=6, elem_id=elem_id, container=False, scale=1
    )


def choice_field(choices: Sequence[Any], value: Any, label: str, elem_id: str, *, visible: bool = True) -> gr.Dropdown:
    """A list to choose one from."""
    return gr.Dropdown(
        choices, value=value, label=label, elem_id=elem_id, elem_classes="preset", filterable=False, visible=visible
    )


def example_buttons(prompt: gr.Textbox, examples: Sequence[Example]) -> None:
    """A row of buttons, each of which puts its example into the prompt."""
    with gr.Row(elem_classes="examples"):
        for each in examples:
            button = gr.Button(each.name, elem_classes="example", size="sm", min_width=0)
            button.click(None, None, prompt, js=fill(each.prompt))


def stop_button(name: str) -> gr.Button:
    """A button that can be clicked while a run goes on. name: its id."""
    return gr.Button("Stop", elem_id=name, elem_classes="halt", interactive=False, scale=0, min_width=84)


def method_field(backend: Backend, scope: str = "") -> gr.Dropdown:
    """Presets by their short names, plain decoding left out."""
    named = [(name, preset) for name, preset in choices(backend.methods) if preset != PLAIN]
    return choice_field(named, named[0][1], "Method", f"field-{scope}method")


class NumberFields(NamedTuple):
    """In the order in which handlers take them."""

    max_new_tokens: gr.Number
    temperature: gr.Number
    seed: gr.Number


def number_fields(scope: str = "", *, tokens: int = 256) -> NumberFields:
    """Length, temperature and seed. scope: what their ids start with after "field-". tokens: the length at first."""
    return NumberFields(
        gr.Number(tokens, label="Max new tokens", elem_id=f"field-{scope}max_new_tokens"),
        gr.Number(0, label="Temperature", elem_id=f"field-{scope}temperature", step=0.1),
        gr.Number(7, label="Seed", elem_id=f"field-{scope}seed"),
    )


def fill(example: str) -> str:
    """JavaScript that puts a text into the one output of an event."""
    return f"() => {json.dumps(example)}"
