"""What stock transformers does on the same prompt: `generate`, and its own prompt lookup, untouched."""

import time
from typing import Any

import torch

from spectra.settings import Sampling
from spectra.target.session import synchronize

PEERS: dict[str, dict[str, Any]] = {
    "hf-generate": {},
    "hf-prompt-lookup": {"prompt_lookup_num_tokens": 10},
}
"""Name -> extra arguments of `model.generate`."""


def run_peer(target: Any, name: str, prompt: list[int], sampling: Sampling, tokens: int) -> tuple[list[int], float]:
    """(new token ids, seconds, prefill included)."""
    ids = torch.tensor([prompt], device=target.device)
    arguments: dict[str, Any] = {"do_sample": False}
    if not sampling.greedy:
        torch.manual_seed(sampling.seed)
        arguments = {
            "do_sample": True, "temperature": sampling.temperature, "top_p": sampling.top_p,
            "top_k": sampling.top_k, "min_p": sampling.min_p or None,
        }  # fmt: skip
    synchronize(target.device)
    began = time.perf_counter()
    with torch.inference_mode():
        out = target.model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=tokens,
            pad_token_id=min(target.eos, default=0),
            repetition_penalty=sampling.repetition_penalty,
            **arguments,
            **PEERS[name],
        )
    synchronize(target.device)
    seconds = time.perf_counter() - began
    return out[0, len(prompt) :].tolist(), seconds
