"""The loop of every benchmark: what is known is not measured again, and every row is written as soon as it is known."""

import json
import os
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass

import pytest

from spectra.bench.run import rows as rows_
from spectra.bench.run.rows import ROWS, SETTINGS, Rows, claim, claimed_rows, read_rows
from spectra.bench.run.runner import missing_rows, resume
from spectra.errors import SpectraError

CELLS = [{"method": method, "repeat": repeat} for repeat in (0, 1) for method in ("a", "b")]


@dataclass(frozen=True)
class Item:
    name: str

    @property
    def key(self):
        return {"id": self.name}


class Watched:
    """Notes what it is told; an error of the field "run" ends the run."""

    def __init__(self):
        self.steps, self.left_out = [], []

    def step(self, *, ran=True):
        self.steps.append(ran)

    def leave_out(self, item, error):
        if error.field == "run":
            raise error
        self.left_out.append(item.name)


ITEMS = [Item("x"), Item("y")]


def counting(asked):
    """Measures by counting, and notes what it was asked for."""

    def measure(item, cells):
        asked.append((item.name, [(cell["method"], cell["repeat"]) for cell in cells]))
        for number, _ in enumerate(cells):
            yield {"figure": number}

    return measure


def test_each_cell_of_each_item_is_a_row():
    asked, watch = [], Watched()
    rows = list(missing_rows((), ITEMS, CELLS, counting(asked), watch))
    assert rows[1] == {"id": "x", "method": "b", "repeat": 0, "figure": 1}
    assert [(row["id"], row["method"], row["repeat"]) for row in rows] == [
        (item.name, cell["method"], cell["repeat"]) for item in ITEMS for cell in CELLS
    ]
    assert [name for name, _ in asked] == ["x", "y"] and watch.steps == [True, True]


def test_only_what_is_missing_is_measured():
    known = [{"id": "x", **CELLS[0], "figure": 9}, *({"id": "y", **cell} for cell in CELLS), {"id": "z", **CELLS[1]}]
    asked, watch = [], Watched()
    rows = list(missing_rows(known, ITEMS, CELLS, counting(asked), watch))
    assert asked == [("x", [("b", 0), ("a", 1), ("b", 1)])]
    assert len(rows) == 3 and watch.steps == [True, False]


def test_a_row_is_on_disk_before_the_next_one_is_measured(tmp_path):
    seen = []

    def measure(item, cells):
        for _ in cells:
            seen.append(len(read_rows(tmp_path / ROWS)))
            yield {}

    resume(Rows(tmp_path, needed=["id"]), ITEMS, CELLS, measure, Watched())
    assert seen == list(range(8))


def test_a_stopped_run_goes_on(tmp_path):
    def stop(item, cells):
        yield {"figure": 0}
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        resume(Rows(tmp_path, needed=["id"]), ITEMS, CELLS, stop, Watched())
    asked = []
    rows = resume(Rows(tmp_path, needed=["id"]), ITEMS, CELLS, counting(asked), Watched())
    assert [len(cells) for _, cells in asked] == [3, 4]
    assert rows == read_rows(tmp_path / ROWS) and len(rows) == 8


def test_one_process_at_a_time_adds_rows(tmp_path):
    rows = Rows(tmp_path, needed=["id"])
    resume(rows, ITEMS, CELLS, counting([]), Watched())
    with pytest.raises(SpectraError, match=r"^out: another process adds to \S*rows.jsonl; wait for it"):
        Rows(tmp_path, needed=["id"])
    del rows
    assert len(Rows(tmp_path, needed=["id"]).all) == 8


def test_rows_that_are_no_regular_file_are_refused(tmp_path):
    """A pipe was waited for, for good."""
    os.mkfifo(tmp_path / ROWS)
    with pytest.raises(SpectraError, match=r"^out: \S*rows.jsonl is no regular file; give another folder$"):
        Rows(tmp_path)


