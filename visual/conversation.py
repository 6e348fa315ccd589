"""A conversation: its turns, what each cost, and how that compares with plain decoding. Knows no page."""

from dataclasses import dataclass, field
from typing import Any

from spectra.metrics import first_difference, speedup, summarize
from spectra.trace import Trace
from visual.desk import Place
from visual.engine import Message, Rate
from visual.race import Race


@dataclass(slots=True)
class Conversation(Place):
    """turns: a finished or stopped `Race` each, with the one lane "method"."""

    turns: list[Race] = field(default_factory=list)

    @property
    def messages(self) -> tuple[Message, ...]:
        """What was said so far; a turn without an answer is left out."""
        said: list[Message] = []
        for turn in self.turns:
            trace = turn.traces.get("method")
            if trace is not None and trace.text.strip():
                said.append({"role": "user", "content": turn.request.prompt})
                said.append({"role": "assistant", "content": trace.text})
        return tuple(said)

    @property
    def context(self) -> int:
        """Tokens of the conversation, the last answer included."""
        traces = [turn.traces["method"] for turn in self.turns if "method" in turn.traces]
        return len(traces[-1].prompt_tokens) + len(traces[-1].tokens) if traces else 0


def readout(trace: Trace, plain: Rate) -> dict[str, Any] | None:
    """A turn against plain decoding's measured rate: an estimate, the prefill left out on both sides."""
    figures = summarize(trace.steps)
    decoding = figures.seconds - figures.prefill_seconds
    if not figures.tokens or decoding <= 0:
        return None
    rate = figures.tokens / decoding
    return {
        "tokens": figures.tokens,
        "seconds": figures.seconds,
        "first": figures.first_token_seconds,
        "rate": rate,
        "tau": figures.tau,
        "prompt": len(trace.prompt_tokens),
        "kept": trace.kept,
        "warm": trace.settings.get("warm"),
        "plain": plain[0],
        "context": plain[1],
        "estimate": rate / plain[0] if plain[0] > 0 else None,
    }


def measured(race: Race) -> dict[str, Any]:
    """A raced turn's figures; `speedup` is None unless both lanes started alike and were decoded to their end."""
    plain, method = race.traces.get("plain"), race.traces.get("method")
    if not plain or not method or not plain.finish or not method.finish:
        return {"speedup": None}
    if plain.kept != method.kept:
        return {"speedup": None, "problem": "The kept cache went away between the two answers; race the turn again."}
    return {
        "kept": plain.kept,
        "speedup": speedup(summarize(plain.steps), summarize(method.steps)),
        "differs": first_difference(plain.tokens, method.tokens),
        "drawn": bool(method.settings.get("drawn")),
    }
