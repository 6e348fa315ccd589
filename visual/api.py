"""The page's one public endpoint: the race, streamed as plain dicts for `gradio_client` and MCP."""

import time
from collections.abc import Iterator
from inspect import getdoc
from typing import Any

import gradio as gr

from spectra.errors import SpectraError
from visual.engine import Engine
from visual.request import request_of
from visual.run.admission import AdmissionQueue
from visual.run.run import Run, stream
from visual.widgets import visitor_of
from visual.wire.figures import shared_by

UPDATE_SECONDS = 0.25


def add_endpoint(engine: Engine, admission: AdmissionQueue) -> None:
    """Register `/compare` on the page that is being built."""

    def compare(
        prompt: str,
        method: str = "spectra",
        max_new_tokens: int = 256,
        temperature: float = 0.0,
        seed: int = 0,
        visit: gr.Request | None = None,
    ) -> Iterator[dict[str, Any]]:
        """Race plain decoding against a method on one prompt, one after the other, and stream both answers.

        Args:
            prompt: what the model should answer
            method: a preset of `python -m spectra methods`
            max_new_tokens: the longest answer, 1 to 2048 tokens
            temperature: 0 is greedy, up to 2
            seed: the same seed gives the same text in both lanes

        Yields:
            dicts with lane ("plain" or "method"), text so far, tokens so far, tokens_per_second, done, and shared, the
            most others that decoded beside it: with any, the speeds are not comparable
        """
        try:
            visitor = visitor_of(visit) if visit else ""
            run = Run.against_plain(request_of(prompt, method, max_new_tokens, temperature, seed, visitor=visitor))
            yield from lanes(engine, run, admission)
        except SpectraError as error:
            raise gr.Error(str(error), print_exception=False) from None

    gr.api(
        compare, api_name="compare", concurrency_id="gpu", concurrency_limit=None, api_description=getdoc(compare) or ""
    )


def lanes(engine: Engine, run: Run, admission: AdmissionQueue) -> Iterator[dict[str, Any]]:
    """One dict a change, four a second at most; the last of each lane has `done` true. Raises what ended the run."""
    sent: dict[str, dict[str, Any]] = {}
    last = 0.0
    for message in stream(engine, run, admission):
        over = message is not None and message["kind"] == "end"
        if over and run.problem:
            raise SpectraError(run.problem["field"] or "run", run.problem["text"])
        if not over and time.monotonic() - last < UPDATE_SECONDS:
            continue
        for lane in run.lanes:
            state = state_of(run, lane)
            if state and state != sent.get(lane):
                last = time.monotonic()
                sent[lane] = state
                yield state


def state_of(run: Run, lane: str) -> dict[str, Any] | None:
    """A lane as far as its steps were drained; None before its first."""
    steps = run.events[lane]
    if not steps:
        return None
    tokens = sum(len(step["sources"]) for step in steps)
    seconds = sum(step["seconds"] + step.get("prefill", 0.0) for step in steps)
    return {
        "lane": lane,
        "text": "".join(text for step in steps for _, text in step["pieces"]),
        "tokens": tokens,
        "tokens_per_second": round(tokens / seconds, 2) if seconds else 0.0,
        "done": bool(steps[-1].get("finish")),
        "shared": shared_by(run.traces[lane]),
    }
