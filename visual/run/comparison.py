"""Many methods on one prompt as rows of a table. All figures come from `spectra.metrics`."""

from typing import Any

from spectra.metrics import Summary, first_difference, overall, speedup, summarize
from spectra.settings import AnswerRequest
from spectra.trace import Trace
from visual.engine import PLAIN
from visual.method_settings import cut_in_words, in_words
from visual.run.run import Run
from visual.wire.figures import COMPARABLE, shared_by

FORMAT = "spectra-comparison"
VERSION = 1


def rows(run: Run) -> list[dict[str, Any]]:
    """A row for each lane that ended, in the order they ran. The others are compared with plain decoding.

    rate: tokens/s, prefill included (Mic-TP). macro: the mean of the steps' own tokens/s (Mac-TP). acceptance:
    accepted / guessed, of_reached: accepted / guessed with an accepted parent, a guess of several sources counted once;
    None where nothing was guessed. differs: the first token that is not plain decoding's, None where all agree or
    either answer was cut short. drawn: the method may write another text than plain decoding, of the same distribution.
    changed: what of the method's settings, in words. cut: what did not come of it, see `cut_in_words`. shared: the most
    others that decoded in the same passes; where one of the rows has any, none has a speedup. few: it or plain decoding
    wrote too few tokens for one. offered: tokens that its sources offered, None where they do not tell.
    """
    ended = {lane: trace for lane, trace in run.traces.items() if trace.finish}
    base = ended.get(PLAIN)
    alone = not any(map(shared_by, ended.values()))
    plain = summarize(base.steps) if base and alone else None
    return [
        {**_row(lane, run.lanes[lane], trace, plain, base), "name": run.names[lane]} for lane, trace in ended.items()
    ]


def _row(lane: str, request: AnswerRequest, trace: Trace, plain: Summary | None, base: Trace | None) -> dict[str, Any]:
    figures = summarize(trace.steps)
    changed = request.settings.changed
    accepted, offered, guessed = overall(trace.steps)
    few = min(len(trace.tokens), len(base.tokens) if base else 0) < COMPARABLE
    known = [step.offered for step in trace.steps if step.offered is not None]
    return {
        "lane": lane,
        "method": request.method,
        "changed": in_words(changed),
        "cut": cut_in_words(changed, trace.values),
        "tokens": figures.tokens,
        "seconds": round(figures.seconds, 4),
        "rate": round(figures.micro, 3),
        "macro": round(figures.macro, 3),
        "speedup": round(speedup(plain, figures), 4) if plain and not few else None,
        "macro_speedup": round(speedup(plain, figures, macro=True), 4) if plain and not few else None,
        "few": few,
        "tau": round(figures.tau, 4),
        "passes": figures.passes,
        "acceptance": round(accepted / guessed, 4) if guessed else None,
        "offered": sum(known) if known else None,
        "of_reached": round(accepted / offered, 4) if offered else None,
        "differs": first_difference(base.tokens, trace.tokens) if base else None,
        "drawn": bool(trace.settings.get("drawn")),
        "shared": shared_by(trace),
    }


def comparison_dict(run: Run) -> dict[str, Any]:
    """The rows and every trace, as a file holds them."""
    traces = {lane: trace.to_dict() for lane, trace in run.traces.items()}
    return {"format": FORMAT, "version": VERSION, "rows": rows(run), "traces": traces}
