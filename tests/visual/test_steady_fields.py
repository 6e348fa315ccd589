"""A visitor's state holds each field of the page once, however many runs the visitor starts."""

import asyncio

from fakes_engine import FakeEngine
from gradio.state_holder import SessionState

from visual.page import build_page
from visual.widgets import SKIP


def test_runs_of_one_visitor_leave_no_fields_behind() -> None:
    page = build_page(FakeEngine(step_seconds=0))
    (stage,) = (block for block in page.blocks.values() if getattr(block, "elem_id", None) == "stage-race")
    handler = next(fn for fn in page.fns.values() if len(fn.outputs) > 1 and fn.outputs[0] is stage)
    state = SessionState(page)
    held, others = len(state.blocks_config.blocks), [SKIP] * (len(handler.outputs) - 1)

    async def run(message: str) -> None:
        for value in (SKIP, message):
            await page.postprocess_data(handler, [value, *others], state)

    for number in range(3):
        asyncio.run(run(f"message {number}"))
    assert len(state.blocks_config.blocks) == len(state.config_values) == held
    assert state.config_values[stage._id]["props"]["value"] == "message 2"
