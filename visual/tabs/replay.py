"""The Replay tab: a recorded race, shipped or brought along, played again. Needs no model."""

import threading
from collections.abc import Mapping
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


class ReplayHandlers:
    """What the tab's buttons do. files: the recordings that come with the page, by name."""

    def __init__(self, files: Mapping[str, Path]) -> None:
        self._files = files
        self._reading = threading.Lock()

    def pick(self, event: gr.EventData) -> str:
        try:
            name = str(event.name)
        except (AttributeError, TypeError):  # a call by hand names none
            name = ""
        if name not in self._files:
            return refusal(SpectraError("file", "that recording is not there any more; choose another"))
        return self.load(self._files[name], name)

    def bring(self, uploaded: Any) -> str:
        """The uploaded file is deleted in any case."""
        file = place(uploaded)
        if file is None:
            return refusal(SpectraError("file", "there is none; choose a race file"))
        try:
            return self.load(file)
        finally:
            discard(file)

    def load(self, path: Path, name: str = "") -> str:
        """A message for the stage: the whole race, or what is wrong with the file.

        One file at a time: 32 MB of JSON can be thirty times as much in memory. name: of one that comes with the page.
        """
        try:
            with self._reading:
                return send({**RaceFile.read(path).snapshot(), "name": name})
        except SpectraError as error:
            return refusal(error)


def build_replay(engine: Engine, races: Path) -> None:
    """Lay the tab out inside the current one and connect it."""
    files = shipped(races)
    do = ReplayHandlers(files)
    with gr.Column(elem_id="replay-ask", elem_classes="card ask"), gr.Row(elem_classes="ask-prompt"):
        gr.HTML("<p class='lead'>Play a recorded race again, without a model.</p>", apply_default_css=False)
        with gr.Column(elem_id="field-replay-file", scale=0, min_width=150):
            upload = gr.UploadButton("Open a race file", file_types=[".json"], elem_classes="quiet", size="sm")
    facts = {
        "races": {name: RaceFile.read(path).title or name for name, path in files.items()},
        "methods": dict(engine.methods),
        "legend": palette.legend(),
    }
    stage = wire("replay", facts, ("pick",))
    stage.pick(do.pick, None, stage, queue=False, **PRIVATE)
    upload.upload(do.bring, upload, stage, queue=False, preprocess=False, **PRIVATE)
