"""`sweep` where there is nothing to compare: one line, or a blank cell."""

import pytest
from benched import loaded

from spectra.bench import sweep
from spectra.bench.report.figures import by_method
from spectra.bench.run.answers import AnswerOptions
from spectra.bench.sweep import Point, SweepOptions
from spectra.bench.tasks import PromptOptions
from spectra.errors import SpectraError
from spectra.service.loading import ModelOptions


def row(method, identical=True, seconds=1.0):
    return {
        "task": "a", "id": "x", "method": method, "repeat": 0, "seconds": seconds, "new_tokens": 10, "steps": 5,
        "tau": 2.0, "mac_tp": 10.0 / seconds, "queries": 3.0, "identical": identical, "distinct4": 0.5,
        "sources": {"model": 10},
    }  # fmt: skip


@pytest.mark.parametrize(("vary", "value"), [("temperature", 1.0), ("nodes", 4)])
@pytest.mark.parametrize("rows", [[], [row("autoregressive")]])
def test_without_an_answer_that_fits_one_line_says_so(tmp_path, monkeypatch, vary, value, rows):
    monkeypatch.setattr(sweep, "run_methods", lambda *given, **more: rows)
    prompts = PromptOptions(tmp_path)
    options = SweepOptions(prompts, ModelOptions(), AnswerOptions(), tmp_path, vary, (value,), method="anpd")
    with pytest.raises(SpectraError, match=r"^max_new_tokens: anpd.* has no prompt that fits"):
        sweep.measure(loaded(), [], options)


def test_what_is_not_compared_is_blank():
    table = by_method([row("autoregressive"), row("rrsw", identical=None, seconds=0.5)])
    line = sweep.table("temperature", {1.0: Point(table["rrsw"], table["autoregressive"])}).splitlines()[-1]
    assert line == "| 1 | 2.00 | 2.00 | 3.0 | 20.0 | 20.0 | 2.00 |  |"
