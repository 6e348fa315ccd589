"""What stock transformers does on the same prompt, untouched: `generate`, its prompt lookup, its assisted decoding."""

import time
from typing import Any

import torch
from transformers import AutoModelForCausalLM

from spectra.bench.peers import ASSISTED, PEERS
from spectra.errors import SpectraError
from spectra.settings import Sampling
from spectra.target.session import synchronize
from spectra.trace import StepTrace


def load_assistant(name: str, target: Any) -> Any:
    """The draft model, in the target's dtype on its device. Raises SpectraError for one with another vocabulary."""
    try:
        model: Any = AutoModelForCausalLM.from_pretrained(name, dtype=target.dtype)
    except Exception as error:  # hub, file and config errors differ by version; the cause is named
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise SpectraError("assistant", f"cannot load {name!r} ({first[:160]}); give a folder or a hub id") from error
    ours, theirs = target.config.vocab_size, model.config.get_text_config(decoder=True).vocab_size
    if ours != theirs:
        raise SpectraError("assistant", f"{name!r} has {theirs} tokens, the model {ours}; give one with its tokenizer")
    return model.to(target.device).eval()


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
