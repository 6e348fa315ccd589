"""Tiny models with random weights, wide enough spread that their output is not one token over and over."""

from functools import cache

import torch
from transformers import (
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
)

from spectra.budget.step_cost import StepCost
from spectra.target import attention
from spectra.target.execution_plan import ExecutionPlan
from spectra.target.huggingface import HuggingFaceTarget

VOCABULARY = 64
COST = StepCost(((1, 1.0), (2, 1.05), (8, 1.2), (16, 1.4), (32, 1.8), (64, 2.8), (128, 4.8)))
FREE = StepCost(((1, 1.0), (1024, 1.0)))
DEAR = StepCost(((1, 1.0), (2, 1.5), (64, 30.0)))
FAMILIES = ("llama", "llama-mha", "llama-g3", "gpt2", "qwen2", "gemma3")

_SHAPE = {
    "vocab_size": VOCABULARY,
    "hidden_size": 48,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 6,
    "max_position_embeddings": 512,
    "bos_token_id": None,
    "eos_token_id": None,
    "pad_token_id": None,
    "tie_word_embeddings": False,
}


def make(family: str, seed: int = 0, **changes):
    """An untrained model of the family in fp32. `changes` go to its config."""
    torch.manual_seed(seed)
    shape = _SHAPE | {"initializer_range": 0.3} | changes
    if family == "llama":
        model = LlamaForCausalLM(LlamaConfig(**({"num_key_value_heads": 3, "head_dim": 16} | shape)))
    elif family == "llama-mha":
        model = LlamaForCausalLM(LlamaConfig(**({"num_key_value_heads": 6, "head_dim": 16} | shape)))
    elif family == "llama-g3":
        model = LlamaForCausalLM(LlamaConfig(**({"num_key_value_heads": 2, "head_dim": 16} | shape)))
    elif family == "gpt2":
        small = {"vocab_size": VOCABULARY, "n_embd": 48, "n_layer": 2, "n_head": 3, "n_positions": 512}
        none = {"bos_token_id": None, "eos_token_id": None, "initializer_range": 0.3}
        model = GPT2LMHeadModel(GPT2Config(**(small | none | changes)))
    elif family == "qwen2":
        window = {
            "num_key_value_heads": 3,
            "use_sliding_window": True,
            "sliding_window": 9,
            "max_window_layers": 1,
            "num_hidden_layers": 3,
        }
        model = Qwen2ForCausalLM(Qwen2Config(**(shape | window | changes)))
    elif family == "gemma3":
        window = {
            "num_key_value_heads": 3,
            "head_dim": 16,
            "sliding_window": 7,
            "num_hidden_layers": 3,
            "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
            "query_pre_attn_scalar": 16,
        }
        model = Gemma3ForCausalLM(Gemma3TextConfig(**(shape | window | changes)))
    else:
        raise ValueError(family)
    model.generation_config.pad_token_id = 0
    return model.eval()


@cache
def model_of(family: str, dtype: torch.dtype = torch.float64, seed: int = 0):
    """A shared model: leave it as it is."""
    return make(family, seed).to(dtype)


def target_of(model, plan: ExecutionPlan | None = None) -> HuggingFaceTarget:
    """A target with an injected plan: nothing is measured."""
    attention.register()
    return HuggingFaceTarget(model, plan=plan or ExecutionPlan(cost=COST))


def narrow_target(model, most: int) -> HuggingFaceTarget:
    """A target whose steps have at most `most` query tokens."""

    class Narrow(HuggingFaceTarget):
        max_query_tokens = most

    return Narrow(model, plan=ExecutionPlan(cost=COST))
