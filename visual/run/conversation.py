"""A conversation: its turns, what each cost, and how that compares with plain decoding. Knows no page."""

from dataclasses import dataclass, field
from typing import Any

from spectra.metrics import PlainRate, first_difference, speedup, summarize
from spectra.settings import Message
from spectra.trace import Trace
from visual.run.run import Run
from visual.run.tab_state import TabState
from visual.wire.figures import COMPARABLE, shared_by
from visual.wire.slow_reason import slow_reason

NOISE = 0.1
"""By how much two times of the same work differ on one machine."""


@dataclass(slots=True)
class Conversation(TabState):
    """turns: a finished or stopped `Run` each, with the one lane "method"."""

    turns: list[Run] = field(default_factory=list)

    @property
    def messages(self) -> tuple[Message, ...]:
        """The conversation so far; a turn without an answer is left out."""
        messages: list[Message] = []
        for turn in self.turns:
            trace = turn.traces.get("method")
            if trace is not None and trace.text.strip():
                messages.append({"role": "user", "content": turn.request.prompt})
                messages.append({"role": "assistant", "content": trace.text})
        return tuple(messages)

    @property
    def context(self) -> int:
        """Tokens of the conversation, the last answer included."""
        traces = [turn.traces["method"] for turn in self.turns if "method" in turn.traces]
        return len(traces[-1].prompt_tokens) + len(traces[-1].tokens) if traces else 0


def readout(trace: Trace, plain: PlainRate) -> dict[str, Any] | None:
    """A turn against plain decoding's measured rate: an estimate, the prefill left out on both sides.

    There is none where others decoded in the same passes, nor of too few tokens, nor above tau, as a pass never takes
    less time than plain decoding's: that was measured on a busier machine. A rate of 0: nothing was timed. pieces: what
    is counted are pieces of a server's answer, as it did not tell, or not yet, how many tokens they hold. end: why a
    server ended it where that was not its own end. blank: it ended and wrote nothing to show.
    """
    figures = summarize(trace.steps)
    decoding = figures.seconds - figures.prefill_seconds
    served = "told" in trace.settings
    blank = served and bool(trace.finish) and not trace.text.strip()
    if not (figures.tokens or blank):
        return None
    told = trace.settings.get("told") or {"tokens": figures.tokens, "unseen": 0}  # the first by a server
    rate = (told["tokens"] - told["unseen"]) * _timed(trace) / decoding if decoding > 0 else 0.0
    shared, few = shared_by(trace), figures.tokens < COMPARABLE
    gained = rate / plain.tokens_per_second if plain.tokens_per_second > 0 and not shared and not few else None
    return {
        "tokens": told["tokens"],
        "pieces": served and not trace.settings["told"],
        "end": trace.finish if served and trace.finish != "eos" else "",
        "blank": blank,
        "seconds": figures.seconds,
        "first": figures.first_token_seconds,
        "rate": rate,
        "tau": figures.tau,
        "prompt": len(trace.prompt_tokens),
        "kept": trace.kept,
        "warm": trace.settings.get("warm"),
        "plain": plain.tokens_per_second,
        "context": plain.context,
        "shared": shared,
        "few": few,
        "estimate": gained if gained is not None and gained <= figures.tau * (1 + NOISE) else None,
    }


def _timed(trace: Trace) -> float:
    """The share of its tokens that came within the time of decoding.

    A server's answer has steps that took none of it: the first piece and what came with it. How its tokens lie in its
    pieces is not told: as many in each.
    """
    pieces = [step.seconds > 0 for step in trace.steps if not step.finish]
    return sum(pieces) / len(pieces) if pieces else 1.0


def race_figures(run: Run) -> dict[str, Any]:
    """The figures of a turn that was raced against plain decoding.

    `speedup` is None unless both lanes started from the same cache, were decoded to their end and wrote enough.
    why: what kept it from being faster, see `slow_reason`.
    """
    plain = run.traces.get("plain")
    method = run.traces.get("method")
    if not plain or not method or not plain.finish or not method.finish:
        return {"speedup": None}
    if plain.kept != method.kept:
        return {"speedup": None, "problem": "The kept cache went away between the two answers; race the turn again."}
    if min(len(plain.tokens), len(method.tokens)) < COMPARABLE:
        return {"speedup": None, "problem": "Raced: too little was decoded to compare."}
    gained = speedup(summarize(plain.steps), summarize(method.steps))
    return {
        "kept": plain.kept,
        "speedup": gained,
        "why": slow_reason(plain, method, gained),
        "differs": first_difference(plain.tokens, method.tokens),
        "drawn": bool(method.settings.get("drawn")),
    }
