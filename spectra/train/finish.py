"""A trained draft model as a folder that `from_pretrained` reads, with a card. The folder is whole or absent.

Embeddings are stored in 8 bits (float8_e4m3), the layers in bf16. No tokenizer: it is the target's.
"""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from spectra.datastore.card import describe_files
from spectra.errors import SpectraError

CARD = "card.json"
EMBEDDINGS = "model.embed_tokens.weight"


def write_model(model: Any, folder: Path) -> None:
    """config.json, generation_config.json and model.safetensors in `folder`, which is made."""
    folder.mkdir(parents=True)
    tensors = {
        name: one.detach().cpu().to(torch.float8_e4m3fn if name == EMBEDDINGS else torch.bfloat16).contiguous()
        for name, one in model.named_parameters()
    }
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    model.config.dtype = "bfloat16"
    model.config.architectures = [type(model).__name__]
    model.config.save_pretrained(folder)
    model.generation_config.save_pretrained(folder)


def publish(folder: Path, out: Path, card: Mapping[str, Any]) -> None:
    """Put the card beside the weights and the folder in its place, by one rename."""
    whole = {**card, "files": describe_files(folder)}
    (folder / CARD).write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")
    try:
        folder.rename(out)
    except OSError as error:
        raise SpectraError("out", f"cannot write {out} ({error.strerror}); name a folder that is not there") from error


def parameters(model: Any) -> dict[str, int]:
    """How many numbers the model holds, in its embeddings and in its layers."""
    table = model.get_input_embeddings().weight.numel()
    return {"embeddings": table, "layers": sum(one.numel() for one in model.parameters()) - table}


def clear(folder: Path) -> None:
    """Remove what a stopped run left half written."""
    if folder.exists():
        shutil.rmtree(folder)