def test_a_disk_that_refuses_is_told_and_the_run_goes_on_later(tmp_path, monkeypatch):
    rows = Rows(tmp_path, needed=["id"])
    rows.add({"id": "x", "figure": 1})
    with monkeypatch.context() as full:
        full.setattr(rows, "file", tmp_path)
        with pytest.raises(SpectraError, match=r"^out: cannot write \S* \(Is a directory\); free some"):
            rows.add({"id": "y", "figure": 2})
    del rows
    with (tmp_path / ROWS).open("a") as torn:
        torn.write('{"id": "y", "fig')
    rows = Rows(tmp_path, needed=["id"])
    assert rows.all == [{"id": "x", "figure": 1}]
    rows.add({"id": "y", "figure": 2})
    assert read_rows(tmp_path / ROWS) == [{"id": "x", "figure": 1}, {"id": "y", "figure": 2}]


def test_only_rows_of_these_items_and_cells_are_given_back(tmp_path):
    resume(Rows(tmp_path, needed=["id"]), ITEMS, CELLS, counting([]), Watched())
    rows = resume(Rows(tmp_path, needed=["id"]), ITEMS[1:], CELLS[:1], counting([]), Watched())
    assert [(row["id"], row["method"], row["repeat"]) for row in rows] == [("y", "a", 0)]


def test_what_cannot_be_measured_is_left_out_from_there_on():
    def measure(item, cells):
        yield {}
        if item.name == "x":
            raise SpectraError("prompt", "too long")
        yield from ({} for _ in cells[1:])

    watch = Watched()
    rows = list(missing_rows((), ITEMS, CELLS, measure, watch))
    assert [row["id"] for row in rows] == ["x", "y", "y", "y", "y"]
    assert watch.left_out == ["x"] and watch.steps == [True, True]


def test_an_error_that_is_no_items_own_ends_the_run():
    def measure(item, cells):
        raise SpectraError("run", "no server")
        yield

    with pytest.raises(SpectraError, match="no server"):
        list(missing_rows((), ITEMS, CELLS, measure, Watched()))


def test_figures_for_more_or_fewer_cells_than_were_asked_for_are_an_error():
    for extra in (-1, 1):
        with pytest.raises(ValueError, match="zip"):
            list(
                missing_rows((), ITEMS, CELLS, lambda item, cells, extra=extra: [{}] * (len(cells) + extra), Watched())
            )


class TestSettings:
    def test_other_ones_are_refused(self, tmp_path):
        claim(tmp_path, {"seed": 0, "dtype": "fp32"})
        claim(tmp_path, {"seed": 0, "dtype": "fp32"})
        for other in ({"seed": 1, "dtype": "fp32"}, {"seed": 0}, {"seed": 0, "dtype": "fp32", "k": 1}):
            with pytest.raises(SpectraError, match=r"^out: .* holds rows with (seed|dtype|k) "):
                claim(tmp_path, other)

    def test_draft_models_may_join_and_do_not_change(self, tmp_path):
        claim(tmp_path, {"seed": 0})
        claim(tmp_path, {"seed": 0, "drafts": ["small"]})
        claim(tmp_path, {"seed": 0})
        with pytest.raises(SpectraError, match=r"holds rows with drafts \['small'\], this run has \['large'\]"):
            claim(tmp_path, {"seed": 0, "drafts": ["large"]})

    def test_of_two_runs_that_begin_together_one_is_refused(self, tmp_path, monkeypatch):
        """The settings of the second stood beside the rows of the first."""
        write = rows_.write_text
        with ThreadPoolExecutor() as pool:
            others = []

            def slow(*arguments):
                if not others:
                    others.append(pool.submit(claim, tmp_path, {"seed": 1}))
                    wait(others, 0.2)
                write(*arguments)

            monkeypatch.setattr(rows_, "write_text", slow)
            claim(tmp_path, {"seed": 0})
            with pytest.raises(SpectraError, match="holds rows with seed 0, this run has 1"):
                others[0].result()
        assert json.loads((tmp_path / SETTINGS).read_text()) == {"seed": 0}

    def test_rows_without_settings_are_refused(self, tmp_path):
        (tmp_path / "other.jsonl").write_text('{"task": "a", "id": "b"}\n')
        with pytest.raises(SpectraError, match=r"holds rows without settings\.json"):
            claimed_rows(tmp_path, {"seed": 0}, "other.jsonl")
        assert not (tmp_path / SETTINGS).exists()
