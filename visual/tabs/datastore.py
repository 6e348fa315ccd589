"""The Datastore tab: what the stores hold, what follows a few words, and a store of the visitor's own."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import gradio as gr

from spectra.errors import SpectraError
from spectra.settings import check_number
from visual.engine import Engine
from visual.request import number
from visual.run.admission import AdmissionQueue
from visual.run.store_build import StoreBuild, WrittenStore, stream, written_store
from visual.tabs.write_store import WritingFields, offer, offer_text, order_of, price, wanted, writing_fields
from visual.uploads import discard, place
from visual.widgets import PRIVATE, RUN, SKIP, choice_field, prompt_box, refusal, stop_button, visitor_of, wire
from visual.wire.events import Event, send

MAX_ROWS = 12
MAX_CHARACTERS = 2000
MAX_KEPT = 10_000
FACTS = ("name", "model", "refined", "licence", "bytes", "kept", "seen", "dropped", "index", "perplexity", "corpus")
START = "I hope this"
STARTS = 4
"""Buttons that start a build: an upload, the library, writing, and the offer's."""
LEAD = (
    "A datastore remembers what followed what in other texts, so SPECTRA can guess words that are not in your prompt. "
    "Write a few words and look up what it would guess next."
)

OWN = (
    "<p class='lead'>A .txt with blank lines between its texts, or .jsonl: up to 2 MB and 50,000 tokens. "
    "Python's library is text that the model did not write: 120 of its functions are scored, and the half of "
    "lowest perplexity is kept. Race, Chat and Compare then guess from it too, for you alone; it is deleted "
    "when you leave.</p>"
)


class StoreUpdate(NamedTuple):
    """What building a store changes. starts: the buttons that start a build."""

    stage: Any = SKIP
    memory: Any = SKIP
    store: Any = SKIP
    starts: Sequence[Any] = (SKIP,) * STARTS
    stop_button: Any = SKIP
    offered: Any = SKIP

    @property
    def outputs(self) -> tuple[Any, ...]:
        stage, memory, store, starts, stop_button, offered = self
        return stage, memory, store, *starts, stop_button, offered


class DatastoreHandlers:
    """What the tab's buttons and fields do."""

    def __init__(self, engine: Engine, admission: AdmissionQueue) -> None:
        self._engine = engine
        self._admission = admission

    def ask(self, visit: gr.Request, store: str | None, text: str | None) -> str:
        try:
            if not (text or "").strip():
                raise SpectraError("text", "it is empty; write the words that come before")
            if len(text or "") > MAX_CHARACTERS:
                raise SpectraError("text", f"{len(text or '')} characters; give at most {MAX_CHARACTERS}")
            rows = [dict(row) for row in self._engine.query(store or "", text or "", MAX_ROWS, visitor_of(visit))]
        except SpectraError as error:
            return refusal(error)
        return send({"kind": "answers", "store": store, "text": text, "rows": rows})

    def build_library(self, visit: gr.Request, keep: Any) -> Iterator[tuple[Any, ...]]:
        yield from self.build(visit, None, keep)

    def build(self, visit: gr.Request, file: Any, keep: Any) -> Iterator[tuple[Any, ...]]:
        """An upload, or Python's library, becomes a store; the uploaded file itself is deleted in any case."""
        path = place(file)
        visitor = visitor_of(visit)

        def make() -> tuple[StoreBuild, Iterator[Event]]:
            texts = kept(keep)
            own = StoreBuild(visitor, lambda on_progress: self._engine.build_store(visitor, path, texts, on_progress))
            return own, stream(own, self._admission)

        try:
            yield from self.follow(visit, make)
        finally:
            if path is not None:
                discard(path)

    def write(self, visit: gr.Request, prompts: Any, texts: Any, tokens: Any, keep: Any) -> Iterator[tuple[Any, ...]]:
        """The model writes text, and that becomes a store."""

        def make() -> tuple[WrittenStore, Iterator[Event]]:
            own = written_store(self._engine, visitor_of(visit), order_of(prompts, texts, tokens), kept(keep))
            return own, own.stream(self._admission)

        yield from self.follow(visit, make)

    def follow(self, visit: gr.Request, make: Callable[[], tuple[Any, Iterator[Event]]]) -> Iterator[tuple[Any, ...]]:
        """make: what can be stopped, and its messages."""
        on = gr.update(interactive=True)
        off = gr.update(interactive=False)
        ended = StoreUpdate(memory=None, starts=(on,) * STARTS, stop_button=off)
        try:
            own, messages = make()
            yield StoreUpdate(memory=own, starts=(off,) * STARTS, stop_button=on).outputs
            for message in messages:
                card = message.get("card")
                if card is None:
                    yield StoreUpdate(send(message)).outputs
                else:
                    shown = send({**message, "card": brief(card)})
                    store = {**self.choices(visit), "value": card["name"]}
                    yield StoreUpdate(shown, store=store, offered=self.offer_shown(visit)).outputs
            yield ended.outputs
        except SpectraError as error:
            yield ended._replace(stage=refusal(error)).outputs

    def opened(self, visit: gr.Request, chosen: str | None, prompts: Any, texts: Any, tokens: Any) -> list[Any]:
        """The tab as the model in use has it. What takes long comes first: a store may be deleted meanwhile."""
        shared = [brief(card) for card in self._engine.stores()]
        text, cost = offer_text(self._engine), price(self._engine, visit, prompts, texts, tokens)
        own = len(self._engine.stores(visitor_of(visit))) > len(shared)
        stage = send({"kind": "opened", "stores": shared, "own": own})
        return [stage, self.choices(visit, chosen), self.offer_shown(visit), text, cost]

    def tell(self, visit: gr.Request, prompts: Any, texts: Any, tokens: Any) -> str:
        return price(self._engine, visit, prompts, texts, tokens)

    def choices(self, visit: gr.Request, chosen: str | None = None) -> Any:
        """chosen: by the visitor. It is left alone while it is there, for what is said here may arrive late."""
        cards = self._engine.stores(visitor_of(visit))
        names = [str(card["name"]) for card in cards]
        return gr.update(choices=names) if chosen in names else gr.update(choices=names, value=usual(cards))

    def offer_shown(self, visit: gr.Request) -> Any:
        return gr.update(visible=wanted(self._engine, visitor_of(visit)))

    def remove(self, visit: gr.Request) -> list[Any]:
        self._engine.drop_store(visitor_of(visit))
        return [send({"kind": "removed"}), self.choices(visit), self.offer_shown(visit)]


