"""The figures under a race, ready to show. All come from `spectra.metrics`; nothing is measured here."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from spectra.metrics import Summary, first_difference, speedup, summarize
from spectra.trace import StepTrace, Trace
from visual.method_settings import cut_in_words
from visual.wire.slow_reason import slow_reason, too_short

COMPARABLE = 8
"""Tokens that both answers must have to be compared by their times, which are noise for fewer."""


def figures(plain: Trace | None, method: Trace | None) -> dict[str, Any]:
    """Each lane's figures, and the comparison once both lanes have written something.

    same: tokens that agree from the start. differs: index of the first token that does not, None while they agree.
    drawn: the method draws a text of its own, of plain decoding's distribution. level: see `Level`. speedup: all
    tokens / all time where both answers are whole, else time to the shorter one's length; None where a lane shared its
    passes or `few` tokens were decoded. shared: with how many others at most. why: what kept it from being faster, see
    `slow_reason`. cut: settings that the method did not take whole, see `cut_in_words`.
    """
    shown: dict[str, Any] = {
        "plain": _shown(summarize(plain.steps)) if plain and plain.steps else None,
        "method": _shown(summarize(method.steps)) if method and method.steps else None,
    }
    if shown["plain"] and shown["method"]:
        assert plain and method
        whole = bool(plain.finish and method.finish)
        a, b = plain.tokens, method.tokens
        shortest = min(len(a), len(b))
        differs = first_difference(a, b) if whole else first_difference(a[:shortest], b[:shortest])
        shown["whole"] = whole
        shown["drawn"] = bool(method.settings.get("drawn"))
        shown["differs"] = differs
        shown["same"] = shortest if differs is None else differs
        level = level_of(plain.steps, method.steps)
        shown["level"] = level._asdict()
        shown["shared"] = max(shared_by(plain), shared_by(method))
        shown["few"] = level.tokens < COMPARABLE
        if shown["shared"] or shown["few"]:
            shown["speedup"] = None
        elif whole:
            shown["speedup"] = speedup(summarize(plain.steps), summarize(method.steps))
        else:
            shown["speedup"] = level.plain / max(level.method, 1e-9)
        if shown["speedup"] is not None:
            shown["why"] = slow_reason(plain, method, shown["speedup"])
        else:
            shown["why"] = too_short(len(b)) if whole and shown["few"] and not shown["shared"] else ""
        shown["cut"] = cut_in_words(method.changed, method.values)
    return shown


def shared_by(trace: Trace) -> int:
    """The most others that decoded in the same passes as this answer: its times are not its own. 0 for none."""
    others = trace.settings.get("shared", 0)
    return others if isinstance(others, int) and others > 0 else 0


class Level(NamedTuple):
    """Where both answers are equally long: that many `tokens`, and the seconds each lane took to them."""

    tokens: int
    plain: float
    method: float


def level_of(plain: Sequence[StepTrace], method: Sequence[StepTrace]) -> Level:
    """The longest such place."""
    tokens = min(sum(len(step.tokens) for step in steps) for steps in (plain, method))
    return Level(tokens, seconds_to(plain, tokens), seconds_to(method, tokens))


def seconds_to(steps: Sequence[StepTrace], tokens: int) -> float:
    """Seconds, prefill included, until `tokens` tokens were out; a step's tokens come out evenly over its time."""
    seconds = 0.0
    done = 0
    for step in steps:
        seconds += step.prefill_seconds
        if done + len(step.tokens) >= tokens:
            return seconds + step.seconds * (tokens - done) / max(len(step.tokens), 1)
        seconds += step.seconds
        done += len(step.tokens)
    return seconds


def _shown(summary: Summary) -> dict[str, Any]:
    return {
        "tokens": summary.tokens,
        "passes": summary.passes,
        "seconds": summary.seconds,
        "rate": summary.micro,
        "tau": summary.tau,
        "first": summary.first_token_seconds,
        "distinct4": summary.distinct4,
        "finish": summary.finish,
        "acceptance": dict(summary.acceptance),
        "offered": dict(summary.offered),
        "of_guessed": dict(summary.of_guessed),
        "guessed": dict(summary.guessed),
    }
