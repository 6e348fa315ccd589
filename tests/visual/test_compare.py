"""The Compare tab without a browser."""

from types import SimpleNamespace

import gradio as gr
import pytest
from fakes_engine import FakeEngine

from spectra.target.choices import STOCK
from visual.run.admission import AdmissionQueue
from visual.tabs.compare import CompareHandlers, compare_fields


@pytest.mark.parametrize(("method", "alone"), [("spectra", False), (STOCK, True)])
def test_nobody_decodes_beside_stock_generate(method: str, alone: bool) -> None:
    engine = FakeEngine(step_seconds=0)
    with gr.Blocks():
        ask = compare_fields(engine)
    values = [field.value for field in ask.inputs]
    values[0] = "Sort a matrix."
    values[1 : 1 + len(ask.methods)] = [[method] if method in dict(box.choices).values() else [] for box in ask.methods]
    visit = SimpleNamespace(session_hash="visitor")
    updates = list(CompareHandlers(engine, AdmissionQueue(), ask).start(visit, None, engine.chosen, *values))
    run = updates[0].memory.latest
    assert run.state == "done" and list(run.traces) == ["autoregressive", method] and run.alone == alone
