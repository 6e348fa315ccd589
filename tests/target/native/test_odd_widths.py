"""Module by module the library serves models whose widths fill torch's vectors; the others are left to torch."""

import pytest
from compiled import needs_native
from tiny import COST, make, target_of
from transformers import Olmo2Config, Olmo2ForCausalLM

from spectra.target.execution_plan import ExecutionPlan
from spectra.target.native.steps import obstacle


def olmo(**changes):
    sizes = {"vocab_size": 70, "hidden_size": 48, "intermediate_size": 96, "num_hidden_layers": 1} | changes
    return Olmo2ForCausalLM(Olmo2Config(num_attention_heads=3, pad_token_id=None, **sizes))


@pytest.mark.parametrize(
    ("model", "width"),
    [
        (olmo, 0),
        (lambda: olmo(intermediate_size=72), 72),
        (lambda: olmo(hidden_size=24), 24),
        (lambda: make("llama", intermediate_size=37), 0),  # a step of its own in one call
    ],
)
def test_an_odd_width_is_left_to_torch(model, width):
    needs_native()
    why = obstacle(target_of(model(), ExecutionPlan("exact", "native", cost=COST)))
    assert why.startswith(f"a width of {width} is no multiple of 16") if width else why == ""
