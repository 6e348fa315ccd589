"""The Replay tab: a recorded race, shipped or brought along, played again. Needs no model."""

import threading
from pathlib import Path
from typing import Any

import gradio as gr

from spectra.errors import SpectraError
from visual import palette
from visual.engine import Engine
from visual.run.race_file import RaceFile, shipped
from visual.uploads import discard, place
from visual.widgets import PRIVATE, refusal, wire
from visual.wire.events import send


def build_replay(engine: Engine, races: Path) -> None:
    """Lay the tab out inside the current one and connect it."""
    files = shipped(races)
    titles = {name: RaceFile.read(path).title or name for name, path in files.items()}

    def pick(event: gr.EventData) -> str:
        try:
            path = files.get(str(event.name))
        except (AttributeError, TypeError):  # a call by hand names none
            path = None
        if path is None:
            return refusal(SpectraError("file", "that recording is not there any more; choose another"))
        return load(path, str(event.name))

    reading = threading.Lock()

    def bring_alone(uploaded: Any) -> str:
        """One file at a time: 32 MB of JSON can be thirty times as much in memory."""
        with reading:
            return bring(uploaded)

    with gr.Column(elem_id="replay-ask", elem_classes="card ask"), gr.Row(elem_classes="ask-prompt"):
        gr.HTML("<p class='lead'>Play a recorded race again, without a model.</p>", apply_default_css=False)
        with gr.Column(elem_id="field-replay-file", scale=0, min_width=150):
            upload = gr.UploadButton("Open a race file", file_types=[".json"], elem_classes="quiet", size="sm")
    facts = {
        "races": titles,
        "methods": dict(engine.methods),
        "legend": palette.legend(),
    }
    stage = wire("replay", facts, ("pick",))
    stage.pick(pick, None, stage, queue=False, **PRIVATE)
    upload.upload(bring_alone, upload, stage, queue=False, preprocess=False, **PRIVATE)


def bring(uploaded: Any) -> str:
    """The uploaded file is deleted in any case."""
    file = place(uploaded)
    if file is None:
        return refusal(SpectraError("file", "there is none; choose a race file"))
    try:
        return load(file)
    finally:
        discard(file)


def load(path: Path, name: str = "") -> str:
    """A message for the stage: the whole race, or what is wrong with the file.

    name: of one that comes with the page.
    """
    try:
        return send({**RaceFile.read(path).snapshot(), "name": name})
    except SpectraError as error:
        return refusal(error)
