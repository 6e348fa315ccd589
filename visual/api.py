"""The page's one public endpoint: the race, streamed as plain dicts for `gradio_client` and MCP."""

import time
from collections.abc import Iterator
from inspect import getdoc
from typing import Any

import gradio as gr

from spectra.errors import SpectraError
from visual.engine import Engine
from visual.form import Request
from visual.line import Line
from visual.race import Race, stream

EVERY = 0.25


def add_endpoint(engine: Engine, line: Line) -> None:
    """Register `/compare` on the page that is being built."""

    def compare(
        prompt: str, method: str = "spectra", max_new_tokens: int = 256, temperature: float = 0.0, seed: int = 0
    ) -> Iterator[dict[str, Any]]:
        """Race plain decoding against a method on one prompt, one after the other, and stream both answers.

        Args:
            prompt: what the model should answer
            method: a preset of `python -m spectra methods`
            max_new_tokens: the longest answer, 1 to 2048 tokens
            temperature: 0 is greedy, up to 2
            seed: the same seed gives the same text in both lanes

        Yields:
            dicts with lane ("plain" or "method"), text so far, tokens so far, tokens_per_second, and done
        """
        try:
            race = Race.against_plain(Request.of(prompt, method, max_new_tokens, temperature, seed))
            yield from lanes(engine, race, line)
        except SpectraError as error:
            raise gr.Error(str(error), print_exception=False) from None

    gr.api(
        compare, api_name="compare", concurrency_id="gpu", concurrency_limit=None, api_description=getdoc(compare) or ""
    )


def lanes(engine: Engine, race: Race, line: Line) -> Iterator[dict[str, Any]]:
    """One dict a change, four a second at most; the last of each lane has `done` true. Raises what ended the run."""
    sent: dict[str, dict[str, Any]] = {}
    last = 0.0
    for message in stream(engine, race, line):
        over = bool(message) and message is not None and message["kind"] == "end"
        if over and race.problem:
            raise SpectraError(race.problem["field"] or "run", race.problem["text"])
        if not over and time.monotonic() - last < EVERY:
            continue
        for lane in race.lanes:
            row = state_of(race, lane)
            if row and row != sent.get(lane):
                last = time.monotonic()
                sent[lane] = row
                yield row


def state_of(race: Race, lane: str) -> dict[str, Any] | None:
    """A lane as it stands, read off the steps that were drained; None before its first."""
    steps = race.events[lane]
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
    }
