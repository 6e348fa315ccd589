"""The Compare tab without a browser."""

from types import SimpleNamespace
from typing import Any

import gradio as gr
import pytest
from fakes_engine import FakeEngine

from spectra.target.choices import STOCK
from visual.run.admission import AdmissionQueue
from visual.run.comparison import rows
from visual.run.run import Run
from visual.tabs.compare import CompareHandlers, compare_fields


def compared(engine: FakeEngine, methods: tuple[str, ...], **fields: Any) -> Run:
    """What Compare runs with these methods ticked; fields: of the form, by id."""
    with gr.Blocks():
        ask = compare_fields(engine)
    for box in ask.methods:
        box.value = [method for method in methods if method in dict(box.choices).values()]
    form = {str(field.elem_id).removeprefix("field-compare-"): field for field in ask.inputs if field.elem_id}
    for name, value in fields.items():
        form[name].value = value
    values = [field.value for field in ask.inputs]
    visit = SimpleNamespace(session_hash="visitor")
    updates = list(CompareHandlers(engine, AdmissionQueue(), ask).start(visit, None, engine.chosen, *values))
    run: Run = updates[0].memory.latest
    return run


@pytest.mark.parametrize(("method", "alone"), [("spectra", False), (STOCK, True)])
def test_nobody_decodes_beside_stock_generate(method: str, alone: bool) -> None:
    run = compared(FakeEngine(step_seconds=0), (method,))
    assert run.state == "done" and list(run.traces) == ["autoregressive", method] and run.alone == alone


def test_a_sweep_over_n_leaves_the_rows_as_the_panel_has_them() -> None:
    engine = FakeEngine(step_seconds=0)
    panel = {"method": "spectra-core", **engine.settings["spectra-core"]}
    run = compared(engine, (), **panel, sweep="order", values="3, 5")
    ran = [trace.changed for lane, trace in run.traces.items() if lane != "autoregressive"]
    assert ran == [{"order": 3, "rows": 2}, {"order": 5, "rows": 2}]


@pytest.mark.parametrize(
    ("changes", "sweep", "values", "said"),
    [
        ({}, "nodes", "4, 64", ["budget 4", "budget 64"]),
        ({}, "rows", "3, 15", ["W 3", "W 15"]),
        ({"order": 4, "rows": 6}, "nodes", "4, 64", ["N 4, W 6, budget 4", "N 4, W 6, budget 64"]),
        ({"rows": 6}, "rows", "3, 15", ["W 3", "W 15"]),
    ],
)
def test_a_swept_lane_is_not_named_by_what_the_panel_left_as_it_was(
    changes: dict[str, int], sweep: str, values: str, said: list[str]
) -> None:
    """With a node budget of 4 a lane that had one row was called "W 15, budget 4"."""
    engine = FakeEngine(step_seconds=0)
    panel = {"method": "spectra-paper", **engine.settings["spectra-paper"], **changes}
    run = compared(engine, (), **panel, sweep=sweep, values=values)
    names = [f"Paper: SPECTRA ({words})" for words in said]
    assert list(run.begin()["names"].values()) == [row["name"] for row in rows(run)] == ["Plain decoding", *names]
    asked = [trace.changed["rows"] for trace in list(run.traces.values())[1:]]
    assert asked == ([3, 15] if sweep == "rows" else [changes.get("rows", 15)] * 2)


def test_every_method_but_plain_decoding_can_have_settings_of_its_own() -> None:
    """The others have a node budget at least, which may be varied."""
    engine = FakeEngine(step_seconds=0)
    with gr.Blocks():
        ask = compare_fields(engine)
    assert {method for _, method in ask.own.choices} == engine.methods.keys() - {"autoregressive"}
    run = compared(engine, (), method="rest", nodes=64, sweep="nodes", values="4, 64")
    assert [trace.changed for trace in run.traces.values()] == [{}, {"nodes": 4}, {"nodes": 64}]
