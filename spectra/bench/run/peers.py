"""What stock transformers does on the same prompt, untouched: `generate`, its prompt lookup, its assisted decoding.

torch is loaded when one of them runs.
"""

import time
from collections.abc import Collection, Sequence
from typing import Any

from spectra.bench.run.answers import Turn
from spectra.errors import SpectraError
from spectra.service.loading import check_draft
from spectra.settings import Sampling
from spectra.target.choices import STOCK, unless_embedded

ASSISTED = "hf-assisted"
PEERS: dict[str, dict[str, Any]] = {
    STOCK: {},
    "hf-prompt-lookup": {"prompt_lookup_num_tokens": 10},
    ASSISTED: {},
}
"""Name -> extra arguments of `model.generate`; the assisted one takes the draft model besides."""


def check_assistant(methods: Collection[str], assistant: str | None, model: str | None) -> None:
    """Raise SpectraError for a draft model that is none, where a peer needs one that is not named, and where none does.

    The embedded model has its own.
    """
    if assistant is not None:
        if not assistant.strip():
            raise SpectraError("assistant", "it is blank; give a model's folder or a hub id")
        check_draft(assistant, "assistant")
        if ASSISTED not in methods:
            raise SpectraError("assistant", f"only {ASSISTED} drafts with it; add that to --methods, or leave it out")
    elif ASSISTED in methods and unless_embedded(model) is not None:
        raise SpectraError("assistant", f"{ASSISTED} needs a draft model; give --assistant PATH, a folder or a hub id")


def check_whole(methods: Collection[str], target: Any) -> None:
    """Raise SpectraError when a peer is to compute with a model whose weights are nothing but codes.

    Weights that accelerate has offloaded are read from there, also by a peer.
    """
    from spectra.target.parameter_state import without_numbers

    peer = next((method for method in methods if method in PEERS), None)
    if peer and without_numbers(target.model):
        raise SpectraError("weights", f"{peer} does not read a GGUF file's blocks; give --weights bf16 or leave it out")


def load_assistant(name: str | None, target: Any) -> Any:
    """The draft model, in the target's dtype on its device; None is the embedded model's own.

    Raises SpectraError for one that cannot be loaded or has another vocabulary.
    """
    from spectra.target.draft_model import Like, load_like, shipped

    return load_like(name or shipped("assistant"), Like.of(target), "assistant")


def run_peer(
    target: Any, name: str, prompt: list[int], *, sampling: Sampling, max_new_tokens: int, assistant: Any = None
) -> Turn:
    """What `generate` answers to these ids, prefill included in its seconds."""
    began = time.perf_counter()
    (said,) = _generate(target, name, [prompt], sampling, max_new_tokens, assistant)
    return Turn(said, time.perf_counter() - began, [])


def run_batch(target: Any, prompts: Sequence[list[int]], *, sampling: Sampling, max_new_tokens: int) -> list[list[int]]:
    """What stock `generate` answers to a batch, padded on the left; each up to its first end token."""
    eos = target.eos
    said = []
    for new in _generate(target, STOCK, prompts, sampling, max_new_tokens, None):
        end = next((at for at, token in enumerate(new) if token in eos), len(new))
        said.append(new[: end + 1])
    return said


def _generate(
    target: Any, name: str, prompts: Sequence[list[int]], sampling: Sampling, max_new_tokens: int, assistant: Any
) -> list[list[int]]:
    """The new ids of each prompt, filled up at the end."""
    import torch

    from spectra.target.session import synchronize
    from spectra.target.stock import arguments_of

    width, pad = max(map(len, prompts)), min(target.eos, default=0)
    ids = torch.tensor([[pad] * (width - len(prompt)) + prompt for prompt in prompts], device=target.device)
    mask = torch.tensor([[0] * (width - len(prompt)) + [1] * len(prompt) for prompt in prompts], device=target.device)
    arguments = arguments_of(sampling)
    if name == ASSISTED:
        arguments["assistant_model"] = assistant
    synchronize(target.device)
    with torch.inference_mode():
        out = target.model.generate(
            ids,
            attention_mask=mask,
            max_new_tokens=max_new_tokens,
            pad_token_id=pad,
            **arguments,
            **PEERS[name],
        )
    synchronize(target.device)
    answers: list[list[int]] = out[:, width:].tolist()
    return answers
