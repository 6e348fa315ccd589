"""The Compare tab: one prompt through the methods a visitor chose, one after the other."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import gradio as gr

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
from visual.run.tab_state import ShownTabState
from visual.settings_panel import FOLD, PAPER, SettingsPanel, start_from
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

TICKED = ("spectra", "spectra-core", "spectra-paper", "prompt-lookup", "token-recycling")
FOLDED = {
    "spectra-no-automaton", "spectra-no-recycled", "spectra-no-text",
    "spectra-paper-core-no-forward", "spectra-paper-core-no-backward", "spectra-paper-core-no-subngram",
    "spectra-paper-retrieval-no-ppl", "anpd", "lookahead-7b", "lookahead-rest", "suffix-automaton",
    "specinfer-naive", "rrs", "rrsw",
}  # fmt: skip
"""Ablations and variants, which stand under a heading of their own that opens with a click."""


def build_compare(engine: Engine, admission: AdmissionQueue) -> None:
    """Lay the tab out inside the current one and connect it."""

    usual = grouped(method for method in engine.methods if method not in FOLDED)
    folded = grouped(method for method in engine.methods if method in FOLDED)
    groups = [*usual, *folded]

    def start(visit: gr.Request, state: ShownTabState | None, prompt: str, *fields: Any) -> Iterator[RunUpdate]:
        """fields: the ticked methods of each group, the numbers, the panel's method and settings, the sweep."""
        state = state or ShownTabState()
        try:
            ticked = [method for methods in fields[: len(groups)] for method in methods or []]
            chosen = [method for method in ticked if method in engine.methods]
            rest = fields[len(groups) :]
            own, settings, vary = str(rest[len(numbers)]), rest[len(numbers) + 1 : -2], read_sweep(*rest[-2:])
            request = request_of(prompt, own, *rest[: len(numbers)], visitor=visitor_of(visit))
            request = replace(request, settings=panel.read(own, settings))
            check_sweep(vary, own)
            run = Run(request, lanes_of(request, chosen, request, vary), brief=True, drawn=True)
            if vary is not None:
                run.facts["sweep"] = vary.facts(request)
            state.latest = run
            yield RunUpdate.begun(state)
            for message in stream(engine, run, admission):
                if run.thread is not None:
                    state.shown = run
                yield RunUpdate(send(with_rows(message, run)) if message else SKIP)
        except SpectraError as error:
            yield RunUpdate(refusal(error))

    def check_sweep(vary: Sweep | None, own: str) -> None:
        if vary is not None and vary.name not in panel.values(own):
            raise SpectraError("sweep", f"{short(own)} has no such setting; choose another one, or another method")

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
                for heading, presets in usual
            ]
            if folded:
                with gr.Accordion("Ablations and variants", open=False, elem_classes="more-settings"):
                    methods += [gr.CheckboxGroup(presets, label=heading) for heading, presets in folded]
        with gr.Row(elem_classes="ask-settings"):
            numbers = number_fields("compare-", tokens=128)
            with gr.Accordion("A method with settings of its own", open=False, elem_classes=FOLD):
                adjustable = [name for name in engine.methods if len(engine.settings.get(name, {})) > 1]
                own = gr.Dropdown(
                    [(short(name), name) for name in adjustable],
                    value=start_from(engine, PAPER),
                    label="Method",
                    elem_id="field-compare-method",
                    elem_classes="preset",
                    filterable=False,
                )
                panel = SettingsPanel(engine, own, "compare-")
                with gr.Row(elem_classes="sweep"):
                    sweep = gr.Dropdown(
                        [("no setting", ""), *((FIELDS[name].label, name) for name in NUMBERS)],
                        value="",
                        label="Sweep",
                        elem_id="field-compare-sweep",
                        elem_classes="preset",
                        filterable=False,
                    )
                    values = gr.Textbox(
                        label="over the values", placeholder="0, 3, 7, 15", elem_id="field-compare-values", max_lines=1
                    )
            example_buttons(prompt, EXAMPLES)
    facts = {
        "methods": dict(engine.methods),
        "examples": [each.why for each in EXAMPLES],
    }
    stage = wire("compare", facts, ("resync", "download"))

    asked = [memory, prompt, *methods, *numbers, own, *panel.fields, sweep, values]
    running = gr.on([go.click, prompt.submit], start, asked, [stage, memory, go, halt], **RUN)
    restore_buttons(running, memory, go, halt)
    halt.click(stop, memory, queue=False, **PRIVATE)
    stage.resync(resync, memory, stage, queue=False, **PRIVATE)
    stage.download(download, memory, stage, queue=False, **PRIVATE)


def with_rows(message: Event, run: Run) -> Event:
    """The message and the rows of the lanes that have ended by now."""
    return {**message, "rows": rows(run)}
