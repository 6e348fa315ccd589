"""Fields keep their ids through updates, so that a visitor's state does not grow with every run."""

from typing import Any

import gradio as gr
from gradio.block_function import BlockFunction
from gradio.state_holder import SessionState


class SteadyBlocks(gr.Blocks):
    """A page in whose sessions each field is held once.

    For an update, `gr.skip()` too, gradio puts a new field with a new id in the place of the old one. For the next
    plain value it looks for that new id, does not find it, and holds the field under it for as long as the session.
    """

    async def postprocess_data(
        self, block_fn: BlockFunction, predictions: list[Any] | dict[Any, Any], state: SessionState | None
    ) -> list[Any]:
        if state is not None:
            for field in block_fn.outputs:
                state.blocks_config.blocks[field._id]._id = field._id
        values: list[Any] = await super().postprocess_data(block_fn, predictions, state)
        return values
