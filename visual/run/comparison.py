"""Many methods on one prompt as rows of a table. All figures come from `spectra.metrics`."""

from typing import Any

from spectra.metrics import first_difference, speedup, summarize
from spectra.trace import Trace
from visual.engine import PLAIN
from visual.names import short
from visual.run.run import Run

FORMAT = "spectra-comparison"
VERSION = 1


def rows(run: Run) -> list[dict[str, Any]]:
    """A row for each lane that ended, in the order they ran. The others are compared with plain decoding.

    rate: tokens/s, prefill included. acceptance: accepted / offered over all sources, None where nothing was offered.
    differs: the first token that is not plain decoding's, None where all agree or either answer was cut short.
    drawn: the method may write another text than plain decoding, of the same distribution.
    """
    ended = {lane: trace for lane, trace in run.traces.items() if trace.finish}
    return [_row(lane, trace, ended.get(PLAIN)) for lane, trace in ended.items()]


def _row(method: str, trace: Trace, plain: Trace | None) -> dict[str, Any]:
    figures = summarize(trace.steps)
    offered = sum(figures.offered.values())
    accepted = sum(figures.acceptance[source] * n for source, n in figures.offered.items())
    return {
        "method": method,
        "name": short(method),
        "tokens": figures.tokens,
        "seconds": round(figures.seconds, 4),
        "rate": round(figures.micro, 3),
        "speedup": round(speedup(summarize(plain.steps), figures), 4) if plain else None,
        "tau": round(figures.tau, 4),
        "passes": figures.passes,
        "acceptance": round(accepted / offered, 4) if offered else None,
        "differs": first_difference(plain.tokens, trace.tokens) if plain else None,
        "drawn": bool(trace.settings.get("drawn")),
    }


def comparison_dict(run: Run) -> dict[str, Any]:
    """The rows and every trace, as a file holds them."""
    traces = {lane: trace.to_dict() for lane, trace in run.traces.items()}
    return {"format": FORMAT, "version": VERSION, "rows": rows(run), "traces": traces}
