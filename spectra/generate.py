"""The drop-in: `model.generate(**inputs, custom_generate=spectra.generate)`. Same output, fewer forward passes.

transformers prepares processors and stopping criteria and calls this function. One sequence without padding; anything
else raises and names the argument. torch loads on the first call.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from spectra.decode import decode
from spectra.errors import SpectraError
from spectra.methods.presets import make_method
from spectra.methods.resources import Resources, memory_of
from spectra.settings import Limits, Sampling

if TYPE_CHECKING:
    import torch

    from spectra.datastore.store import Store


def generate(
    model: Any,
    input_ids: torch.Tensor,
    logits_processor: Any = None,
    stopping_criteria: Any = None,
    generation_config: Any = None,
    *,
    method: str = "spectra",
    nodes: int | None = None,
    numerics: str = "auto",
    step: str = "auto",
    seed: int | None = None,
    drafts: Sequence[str | os.PathLike[str]] = (),
    remember: str | os.PathLike[str] | None = None,
    tokenizer: Any = None,
    datastores: Sequence[str | os.PathLike[str]] = (),
    streamer: Any = None,
    **model_kwargs: Any,
) -> torch.Tensor:
    """Returns [1, prompt + new] token ids, as `generate` does.

    method, nodes, numerics, step: see `decode` and `load_target`. seed: of the keyed noise when sampling; None draws
    one from torch's generator. drafts: folders of draft models, for methods that take one; loaded once for a model.
    remember: a folder that finished answers join, and from which later ones are guessed. tokenizer: the model's; with
    it the datastores that fit are guessed from: those that come with the project and the folders `datastores`.
    transformers drops a tokenizer or streamer given to generate(): bind them with functools.partial.
    model_kwargs: what generate() prepared for the model (a name of our own for one of them would collide with it).
    Raises SpectraError for several sequences, beams, padding, embeddings or a filled cache.
    """
    import torch

    from spectra.target.draft_model import drafts_of
    from spectra.target.load import wrap_model

    _refuse(input_ids, generation_config, model_kwargs)
    prompt = input_ids[0].tolist()
    sampled = bool(generation_config is not None and generation_config.do_sample)
    if seed is None:
        seed = int(torch.randint(2**62, (1,))) if sampled else 0
    max_new_tokens = _max_new_tokens(generation_config, len(prompt))

    def stopped(tokens: list[int]) -> bool:
        ids = torch.tensor([tokens], device=input_ids.device)
        return bool(stopping_criteria(ids, None).all())

    target = wrap_model(model, numerics=numerics, step=step)
    sampling = Sampling(temperature=1.0 if sampled else 0.0, seed=seed)
    memory = None if remember is None else memory_of(target, remember)
    resources = Resources(_stores(model, tokenizer, datastores), lambda: drafts_of(target, drafts), memory)
    steps = decode(
        target,
        prompt,
        make_method(method, target, resources, nodes=nodes, sampling=sampling),
        sampling=sampling,
        limits=Limits(max_new_tokens, criteria=stopped if stopping_criteria else None),
        processors=list(logits_processor or []),
    )
    out = list(prompt)
    if streamer is not None:
        streamer.put(input_ids.cpu())
    try:
        for one in steps:
            out += one.tokens
            if streamer is not None:
                for token in one.tokens:
                    streamer.put(torch.tensor([token]))
    finally:
        if streamer is not None:
            streamer.end()
    return torch.tensor([out], device=input_ids.device)


def _stores(model: Any, tokenizer: Any, datastores: Sequence[str | os.PathLike[str]]) -> Sequence[Store]:
    """Opened once for a model, a tokenizer and these folders."""
    from spectra.datastore.shipped import fitting_stores
    from spectra.target.load import learned_of

    named = tuple(os.fspath(folder) for folder in datastores)
    if tokenizer is None:
        if named:
            raise SpectraError("datastores", "stores hold token ids; bind the tokenizer too, with functools.partial")
        return ()
    known = learned_of(model).stores
    owner, stores = known.get(named, (None, ()))
    if owner is not tokenizer:
        stores = fitting_stores(tokenizer, named)
        known[named] = tokenizer, stores
    return stores


def _max_new_tokens(config: Any, prompt: int) -> int:
    """How many tokens may be added; generate() has already turned max_new_tokens into max_length."""
    longest = getattr(config, "max_length", None)
    if longest is None:
        return 256
    if longest <= prompt:
        raise SpectraError("max_length", f"{longest} leaves no space after a prompt of {prompt} tokens; raise it")
    return int(longest) - prompt


def _refuse(input_ids: torch.Tensor, config: Any, model_kwargs: dict[str, Any]) -> None:
    mask, cache = model_kwargs.get("attention_mask"), model_kwargs.get("past_key_values")
    beams = getattr(config, "num_beams", None) or 1
    several = getattr(config, "num_return_sequences", None) or 1
    if beams > 1:
        raise SpectraError("num_beams", f"{beams} beams; speculative decoding follows one, leave it at 1")
    if several > 1:
        raise SpectraError("num_return_sequences", f"{several}; one sequence at a time, call it once for each")
    if input_ids.shape[0] != 1:
        raise SpectraError("input_ids", f"{input_ids.shape[0]} sequences; one at a time, call it once for each")
    if mask is not None and not bool(mask.all()):
        raise SpectraError("attention_mask", "padding is not supported; give the one sequence without padding")
    if not model_kwargs.get("use_cache", True):
        raise SpectraError("use_cache", "False is not supported; leave it on")
    if cache is not None and cache.get_seq_length() > 0:
        raise SpectraError("past_key_values", "a filled cache is not supported; leave it out")
    if getattr(config, "return_dict_in_generate", False):
        raise SpectraError("return_dict_in_generate", "not supported; leave it out, token ids are returned")
    if (getattr(config, "guidance_scale", None) or 1) != 1:
        raise SpectraError("guidance_scale", "not supported: it runs the model a second time; leave it out")
    for name in ("inputs_embeds", "assistant_model", "encoder_outputs"):
        if model_kwargs.get(name) is not None:
            raise SpectraError(name, "not supported; leave it out and give input_ids")
