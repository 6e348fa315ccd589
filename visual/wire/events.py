"""Traces as small JSON for the browser. Field names are short because a race sends thousands of them.

A delta says from which step on it holds, so a browser that missed one notices and asks for a snapshot.
"""

import json
import secrets
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from spectra.metrics import judge
from spectra.trace import StepTrace, Trace, TreeTrace
from visual.engine import Pieces
from visual.wire.figures import Level
from visual.wire.tree_rows import rows

Event = dict[str, Any]


def brief_event(step: StepTrace) -> Event:
    """A step's time and who gave its tokens: `sources` one a token."""
    event: Event = {"seconds": round(step.seconds, 6), "sources": list(step.sources)}
    if step.prefill_seconds:
        event["prefill"] = round(step.prefill_seconds, 6)
    return event


def step_event(step: StepTrace, pieces: Pieces) -> Event:
    """A step with what it wrote, `pieces` as (number of tokens, text), its tree and what came of each source's guesses:
    [accepted, with an accepted parent, all]. Of a tree without guesses only its one token, `last`.
    """
    event = {**brief_event(step), "pieces": pieces, "picks": step.picks}
    if len(step.tree) > 1:
        event["tree"] = tree_event(step.tree, step.path)
        event["judged"] = judge(step)
    else:
        event["last"] = step.tree.tokens[0]
    if step.path:
        event["path"] = step.path
    if step.held:
        event["held"] = dict(step.held)
    if step.offered is not None:
        event["offered"] = step.offered
    if step.inside is not None:
        event["inside"] = step.inside.to_dict()
    if step.finish:
        event["finish"] = step.finish
    return event


def tree_event(tree: TreeTrace, path: Sequence[int]) -> Event:
    """Columns, one entry a node: token, parent, sources joined by commas, chance, row; `pool` lists ineligibles."""
    return {
        "tokens": tree.tokens,
        "parents": tree.parents,
        "sources": [",".join(source for source in row) for row in tree.sources],
        "chances": tree.probability if any(p is not None for p in tree.probability) else None,
        "rows": rows(tree, path),
        "pool": [node for node, eligible in enumerate(tree.eligible) if not eligible],
    }


def delta(
    run: str,
    start: Mapping[str, int],
    steps: Mapping[str, Sequence[Event]],
    level: Level | None = None,
    shared: int = 0,
) -> Event:
    """New steps of each lane, `start` being how many came before. level: how far a race is, once both lanes wrote.
    shared: the most others that decoded in the same passes.
    """
    lanes = {lane: list(steps[lane]) for lane in start}
    event: Event = {"kind": "delta", "run": run, "from": dict(start), "lanes": lanes}
    if shared:
        event["shared"] = shared
    return {**event, "level": level._asdict()} if level else event


def trace_events(trace: Trace) -> list[Event]:
    """Every step of a whole trace, each with the text that it completed."""
    events = []
    pieces = deque(trace.pieces)
    held = 0
    for step in trace.steps:
        held += len(step.tokens)
        own: Pieces = []
        while pieces and pieces[0][0] <= held:
            held -= pieces[0][0]
            own.append(pieces.popleft())
        events.append(step_event(step, own))
    return events


def encode(message: Mapping[str, Any]) -> str:
    """A message as the JSON text that the stage reads."""
    return json.dumps(message, ensure_ascii=False, separators=(",", ":"))


def send(message: Mapping[str, Any]) -> str:
    """A message for the wire. The id makes each one differ: a component whose value stays equal tells nobody."""
    return harmless({"id": secrets.token_hex(4), **message})


def harmless(message: Mapping[str, Any]) -> str:
    """JSON in which no tag can be seen, whatever a prompt or a model wrote."""
    return encode(message).replace("<", "\\u003c")
