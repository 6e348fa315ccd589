"""The Chat tab: a conversation whose answers are coloured by source, each with what it gained."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import gradio as gr
from gradio.components import Component

from spectra.errors import SpectraError
from visual import palette
from visual.engine import Backend
from visual.examples import CHAT_PROMPTS
from visual.request import request_of
from visual.run.admission import AdmissionQueue
from visual.run.conversation import Conversation, race_figures, readout
from visual.run.run import Run, explain, stream
from visual.run.tab_state import let_go
from visual.widgets import (
    PRIVATE,
    RUN,
    SKIP,
    PromptUpdate,
    RunUpdate,
    button_updates,
    example_buttons,
    method_field,
    number_fields,
    prompt_box,
    refusal,
    restore_buttons,
    stop,
    stop_button,
    tell_failure,
    visitor_of,
    wire,
)
from visual.wire.events import Event, send

MIN_CONTEXT = 64
MAX_TURNS = 200
"""Of a conversation: each is kept with all that was decoded, one without an answer too."""


class ChatUpdate(NamedTuple):
    """What sending a message changes, in the order of its outputs."""

    stage: Any = SKIP
    memory: Any = SKIP
    prompt: Any = SKIP
    start_button: Any = SKIP
    stop_button: Any = SKIP


class ChatHandlers:
    """What the tab's buttons do."""

    def __init__(self, backend: Backend, admission: AdmissionQueue) -> None:
        self._backend = backend
        self._admission = admission

    def say(
        self, visit: gr.Request, conversation: Conversation | None, warm: bool, *fields: Any
    ) -> Iterator[ChatUpdate]:
        conversation = conversation or Conversation()
        if conversation.busy:
            yield ChatUpdate()
            return
        try:
            if len(conversation.turns) >= MAX_TURNS:
                raise SpectraError("prompt", f"this conversation has {MAX_TURNS} turns; clear it to begin another")
            visitor = visitor_of(visit)
            request = request_of(
                *fields, earlier=conversation.messages, in_conversation=True, visitor=visitor, warm=bool(warm)
            )
            run = Run(request, {"method": request})
            start, halt = button_updates(running=True)
            with conversation.holding(run):
                yield ChatUpdate(memory=conversation, start_button=start, stop_button=halt)
                for message in stream(self._backend, run, self._admission):
                    begins = message is not None and message["kind"] == "begin"
                    if begins:
                        conversation.turns.append(run)
                    if message is not None and message["kind"] == "end" and refused(run):
                        yield self.without_last(conversation)
                    else:
                        yield ChatUpdate(self.with_turn(message, conversation), prompt="" if begins else SKIP)
        except SpectraError as error:
            yield ChatUpdate(refusal(error))

    def without_last(self, conversation: Conversation) -> ChatUpdate:
        """The conversation is as it was before a turn that was refused, whose message returns to the box."""
        turn = conversation.turns.pop()
        conversation.latest = conversation.turns[-1] if conversation.turns else None
        back = {"kind": "back", "turn": len(conversation.turns), "problem": turn.problem}
        return ChatUpdate(send(back), prompt=turn.request.prompt)

    def with_turn(self, message: Event | None, conversation: Conversation) -> Any:
        """On the wire each message names its turn, and an end has the estimate."""
        if message is None:
            return SKIP
        more: Event = {"turn": len(conversation.turns) - 1}
        run = conversation.latest
        if run is not None and not run.running and "method" in run.traces:
            more["readout"] = readout(run.traces["method"], self._backend.plain)
        return send({**message, **more})

    def resync(self, conversation: Conversation | None) -> Any:
        if conversation is None or conversation.latest is None:
            return SKIP
        return self.with_turn(conversation.latest.snapshot(), conversation)

    def race_turn(self, conversation: Conversation | None) -> Iterator[RunUpdate]:
        if conversation is None or not conversation.turns:
            yield RunUpdate(refusal(let_go()))
            return
        if conversation.busy:
            yield RunUpdate()
            return
        try:
            run = raced(conversation.turns[-1])
            turn = {"turn": len(conversation.turns) - 1}
            with conversation.holding(run):
                yield RunUpdate.begun()
                for message in stream(self._backend, run, self._admission):
                    kind = message["kind"] if message else ""
                    shown = {"begin": {"kind": "measuring", **turn}, "waiting": message, "left": message}.get(kind)
                    yield RunUpdate(send(shown) if shown else SKIP)
            if run.thread is not None:
                problem = run.problem or {}
                result = {"kind": "measured", **turn, "problem": problem.get("text"), **race_figures(run)}
                yield RunUpdate(send(result))
        except SpectraError as error:
            yield RunUpdate(refusal(error))

    def renew(self, visit: gr.Request, conversation: Conversation | None) -> Iterator[str]:
        context = max(MIN_CONTEXT, conversation.context if conversation else 0)
        try:
            with self._admission.turn(visitor_of(visit)):
                plain = self._backend.measure(context)
            yield send({"kind": "rate", "plain": plain.tokens_per_second, "context": plain.context})
        except Exception as error:  # whatever went wrong is one line at the button
            yield send({"kind": "refused", **explain(error)})
            if not isinstance(error, SpectraError):
                raise

    def clear(self, visit: gr.Request, conversation: Conversation | None) -> tuple[str, None]:
        stop(conversation)
        self._backend.start_over(visitor_of(visit))
        return send({"kind": "clear"}), None

    def take_back(self, conversation: Conversation | None) -> PromptUpdate:
        """The last turn goes and its message returns to the box, to be changed or sent once more."""
        if conversation is None or not conversation.turns:
            return PromptUpdate(refusal(let_go()))
        if conversation.busy:
            return PromptUpdate()
        turn = conversation.turns.pop()
        return PromptUpdate(send({"kind": "back", "turn": len(conversation.turns)}), conversation, turn.request.prompt)


