"""What stock transformers does on the same prompt, untouched: `generate`, its prompt lookup, its assisted decoding."""

import time
from typing import Any

import torch

from spectra.bench.peers import ASSISTED, PEERS
from spectra.draft_model import load_like, shipped
from spectra.settings import Sampling
from spectra.target.session import synchronize
from spectra.trace import StepTrace


def load_assistant(name: str | None, target: Any) -> Any:
    """The draft model, in the target's dtype on its device; None is the embedded model's own.

    Raises SpectraError for one that cannot be loaded or has another vocabulary.
    """
    return load_like(name or shipped("assistant"), target, "assistant")


def run_peer(
    target: Any, name: str, sampling: Sampling, tokens: int, assistant: Any, prompt: list[int]
) -> tuple[list[int], float, list[StepTrace]]:
    """(new token ids, seconds, prefill included, no steps: `generate` does not tell them)."""
    ids = torch.tensor([prompt], device=target.device)
    arguments: dict[str, Any] = {"do_sample": False}
    if not sampling.greedy:
        torch.manual_seed(sampling.seed)
        arguments = {
            "do_sample": True, "temperature": sampling.temperature, "top_p": sampling.top_p,
            "top_k": sampling.top_k, "min_p": sampling.min_p or None,
        }  # fmt: skip
    if name == ASSISTED:
        arguments["assistant_model"] = assistant
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
    return out[0, len(prompt) :].tolist(), time.perf_counter() - began, []
