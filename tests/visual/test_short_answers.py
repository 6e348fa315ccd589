"""Answers of a few tokens, whose times are noise, and answers for which nothing was guessed."""

import re
from dataclasses import replace

import pytest
from asking import asked
from fakes_engine import FakeAnswer, FakeEngine

from spectra.metrics import PlainRate
from visual.request import plainly
from visual.run.comparison import rows
from visual.run.conversation import race_figures, readout
from visual.run.run import Run
from visual.serve import ASSETS
from visual.wire.figures import COMPARABLE, figures
from visual.wire.slow_reason import WORTH


def compared(tokens: int) -> Run:
    """A comparison that is over; also a race, whose lanes are called otherwise."""
    request = asked("x", "spectra", max_new_tokens=tokens)
    run = Run(request, {"autoregressive": plainly(request), "spectra": request})
    for lane, each in run.lanes.items():
        answer = FakeEngine(step_seconds=0).answer(each)
        list(answer)
        run.traces[lane] = answer.trace
    return run


@pytest.mark.parametrize("tokens", [1, COMPARABLE - 1, COMPARABLE])
def test_times_of_few_tokens_are_not_compared(tokens: int) -> None:
    """A race of one token claimed a speedup, of the same one pass."""
    run = compared(tokens)
    plain, method = run.traces.values()
    few = tokens < COMPARABLE
    shown = figures(plain, method)
    assert (shown["few"], shown["speedup"] is None, shown["differs"]) == (few, few, None)
    assert ("too few to learn from" in shown["why"]) == few
    found = [(row["few"], row["speedup"] is None, row["macro_speedup"] is None) for row in rows(run)]
    assert found == [(few, few, few)] * 2
    said = readout(method, PlainRate(40.0, 256))
    assert said is not None and (said["few"], said["estimate"] is None) == (few, few)
    run.traces = {"plain": plain, "method": method}
    raced = race_figures(run)
    assert (raced["speedup"] is None, "problem" in raced) == (few, few)


def test_no_estimate_exceeds_the_tokens_a_pass() -> None:
    """Plain decoding measured beside other work made an answer of 1.29 tokens a pass 3.27 times as fast."""
    trace = compared(40).traces["spectra"]
    trace.steps = [replace(step, seconds=0.025, prefill_seconds=0.0) for step in trace.steps]
    usual, busy = (readout(trace, PlainRate(rate, 256)) for rate in (40.0, 20.0))
    assert usual is not None and usual["estimate"] == pytest.approx(usual["tau"]) and usual["tau"] > 1
    assert busy is not None and busy["estimate"] is None and busy["rate"] == usual["rate"]


def test_a_raced_turn_is_compared_where_both_lanes_wrote_enough_from_the_same_cache() -> None:
    long, short = compared(COMPARABLE), compared(COMPARABLE - 1)
    plain, method = long.traces.values()
    for lanes in ((plain, short.traces["spectra"]), (short.traces["autoregressive"], method)):
        long.traces = dict(zip(("plain", "method"), lanes, strict=True))
        assert race_figures(long) == {"speedup": None, "problem": "Raced: too little was decoded to compare."}
    long.traces = {"plain": plain, "method": replace(method, kept=plain.kept + 1)}
    gone = race_figures(long)
    assert gone["speedup"] is None and gone["problem"].startswith("The kept cache went away")


def test_a_raced_turn_that_gained_little_says_why() -> None:
    """As the Race tab does."""
    run = compared(60)
    plain, method = run.traces.values()
    for steps in (method.steps, [replace(step, seconds=5 * step.seconds) for step in method.steps]):
        run.traces = {"plain": plain, "method": replace(method, steps=steps)}
        raced = race_figures(run)
        assert raced["why"] == figures(plain, run.traces["method"])["why"]
        assert (raced["speedup"] < WORTH) == bool(raced["why"]) == (steps is not method.steps)


def test_the_page_knows_how_few_is_too_few() -> None:
    script = (ASSETS / "js" / "race" / "scoreboard.js").read_text(encoding="utf-8")
    assert re.findall(r"COMPARABLE = (\d+);", script) == [str(COMPARABLE)]


def test_a_row_tells_what_was_offered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeAnswer, "_grow", lambda *_: None)
    for row in rows(compared(8)):
        assert row["acceptance"] is None and row["of_reached"] is None and row["offered"] > 0
