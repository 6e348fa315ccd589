"""The part of the Datastore tab where the model writes its own text: fields, what it costs, and the offer."""

from dataclasses import dataclass
from html import escape
from typing import Any

import gradio as gr

from spectra.errors import SpectraError
from spectra.settings import Range, TextOrder
from visual.engine import Engine
from visual.request import MAX_CHARACTERS, number
from visual.run.run import MAX_SECONDS
from visual.widgets import visitor_of
from visual.wire.writing_cost import writing_cost

MAX_TOKENS = 50_000
"""Of all texts together."""
MAX_PROMPTS = 400
RANGES = {"texts": Range(1, 400, whole=True), "text-tokens": Range(32, 1024, whole=True)}
TEXTS, TOKENS = 24, 192
LEAD = (
    "Text in a model's own words is the best to guess its answers from. The model answers each prompt, first as it "
    "would by itself and then by drawing; a store is built from the answers. Others can use the model meanwhile. Stop "
    "ends the writing, and a store is built from what is there; the same prompts go on from there later."
)


@dataclass(frozen=True, slots=True)
class WritingFields:
    """In the order in which handlers take them: prompts, texts, tokens."""

    prompts: gr.Textbox
    texts: gr.Number
    tokens: gr.Number
    cost: gr.HTML
    start: gr.Button

    @property
    def inputs(self) -> list[Any]:
        return [self.prompts, self.texts, self.tokens]


@dataclass(frozen=True, slots=True)
class Offer:
    """What stands above the tab where no store fits the model."""

    row: gr.Row
    text: gr.HTML
    start: gr.Button


def writing_fields(engine: Engine) -> WritingFields:
    """Laid out inside the current container, closed."""
    with gr.Accordion("Let the model write the text", open=False, elem_classes="more-settings", elem_id="own-writing"):
        gr.HTML(f"<p class='lead'>{LEAD}</p>", apply_default_css=False)
        prompts = gr.Textbox(
            "",
            label="Prompts, one a line",
            placeholder="Empty: the ones that come with the project",
            lines=2,
            max_lines=8,
            elem_id="field-own-prompts",
        )
        with gr.Row(elem_classes="ask-settings own"):
            texts = gr.Number(TEXTS, label="Texts", elem_id="field-own-texts")
            tokens = gr.Number(TOKENS, label="Tokens a text, at most", elem_id="field-own-text-tokens")
            start = gr.Button("Write and build", elem_id="own-write", elem_classes="quiet", size="sm")
        cost = gr.HTML(cost_of(engine, TextOrder((), TEXTS, TOKENS)), apply_default_css=False, elem_id="own-cost")
    return WritingFields(prompts, texts, tokens, cost, start)


def offer(engine: Engine) -> Offer:
    """Laid out inside the current container; to be seen where no store fits."""
    with gr.Row(visible=wanted(engine), elem_id="store-offer", elem_classes="card ask") as row:
        text = gr.HTML(offer_text(engine), apply_default_css=False)
        start = gr.Button("Let it write one", elem_id="store-offer-go", elem_classes="go", scale=0, min_width=150)
    return Offer(row, text, start)


def order_of(prompts: object, texts: object, tokens: object) -> TextOrder:
    """What the fields ask for. Raises `SpectraError` naming the field."""
    lines = tuple(line.strip() for line in str(prompts or "").splitlines() if line.strip())
    if len(str(prompts or "")) > MAX_CHARACTERS or len(lines) > MAX_PROMPTS:
        limits = f"{MAX_PROMPTS} lines and {MAX_CHARACTERS} characters"
        raise SpectraError("prompts", f"{len(lines)} lines of {len(str(prompts))} characters; give at most {limits}")
    if "".join(lines) != "".join(lines).encode(errors="replace").decode():
        raise SpectraError("prompts", "they are not valid Unicode; give them as UTF-8")
    values = {"texts": number("texts", texts), "text-tokens": number("text-tokens", tokens)}
    for field, allowed in RANGES.items():
        allowed.check(field, values[field])
    order = TextOrder(lines, values["texts"], values["text-tokens"])
    if order.tokens > MAX_TOKENS:
        raise SpectraError(
            "texts", f"{order.tokens:,} tokens in all; give at most {MAX_TOKENS:,}: fewer or shorter ones"
        )
    return order


def price(engine: Engine, visit: gr.Request, prompts: object, texts: object, tokens: object) -> str:
    """The cost of what the fields hold; nothing while they hold nothing that could be written."""
    try:
        return cost_of(engine, order_of(prompts, texts, tokens), visitor_of(visit))
    except SpectraError:
        return ""


def cost_of(engine: Engine, order: TextOrder, visitor: str = "") -> str:
    """What writing the rest of the texts will cost, as HTML."""
    already = engine.written(visitor, order) if visitor else 0
    return f"<p class='lead'>{writing_cost(order, engine.plain.tokens_per_second, MAX_SECONDS, already)}</p>"


def wanted(engine: Engine, visitor: str = "") -> bool:
    """Whether the tab has the offer: no store fits the model, not even the visitor's own, and one can be built here."""
    return engine.BUILDS_STORES and not engine.stores(visitor)


def offer_text(engine: Engine) -> str:
    """The offer to write a store for a model that none fits, as HTML."""
    order = TextOrder((), TEXTS, TOKENS)
    cost = writing_cost(order, engine.plain.tokens_per_second, MAX_SECONDS)
    return f"<p>No datastore fits {escape(engine.model)} yet, so let it write one. {cost}</p>"
