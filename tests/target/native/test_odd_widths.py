"""Module by module the library serves models whose widths fill torch's vectors; the others are left to torch."""

import pytest
import torch
from compiled import needs_native
from tiny import COST, make, target_of
from transformers import MistralConfig, MistralForCausalLM, Olmo2Config, Olmo2ForCausalLM

from spectra.target.execution_plan import ExecutionPlan
from spectra.target.huggingface import Execution
from spectra.target.native.steps import native_steps, obstacle
from spectra.target.preflight import PARENTS, agrees, rows_agree


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


@pytest.mark.parametrize("inner", [80, 112])
def test_a_width_of_an_odd_number_of_vectors_has_the_bits_of_one_row(inner):
    """torch takes two vectors at once and rounds an activation of the one that is left over otherwise."""
    needs_native()
    torch.manual_seed(0)
    model = olmo(intermediate_size=inner, num_hidden_layers=2, initializer_range=0.3).eval()
    target = target_of(model, plan := ExecutionPlan("exact", "native", cost=COST))
    target.use(Execution(plan, native_steps(target, "native", {}, None)))
    assert all(rows_agree(target, rows=rows) for rows in (8, 9, 10, 37))


def test_a_window_of_one_may_round_as_wider_ones_do():
    """A row reads only itself then, so a tree that is read wrongly cannot be told by its logits."""
    needs_native()
    torch.manual_seed(0)
    sizes = {"vocab_size": 70, "hidden_size": 48, "intermediate_size": 72, "num_hidden_layers": 6, "head_dim": 16}
    config = MistralConfig(
        **sizes, num_attention_heads=6, num_key_value_heads=3, sliding_window=1, initializer_range=0.3,
        bos_token_id=None, eos_token_id=None, pad_token_id=None, tie_word_embeddings=False,
    )  # fmt: skip
    target = target_of(
        MistralForCausalLM(config).bfloat16().eval(), plan := ExecutionPlan("exact", "native", cost=COST)
    )
    target.use(Execution(plan, native_steps(target, "native", {}, None)))
    assert agrees(target, PARENTS)
