"""A draft model before and after training.

Before: a stock Llama whose tied embeddings are a low-rank factorisation of the target's. After: a folder that
`from_pretrained` reads, whole or absent, with a card; embeddings in 8 bits (float8_e4m3), the layers in bf16, no
tokenizer, for it is the target's.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import save
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM

from spectra.datastore.card import describe_files
from spectra.errors import SpectraError
from spectra.target.device_map import output_embeddings
from spectra.train.conversations import Conversations
from spectra.train.scoring import answer_states, in_groups, sample
from spectra.train.settings import TrainSettings

CARD = "card.json"
EMBEDDINGS = "model.embed_tokens.weight"
SPREAD = 0.1
"""Standard deviation of the first embeddings: well inside the range that 8 bits hold."""
SAMPLE = 4096
"""Answer tokens at which the target's last hidden states are read."""


def new_model(target: Any, settings: TrainSettings) -> Any:
    """In fp32, random but for what `factorised` fills in; vocabulary, context and special ids are the target's."""
    config = target.config.get_text_config(decoder=True)
    torch.manual_seed(settings.seed)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=config.vocab_size,
            hidden_size=settings.hidden,
            intermediate_size=settings.intermediate,
            num_hidden_layers=settings.layers,
            num_attention_heads=settings.heads,
            num_key_value_heads=settings.heads,
            max_position_embeddings=config.max_position_embeddings,
            bos_token_id=config.bos_token_id,
            eos_token_id=config.eos_token_id,
            pad_token_id=config.pad_token_id,
            tie_word_embeddings=True,
            initializer_range=settings.hidden**-0.5,
        )
    )
    model.generation_config = target.generation_config
    return model


@torch.inference_mode()
def factorised(target: Any, conversations: Conversations, rows: NDArray[np.int64], settings: TrainSettings) -> Tensor:
    """[vocabulary, hidden]: the target's output embeddings in the few directions that its logits depend on most.

    With h the target's last hidden states (a sample), C the mean of h h^T and E the embeddings less their mean, which
    no softmax sees: E C^(1/2) is cut to the directions in which frequent tokens differ most.
    """
    weights = output_embeddings(target)
    if settings.hidden > weights.shape[1]:
        raise SpectraError("hidden", f"{settings.hidden} is wider than the target's {weights.shape[1]}; give less")
    few = sample(conversations, rows, settings.length, SAMPLE)
    groups = in_groups(conversations, few, settings.length, settings.batch)
    found = [answer_states(target, conversations, group, settings.length)[0].float() for group in groups]
    states = torch.cat(found).to(weights.device)
    values, vectors = torch.linalg.eigh(states.T @ states / len(states))
    root = vectors * values.clamp(min=0).sqrt() @ vectors.T
    counts = np.bincount(conversations.tokens, minlength=len(weights))[: len(weights)]
    share = torch.from_numpy(np.sqrt(counts + 1.0)).to(weights)[:, None]
    whitened = (weights - (weights * share**2).sum(0) / (share**2).sum()) @ root
    _, directions = torch.linalg.eigh((whitened * share).T @ (whitened * share))
    kept = whitened @ directions[:, -settings.hidden :].flip(1)
    spread = kept.square().mean(0).sqrt()
    table: Tensor = kept / spread.sqrt() / (kept / spread.sqrt()).std() * SPREAD
    return table


def write_model(model: Any, folder: Path) -> None:
    """config.json, generation_config.json and model.safetensors in `folder`, which is made."""
    folder.mkdir(parents=True)
    tensors = {
        name: one.detach().cpu().to(torch.float8_e4m3fn if name == EMBEDDINGS else torch.bfloat16).contiguous()
        for name, one in model.named_parameters()
    }
    weights = save(tensors, {"format": "pt"})
    (folder / "model.safetensors").write_bytes(weights)  # `save_file` makes one that only its owner reads
    model.config.dtype = "bfloat16"
    model.config.architectures = [type(model).__name__]
    model.config.save_pretrained(folder)
    model.generation_config.save_pretrained(folder)


def write_card(folder: Path, card: Mapping[str, Any]) -> Path:
    """Put the card beside the weights; returns its file."""
    whole = {**card, "files": describe_files(folder)}
    (folder / CARD).write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")
    return folder / CARD


def publish(folder: Path, out: Path) -> None:
    """Put the folder in its place, by one rename."""
    try:
        folder.rename(out)
    except OSError as error:
        raise SpectraError("out", f"cannot write {out} ({error.strerror}); name a folder that is not there") from error


def parameters(model: Any) -> dict[str, int]:
    """How many numbers the model holds, in its embeddings and in its layers."""
    table = model.get_input_embeddings().weight.numel()
    return {"embeddings": table, "layers": sum(one.numel() for one in model.parameters()) - table}
