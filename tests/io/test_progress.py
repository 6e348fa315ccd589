"""The bar: what an earlier run did is done, and does not make this one look faster."""

import time

import pytest

from spectra.io.progress import bar


def test_what_was_skipped_counts_as_done_but_not_for_the_time_left():
    with bar("asking", 100, " prompts") as shown:
        shown.skip(90)
        time.sleep(0.05)
        shown.update(5)
        facts = shown.format_dict
    assert (shown.n, facts["total"]) == (95, 100)
    assert facts["elapsed"] >= 0.05
    line = shown.format_meter(**(facts | {"elapsed": 10.0}))
    assert "00:10<00:10" in line, "5 prompts took 10 seconds, 5 are left"


@pytest.mark.parametrize("hidden", [True, False])
def test_a_note_is_a_line_of_its_own_on_stderr(capsys, hidden):
    with bar("training", 10, " steps", hidden=hidden) as shown:
        shown.update(1)
        shown.note("step 1: better")
    out, err = capsys.readouterr()
    assert (out, "step 1: better\n" in err) == ("", True)


def test_an_error_after_a_note_begins_a_line(capsys):
    """The note drew the bar, which then was not ended where the work took less than the bar's delay."""
    with bar("training", 10, " steps") as shown:
        shown.update(1)
        shown.note("step 1: better")
    assert capsys.readouterr().err.endswith("\n")
