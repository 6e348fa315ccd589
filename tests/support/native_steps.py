"""Tiny Llama-shaped models and what the tests of a whole step do with them."""

import random
from types import SimpleNamespace

import torch
from tiny import make
from transformers import MistralConfig, MistralForCausalLM, Qwen3Config, Qwen3ForCausalLM

from spectra.target.native.attention import Slots
from spectra.target.native.llama import LlamaStep, StepSequence
from spectra.verify.picks import likeliest

KINDS = ("llama", "llama-tied", "llama-biased", "llama-yarn", "llama-page", "mistral", "qwen2", "qwen3")
_SHAPE = {
    "vocab_size": 70,
    "hidden_size": 48,
    "intermediate_size": 72,
    "num_hidden_layers": 2,
    "num_attention_heads": 6,
    "num_key_value_heads": 3,
    "head_dim": 16,
    "initializer_range": 0.3,
    "tie_word_embeddings": False,
    "bos_token_id": None,
    "eos_token_id": None,
    "pad_token_id": None,
}


def model_of_kind(kind: str, dtype: torch.dtype = torch.bfloat16):
    torch.manual_seed(0)
    if kind == "llama-tied":
        model = make("llama", tie_word_embeddings=True)
    elif kind == "llama-biased":
        model = make("llama", attention_bias=True, mlp_bias=True)
    elif kind == "llama-yarn":
        rope = {"rope_type": "yarn", "factor": 4.0, "rope_theta": 10000.0, "original_max_position_embeddings": 128}
        model = make("llama", rope_parameters=rope)
    elif kind == "llama-page":  # its rows are as long as a page of memory
        heads = {"num_attention_heads": 4, "num_key_value_heads": 2}
        model = make("llama", hidden_size=2048, num_hidden_layers=1, initializer_range=0.05, **heads)
    elif kind == "mistral":
        model = MistralForCausalLM(MistralConfig(**_SHAPE, sliding_window=11)).eval()
    elif kind == "qwen3":
        model = Qwen3ForCausalLM(Qwen3Config(**_SHAPE)).eval()
    else:
        model = make(kind)
    for name, parameter in model.named_parameters():
        if "norm" in name or name.endswith("bias"):
            torch.nn.init.normal_(parameter, 1.0 if "norm" in name else 0.0, 0.3)
    return model.to(dtype)


class Decoding:
    """One sequence with a cache, moved on by hand."""

    def __init__(self, step: LlamaStep, config, capacity: int = 256) -> None:
        dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        shape = (config.num_hidden_layers, config.num_key_value_heads, capacity, dim)
        self.one, self.length = step, 0
        self.keys, self.values = torch.zeros(shape, dtype=step.dtype), torch.zeros(shape, dtype=step.dtype)

    def asks(self, tokens, parents=None) -> SimpleNamespace:
        """What these rows ask of a step. parents: row numbers, -1 for the first rows; None: a run."""
        parents = list(range(-1, len(tokens) - 1)) if parents is None else parents
        chains: list[list[int]] = []
        for row, parent in enumerate(parents):
            chains.append([*(chains[parent] if parent >= 0 else []), row])
        return SimpleNamespace(
            sequence=StepSequence(Slots(self.keys, self.values), self.length, len(tokens)),
            tokens=list(tokens),
            chains=chains,
        )

    def step(self, tokens, parents=None) -> torch.Tensor:
        return side_by_side(self.one, [self.asks(tokens, parents)])

    def keep(self, rows) -> None:
        for cache in (self.keys, self.values):
            cache[:, :, self.length : self.length + len(rows)] = cache[:, :, [self.length + row for row in rows]]
        self.length += len(rows)


def side_by_side(step: LlamaStep, asked: list[SimpleNamespace]) -> torch.Tensor:
    tokens, chains = ([x for one in asked for x in getattr(one, n)] for n in ("tokens", "chains"))
    logits, picks = step.step([one.sequence for one in asked], tokens, chains, range(len(tokens)))
    assert picks == likeliest(logits)
    return logits


def random_tree_around(answer, rng: random.Random, vocabulary: int, most: int):
    """(tokens, parents, rows): a tree of at most `most` rows with `answer` on the path `rows` among wrong guesses."""
    tokens, parents, rows = [answer[0]], [-1], [0]
    for token in answer[1:]:
        for _ in range(rng.randrange(4)):
            tokens.append(rng.randrange(vocabulary))
            parents.append(rng.randrange(len(tokens) - 1))
        tokens.append(token)
        parents.append(rows[-1])
        rows.append(len(tokens) - 1)
    while len(tokens) < most:
        tokens.append(rng.randrange(vocabulary))
        parents.append(rng.randrange(len(tokens) - 1))
    return tokens, parents, rows