@dataclass(frozen=True, slots=True)
class ChatFields:
    """settings: the method and its numbers, in the order of a request."""

    prompt: gr.Textbox
    go: gr.Button
    halt: gr.Button
    warm: gr.Checkbox
    settings: Sequence[Component]


def build_chat(backend: Backend, admission: AdmissionQueue, note: str = "") -> None:
    """Lay the tab out inside the current one and connect it. note: why answers come without colours, if they do."""
    do = ChatHandlers(backend, admission)
    memory = gr.State()
    facts = {
        "methods": dict(backend.methods),
        "legend": palette.legend(),
        "plain": backend.plain.tokens_per_second,
        "context": backend.plain.context,
        "note": note,
        "examples": [each.why for each in CHAT_PROMPTS],
    }
    stage = wire("chat", facts, ("resync", "race", "renew", "back", "clear"))
    ask = chat_fields(backend, warm_start=not note)
    outputs = [stage, memory, ask.go, ask.halt]
    sent = gr.on(
        [ask.go.click, ask.prompt.submit],
        do.say,
        [memory, ask.warm, ask.prompt, *ask.settings],
        [stage, memory, ask.prompt, ask.go, ask.halt],
        **RUN,
    )
    raced_turn = stage.race(do.race_turn, memory, outputs, **RUN)
    renewed = stage.renew(do.renew, memory, stage, **RUN)
    for each in (sent, raced_turn):
        restore_buttons(each, memory, ask.go, ask.halt)
    tell_failure(renewed, str(stage.elem_id))
    ask.halt.click(stop, memory, queue=False, **PRIVATE)
    stage.resync(do.resync, memory, stage, queue=False, **PRIVATE)
    stage.back(do.take_back, memory, [stage, memory, ask.prompt], queue=False, **PRIVATE)
    stage.clear(do.clear, memory, [stage, memory], cancels=[sent, raced_turn, renewed], queue=False, **PRIVATE)


def chat_fields(backend: Backend, *, warm_start: bool) -> ChatFields:
    """Laid out inside the current container. warm_start: whether an answer can start from what earlier ones taught."""
    with gr.Column(elem_id="chat-ask", elem_classes="card ask"):
        with gr.Row(elem_classes="ask-prompt", equal_height=True):
            prompt = prompt_box("field-chat-prompt", None, "Message", "Say something; ask again about the answer")
            go = gr.Button("Send", elem_id="chat-go", elem_classes="go", scale=0, min_width=96)
            halt = stop_button("chat-stop")
        with gr.Row(elem_classes="ask-settings"):
            settings = [method_field(backend, "chat-"), *number_fields("chat-")]
            warm = gr.Checkbox(
                False,
                label="Warm: start from what earlier answers taught",
                elem_id="field-chat-warm",
                visible=warm_start,
            )
            example_buttons(prompt, CHAT_PROMPTS)
    return ChatFields(prompt, go, halt, warm, settings)


def refused(run: Run) -> bool:
    """Whether it failed before anything was decoded."""
    return run.state == "failed" and not run.events["method"]


def raced(turn: Run) -> Run:
    """The turn once more by both methods and alone, each from a copy of the cache that it began with, and cold."""
    kept = turn.traces["method"].kept if "method" in turn.traces else 0
    return Run.against_plain(replace(turn.request, copied_tokens=kept, warm=False), alone=True, drawn=True)
