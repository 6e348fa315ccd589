"""The Datastore tab: what the engine's stores hold, how their texts were chosen, and what follows a few words."""

from collections.abc import Mapping
from typing import Any

import gradio as gr

from spectra.errors import SpectraError
from visual.engine import Engine
from visual.events import send
from visual.widgets import PRIVATE, refusal, wire

MOST = 12
MOST_CHARACTERS = 2000
FACTS = ("name", "model", "refined", "licence", "bytes", "kept", "seen", "dropped", "index", "perplexity", "corpus")
START = "def get_balance(self):\n        return"


def build_datastore(engine: Engine) -> None:
    """Lay the tab out inside the current one and connect it."""
    cards = list(engine.stores())

    def ask(store: str | None, text: str | None) -> str:
        try:
            if not (text or "").strip():
                raise SpectraError("text", "it is empty; write the words that come before")
            if len(text or "") > MOST_CHARACTERS:
                raise SpectraError("text", f"{len(text or '')} characters; give at most {MOST_CHARACTERS}")
            rows = [dict(row) for row in engine.query(store or "", text or "", MOST)]
        except SpectraError as error:
            return refusal(error)
        return send({"kind": "answers", "store": store, "text": text, "rows": rows})

    if not cards:
        wire("datastore", {"stores": []})
        return
    with gr.Column(elem_id="store-ask", elem_classes="card ask"):
        with gr.Row(elem_classes="ask-prompt", equal_height=True):
            text = gr.Textbox(
                START,
                label="Words that come before",
                lines=1,
                max_lines=6,
                elem_id="field-store-text",
                container=False,
                scale=1,
            )
            go = gr.Button("Look up", elem_id="store-go", elem_classes="go", scale=0, min_width=96)
        with gr.Row(elem_classes="ask-settings"):
            names = [str(card["name"]) for card in cards]
            look: dict[str, Any] = {"elem_id": "field-store-store", "elem_classes": "preset", "filterable": False}
            store = gr.Dropdown(names, value=names[0], label="Datastore", **look)
    stage = wire("datastore", {"stores": [brief(card) for card in cards]})
    gr.on([go.click, text.submit], ask, [store, text], stage, **PRIVATE)


def brief(card: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a card that the page shows."""
    return {key: card[key] for key in FACTS if key in card}