@dataclass(frozen=True, slots=True)
class LookUp:
    """The card that asks a store."""

    text: gr.Textbox
    go: gr.Button
    store: gr.Dropdown


@dataclass(frozen=True, slots=True)
class OwnStore:
    """The card that builds a store."""

    upload: gr.UploadButton
    library: gr.Button
    keep: gr.Number
    writing: WritingFields
    halt: gr.Button


def build_datastore(tab: gr.Tab, engine: Engine, admission: AdmissionQueue) -> None:
    """Lay the tab out, inside of it, and connect it."""
    cards = list(engine.stores())
    do = DatastoreHandlers(engine, admission)
    memory = gr.State()
    offered = offer(engine)
    gr.HTML(f"<p class='lead'>{LEAD}</p>", apply_default_css=False, elem_id="store-lead")
    look = look_up(cards)
    own = own_store(engine)
    writing = own.writing
    stage = wire("datastore", {"stores": [brief(card) for card in cards]}, ("remove",))
    gr.on([look.go.click, look.text.submit], do.ask, [look.store, look.text], stage, **PRIVATE)
    starts = [own.upload, own.library, writing.start, offered.start]
    changed: list[Any] = [stage, memory, look.store, *starts, own.halt, offered.row]
    own.upload.upload(do.build, [own.upload, own.keep], changed, preprocess=False, **RUN)
    own.library.click(do.build_library, own.keep, changed, **RUN)
    orders = [*writing.inputs, own.keep]
    written = gr.on([writing.start.click, offered.start.click], do.write, orders, changed, **RUN)
    written.then(do.tell, writing.inputs, writing.cost, queue=False, **PRIVATE)
    edits = [field.input for field in writing.inputs]
    gr.on(edits, do.tell, writing.inputs, writing.cost, queue=False, trigger_mode="always_last", **PRIVATE)
    shown = [stage, look.store, offered.row, offered.text, writing.cost]
    tab.select(do.opened, [look.store, *writing.inputs], shown, queue=False, **PRIVATE)
    own.halt.click(stop, memory, None, queue=False, **PRIVATE)
    stage.remove(do.remove, None, [stage, look.store, offered.row], queue=False, **PRIVATE)


def look_up(cards: Sequence[Mapping[str, Any]]) -> LookUp:
    """Laid out inside the current container. cards: of the stores that all visitors have."""
    names = [str(card["name"]) for card in cards]
    with gr.Column(elem_id="store-ask", elem_classes="card ask"):
        with gr.Row(elem_classes="ask-prompt", equal_height=True):
            text = prompt_box("field-store-text", START, "Words that come before", "Write a few words")
            go = gr.Button("Look up", elem_id="store-go", elem_classes="go", scale=0, min_width=96)
        with gr.Row(elem_classes="ask-settings"):
            store = choice_field(names, usual(cards), "Datastore", "field-store-store")
    return LookUp(text, go, store)


def own_store(engine: Engine) -> OwnStore:
    """Laid out inside the current container."""
    with gr.Column(elem_id="own-ask", elem_classes="card ask"):
        with gr.Row(elem_classes="ask-settings own"):
            with gr.Column(elem_id="field-own-file", scale=0, min_width=150):
                upload = gr.UploadButton("Build one from your own text", elem_classes="quiet", size="sm")
            library = gr.Button(
                "Build one from Python's library", elem_id="own-library", elem_classes="quiet", size="sm"
            )
            keep = gr.Number(1000, label="Keep at most (texts)", elem_id="field-own-keep")
            gr.HTML(OWN, apply_default_css=False)
        writing = writing_fields(engine)
        halt = stop_button("own-stop")
    return OwnStore(upload, library, keep, writing, halt)


def kept(keep: Any) -> int:
    """The number of the field. Raises `SpectraError`."""
    texts = number("keep", keep)
    check_number("keep", texts, 1, MAX_KEPT, whole=True)
    return int(texts)


def usual(cards: Sequence[Mapping[str, Any]]) -> str | None:
    """The store that SPECTRA guesses from first, a refined one; where there is none, the first; None for no store."""
    first = next((card for card in cards if card.get("refined")), next(iter(cards), None))
    return None if first is None else str(first["name"])


def stop(build: StoreBuild | WrittenStore | None) -> None:
    """What the Stop button does."""
    if build is not None:
        build.stop.set()


def brief(card: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a card that the page shows."""
    return {key: card[key] for key in FACTS if key in card}
