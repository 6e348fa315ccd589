"""Answers of stock `generate` of transformers, for text that a model writes itself."""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import torch

from spectra.datastore.build.selftext import Answering, Question, Row
from spectra.errors import SpectraError
from spectra.io.chat_template import template_ids
from spectra.target.device_map import input_device
from spectra.target.ends import end_ids
from spectra.verify.picks import NO_NUMBERS


def by_generate(model: Any, tokenizer: Any, max_new_tokens: int) -> Answering:
    """Stock `generate` of transformers."""

    def answering(batch: Sequence[Question], seed: int) -> list[Row]:
        torch.manual_seed(seed)
        return answer(model, tokenizer, batch, max_new_tokens)

    return answering


def check_fits(model: Any, tokenizer: Any, questions: Iterable[Question], max_new_tokens: int) -> None:
    """Raise SpectraError where a prompt and its answer do not fit the model's context."""
    prompts = {one.user for one in questions}
    width = max(len(template_ids(tokenizer, [{"role": "user", "content": prompt}])) for prompt in prompts)
    _check_fits(model, width, max_new_tokens)


@torch.inference_mode()
def answer(model: Any, tokenizer: Any, batch: Sequence[Question], max_new_tokens: int) -> list[Row]:
    """One row a question, all of one temperature. Raises SpectraError where one is too long or nothing can be drawn."""
    prompts = [template_ids(tokenizer, [{"role": "user", "content": one.user}]) for one in batch]
    width = max(map(len, prompts))
    _check_fits(model, width, max_new_tokens)
    ends = end_ids(model.generation_config.eos_token_id)
    pad = min(ends, default=0)
    device = input_device(model)
    ids = torch.tensor([[pad] * (width - len(one)) + list(one) for one in prompts], device=device)
    mask = torch.tensor([[0] * (width - len(one)) + [1] * len(one) for one in prompts], device=device)
    temperature = batch[0].temperature
    drawn: dict[str, Any] = {"temperature": temperature, "top_k": 0, "top_p": 1.0} if temperature else {}
    output = model.generate(
        ids,
        attention_mask=mask,
        max_new_tokens=max_new_tokens,
        do_sample=temperature > 0,
        pad_token_id=pad,
        logits_processor=[partial(_checked, temperature)],
        **drawn,
    )
    rows = []
    for one, new in zip(batch, output[:, width:].tolist(), strict=True):
        length = next((i for i, token in enumerate(new) if token in ends), len(new))
        rows.append({
            "source": one.source,
            "user": one.user,
            "assistant": tokenizer.decode(new[:length], skip_special_tokens=True),
            "temperature": temperature,
            "finished": length < len(new),
        })  # fmt: skip
    return rows


def _check_fits(model: Any, width: int, max_new_tokens: int) -> None:
    limit = getattr(model.config.get_text_config(decoder=True), "max_position_embeddings", None) or 2**31
    if width + max_new_tokens > limit:
        raise SpectraError(
            "prompts",
            f"one of {width} tokens and {max_new_tokens} new ones do not fit the context of {limit}; shorten it",
        )


def _checked(temperature: float, _: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
    """A logits processor that changes nothing: `generate` would write nonsense, or fail where torch draws."""
    highest = scores.amax(-1)
    if not highest.isfinite().all():
        raise SpectraError("model", NO_NUMBERS)
    if temperature and not (highest / temperature).isfinite().all():
        raise SpectraError("temperatures", f"{temperature} takes the scores beyond all numbers; raise it, or give 0")
    return scores
