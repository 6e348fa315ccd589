"""The Chat tab: a conversation whose answers are coloured by source, each with what it gained."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import gradio as gr

from spectra.errors import SpectraError
from visual import palette
from visual.conversation import Conversation, measured, readout
from visual.engine import Talker
from visual.events import Event, send
from visual.examples import OPENERS
from visual.form import Request
from visual.line import Line
from visual.names import short
from visual.race import Race, explain, stream
from visual.widgets import (
    PRIVATE,
    RUN,
    buttons,
    method_field,
    number_fields,
    refusal,
    settle,
    starters,
    stop,
    stop_button,
    visitor_of,
    wire,
)

Update = tuple[Any, ...]
LEAST_CONTEXT = 64


def build_chat(engine: Talker, line: Line, note: str = "") -> None:
    """Lay the tab out inside the current one and connect it. note: why answers come without colours, if they do."""

    def say(visit: gr.Request, talk: Conversation | None, warm: bool, *fields: Any) -> Iterator[Update]:
        talk = talk or Conversation()
        if talk.busy:
            yield (gr.skip(),) * 5
            return
        try:
            who = visitor_of(visit)
            request = Request.of(*fields, earlier=talk.messages, conversation=True, visitor=who, warm=bool(warm))
            race = talk.running = Race(request, {"method": request.method})
            yield gr.skip(), talk, gr.skip(), *buttons(running=True)
            for message in stream(engine, race, line):
                begins = message is not None and message["kind"] == "begin"
                if begins:
                    talk.turns.append(race)
                yield with_turn(message, talk), gr.skip(), "" if begins else gr.skip(), gr.skip(), gr.skip()
        except SpectraError as error:
            yield refusal(error), *[gr.skip()] * 4

    def with_turn(message: Event | None, talk: Conversation) -> Any:
        """On the wire each message names its turn, and an end has the estimate."""
        if message is None:
            return gr.skip()
        more: Event = {"turn": len(talk.turns) - 1}
        race = talk.running
        if race is not None and not race.running and "method" in race.traces:
            more["readout"] = readout(race.traces["method"], engine.plain)
        return send({**message, **more})

    def resync(talk: Conversation | None) -> Any:
        return with_turn(talk.running.snapshot(), talk) if talk and talk.running else gr.skip()

    def race_turn(talk: Conversation | None) -> Iterator[Update]:
        if talk is None or not talk.turns or talk.busy:
            yield (gr.skip(),) * 3
            return
        try:
            race = talk.running = again(talk.turns[-1])
            turn = {"turn": len(talk.turns) - 1}
            yield gr.skip(), *buttons(running=True)
            for message in stream(engine, race, line):
                kind = message["kind"] if message else ""
                tells = {"begin": {"kind": "measuring", **turn}, "waiting": message, "left": message}.get(kind)
                yield send(tells) if tells else gr.skip(), gr.skip(), gr.skip()
            if race.thread is not None:
                problem = race.problem or {}
                result = {"kind": "measured", **turn, "problem": problem.get("text"), **measured(race)}
                yield send(result), gr.skip(), gr.skip()
        except SpectraError as error:
            yield refusal(error), gr.skip(), gr.skip()

    def renew(talk: Conversation | None) -> Iterator[str]:
        context = max(LEAST_CONTEXT, talk.context if talk else 0)
        try:
            with line.turn():
                rate = engine.measure(context)
            yield send({"kind": "rate", "plain": rate[0], "context": rate[1]})
        except Exception as error:  # whatever went wrong is one line at the button
            yield send({"kind": "refused", **explain(error)})
            if not isinstance(error, SpectraError):
                raise

    def clear(visit: gr.Request, talk: Conversation | None) -> Update:
        stop(talk)
        engine.start_over(visitor_of(visit))
        return send({"kind": "clear"}), None

    def take_back(talk: Conversation | None) -> Update:
        """The last turn goes and its message returns to the box, to be changed or sent once more."""
        if talk is None or not talk.turns or talk.busy:
            return gr.skip(), gr.skip(), gr.skip()
        turn = talk.turns.pop()
        return send({"kind": "back", "turn": len(talk.turns)}), talk, turn.request.prompt

    memory = gr.State()
    facts = {
        "methods": dict(engine.methods),
        "names": {method: short(method) for method in engine.methods},
        "legend": palette.legend(),
        "plain": engine.plain[0],
        "context": engine.plain[1],
        "note": note,
        "examples": [each.why for each in OPENERS],
    }
    stage = wire("chat", facts, ("resync", "race", "renew", "back", "clear"))
    with gr.Column(elem_id="chat-ask", elem_classes="card ask"):
        with gr.Row(elem_classes="ask-prompt", equal_height=True):
            prompt = gr.Textbox(
                label="Message",
                placeholder="Say something; ask again about the answer",
                lines=1,
                max_lines=6,
                elem_id="field-chat-prompt",
                container=False,
                scale=1,
            )
            go = gr.Button("Send", elem_id="chat-go", elem_classes="go", scale=0, min_width=96)
            halt = stop_button("chat-stop")
        with gr.Row(elem_classes="ask-settings"):
            method = method_field(engine, "chat-")
            numbers = number_fields("chat-")
            warm = gr.Checkbox(
                False,
                label="Warm: go on from what earlier answers taught",
                elem_id="field-chat-warm",
                visible=not note,
            )
            starters(prompt, OPENERS)

    said = gr.on(
        [go.click, prompt.submit],
        say,
        [memory, warm, prompt, method, *numbers],
        [stage, memory, prompt, go, halt],
        **RUN,
    )
    raced = stage.race(race_turn, memory, [stage, go, halt], **RUN)
    renewed = stage.renew(renew, memory, stage, **RUN)
    for each in (said, raced):
        settle(each, memory, go, halt)
    halt.click(stop, memory, queue=False, **PRIVATE)
    stage.resync(resync, memory, stage, queue=False, **PRIVATE)
    stage.back(take_back, memory, [stage, memory, prompt], queue=False, **PRIVATE)
    stage.clear(clear, memory, [stage, memory], cancels=[said, raced, renewed], queue=False, **PRIVATE)


def again(turn: Race) -> Race:
    """The turn once more by both methods, each from a copy of the cache that it began with, and cold."""
    kept = turn.traces["method"].kept if "method" in turn.traces else 0
    return Race.against_plain(replace(turn.request, copied=kept, warm=False))
