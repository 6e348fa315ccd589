"""The drop-in: `model.generate(**inputs, custom_generate=spectra.generate)`. Same output, fewer forward passes.

transformers prepares processors and stopping criteria and calls this function. Batches may be padded left or right.
What it cannot do raises and names the argument. torch loads on the first call.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from spectra.batch.decode_many import AT_ONCE, decode_many
from spectra.batch.request import Request
from spectra.drafters.near_certain import TableOf
from spectra.errors import SpectraError
from spectra.io.hashes import tokenizer_sha256
from spectra.methods.presets import METHODS, check_method, make_method
from spectra.methods.resources import Resources, folders, memory_of, weights_for
from spectra.settings import STOPPED, Limits, Sampling, check_number
from spectra.target.choices import CACHES

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
    estimates: str | os.PathLike[str] | None = None,
    tokenizer: Any = None,
    datastores: Sequence[str | os.PathLike[str]] = (),
    streamer: Any = None,
    at_once: int = AT_ONCE,
    cache_bytes: int | None = None,
    **model_kwargs: Any,
) -> torch.Tensor:
    """Returns [sequences, prompt + new] token ids, as `generate` does: after its end a sequence is filled up by the pad
    token. The text of each is the one it has alone.

    input_ids: [prompts, longest prompt]. streamer: gets the prompt and each token by `put`, and `end`; of one sequence.
    Without a length in the configuration an answer has up to 256 new tokens.

    method, nodes: see `make_method`. numerics, step: see `load_target`. seed: of the first sequence's keyed noise when
    sampling, the next ones count on from it; None draws one from torch's generator. drafts: folders of draft models,
    for methods that take one; loaded once for a model. remember: a folder that finished answers join, and from which
    later ones are guessed. estimates: see `load_resources`. tokenizer: the model's; with it the datastores that fit are
    guessed from: those that come with the project and the folders `datastores`. at_once, cache_bytes: see
    `decode_many`. transformers drops a tokenizer, streamer or assistant_model given to generate(): bind the first two
    with functools.partial, and name the folder of the third in `drafts`. model_kwargs: what generate() prepared for the
    model (a name of our own for one of them would collide with it).

    Logits processors and stopping criteria see one sequence at a time, [1, n], its padding included, on the left. Of
    several sequences each has a shallow copy of them. Threads that call it with one model wait for each other.
    Raises SpectraError for beams and other ways of decoding, embeddings, images and whatever else the model would read
    beside token ids, ids that are no rows, a streamer that is none, a filled cache, a row of padding only or with holes
    in its mask, and what needs all sequences at once.
    """
    import torch

    from spectra.target.draft_model import drafts_of
    from spectra.target.known_models import learned_of
    from spectra.target.load import wrap_model

    check_number("at_once", at_once, 1, 4096, whole=True)
    _refuse(generation_config, model_kwargs)
    samples = getattr(generation_config, "num_return_sequences", None) or 1
    rows = _rows(input_ids, model_kwargs.get("attention_mask"), samples)
    _refuse_inputs(model, input_ids, model_kwargs)
    _check_callable(logits_processor=logits_processor, stopping_criteria=stopping_criteria)
    _refuse_several(len(rows), logits_processor, streamer)
    pad = _pad_token(generation_config, len(rows), stopping_criteria)
    sampled = bool(generation_config is not None and generation_config.do_sample)
    if seed is None:
        seed = int(torch.randint(2**62, (1,))) if sampled else 0
    limits = Limits(_max_new_tokens(generation_config, input_ids.shape[1]))
    drafts = folders("drafts", drafts)
    check_method(method)
    if drafts and not METHODS[method].asks:
        fix = "leave them out, or choose a method that does, such as spectra-draft"
        raise SpectraError("drafts", f"{method} asks no draft model; {fix}")

    with learned_of(model).turn:
        target = wrap_model(model, numerics=numerics, step=step)
        memory = None if remember is None else memory_of(target, remember)
        stores, table = _stores(model, tokenizer, datastores)
        weights = weights_for(stores, estimates)
        resources = Resources(stores, lambda: drafts_of(target, drafts), memory, weights, table)
        together = min(len(rows), at_once) if target.joins else 1
        requests = []
        for number, row in enumerate(rows):
            sampling = Sampling(temperature=1.0 if sampled else 0.0, seed=(seed + number) % 2**63 if number else seed)
            made = make_method(method, target, resources, nodes=nodes, sampling=sampling, together=max(1, together))
            criteria = stopping_criteria
            if criteria and len(rows) > 1:  # one may keep what it saw of its sequence
                criteria = type(criteria)(map(copy, criteria))
            stop = _criteria(row, criteria, input_ids.device)
            processors = [_with_padding(row, _of_row(one, number, len(rows))) for one in logits_processor or []]
            options = {"processors": processors}
            ends, name = replace(limits, criteria=stop), f"row {number // samples}"
            requests.append(Request(row.prompt, made, sampling, ends, options=options, name=name))

        said: list[list[int]] = [[] for _ in rows]
        if streamer is not None:
            streamer.put(input_ids.cpu())
        try:
            for number, one in decode_many(target, requests, at_once=at_once, cache_bytes=cache_bytes):
                said[number] += one.tokens
                if streamer is not None:
                    for token in one.tokens:
                        streamer.put(torch.tensor([token]))
        finally:
            if streamer is not None:
                streamer.end()
        longest = max(map(len, said))
        out = [[*row.padded, *new, *[pad] * (longest - len(new))] for row, new in zip(rows, said, strict=True)]
        return torch.tensor(out, device=input_ids.device)


@dataclass(frozen=True, slots=True)
class _Row:
    """padded: all ids of a row. prompt: those that the mask leaves, which stand side by side, from `first` on."""

    padded: list[int]
    prompt: list[int]
    first: int = 0

    @property
    def padding(self) -> list[int]:
        return [*self.padded[: self.first], *self.padded[self.first + len(self.prompt) :]]

    def shown(self, tokens: list[int]) -> list[int]:
        """Prompt and new tokens as they stand in the output of a batch that is padded on the left."""
        return [*self.padding, *tokens]


def _rows(input_ids: torch.Tensor, mask: torch.Tensor | None, samples: int) -> list[_Row]:
    """samples: rows of each that was given, which errors name. Raises SpectraError for ids that are no rows, no row at
    all, a mask of another shape or of other numbers than 0 and 1, a row of padding only, and for holes.
    """
    import torch

    shape = getattr(input_ids, "shape", None)
    what = f"a {type(input_ids).__name__}" if shape is None else ""
    if shape is not None and len(shape) != 2:
        what = f"its shape is {list(shape)}"
    elif shape is not None and input_ids.dtype is torch.bool:
        what = "it is a mask"
    if what:
        raise SpectraError("input_ids", f"{what}; give a tensor of token ids, [sequences, length]")
    if not len(input_ids):
        raise SpectraError("input_ids", "there is no row; give one for each sequence")
    if mask is None:
        return [_Row(row, row) for row in input_ids.tolist()]
    if mask.shape != input_ids.shape:
        shapes = f"{list(mask.shape)} beside ids {list(input_ids.shape)}"
        raise SpectraError("attention_mask", f"its shape is {shapes}; give one number for each id")
    if not ((mask == 0) | (mask == 1)).all():
        raise SpectraError("attention_mask", "it holds other numbers than 0 and 1; give 1 for a token, 0 for padding")
    rows = []
    for number, (ids, marks) in enumerate(zip(input_ids.tolist(), mask.bool().tolist(), strict=True)):
        count = sum(marks)
        if not count:
            raise SpectraError("attention_mask", f"row {number // samples} is padding only; leave that row out")
        first = marks.index(True)
        if not all(marks[first : first + count]):
            fix = "pad on the left or on the right, and give one where a prompt holds the pad token"
            raise SpectraError("attention_mask", f"row {number // samples} has holes; {fix}")
        rows.append(_Row(ids, ids[first : first + count], first))
    return rows


def _criteria(row: _Row, criteria: Any, device: torch.device) -> Callable[[list[int]], bool] | None:
    """The stopping criteria, asked about one sequence."""
    import torch
    from transformers import StoppingCriteriaList

    if isinstance(criteria, list):
        criteria = StoppingCriteriaList(map(_answering, criteria))

    def stopped(tokens: list[int]) -> bool:
        try:
            done = criteria(torch.tensor([row.shown(tokens)], device=device), None)
        except StopIteration as error:
            raise SpectraError("stopping_criteria", STOPPED) from error
        if done.numel() != 1:
            raise SpectraError(
                "stopping_criteria", f"one answers for {done.numel()} sequences where it sees 1; give one that does not"
            )
        return bool(done.all())

    return stopped if criteria else None


def _answering(criterion: Any) -> Callable[..., Any]:
    """The criterion. Raises SpectraError where it gives no answer."""

    def asked(*args: Any, **options: Any) -> Any:
        said = criterion(*args, **options)
        if not isinstance(said, bool | int) and getattr(said, "shape", None) is None:
            what = f"one gives a {type(said).__name__}"
            raise SpectraError("stopping_criteria", f"{what}; give one that says True or False")
        return said

    return asked


PER_ROW = ("prompt_ignore_length", "encoder_input_ids", "compiled_grammars")
"""What processors of transformers hold for each row of a batch, or for each prompt of several samples; a list of
xgrammar's.
"""


def _of_row(processor: Any, number: int, rows: int) -> Any:
    """The processor as it would be for that row alone: a copy, since a grammar keeps where it is in its sequence."""
    if rows == 1:
        return processor
    held: dict[str, Any] = {name: getattr(processor, name, None) for name in PER_ROW}
    processor = copy(processor)
    for name, value in held.items():
        several = isinstance(value, list) or getattr(value, "ndim", 0) > 0
        if several and len(value) and rows % len(value) == 0:
            at = number * len(value) // rows
            setattr(processor, name, value[at : at + 1])
    return processor


def _with_padding(row: _Row, processor: Any) -> Any:
    """The processor, shown the row with its padding on the left. Those that do not look at tokens stay as they are."""
    import torch

    from spectra.verify.picks import BLIND

    if isinstance(processor, BLIND) or not row.padding:
        return processor
    ignored = getattr(processor, "prompt_ignore_length", None)
    if isinstance(ignored, int | torch.Tensor):
        counted = torch.as_tensor(ignored)  # in the row as it was given; transformers counts what is before its prompt
        moved = torch.minimum(counted + len(row.padding) - row.first, counted.clamp(min=len(row.padded)))
        processor = copy(processor)
        processor.prompt_ignore_length = moved if isinstance(ignored, torch.Tensor) else int(moved)

    def shown(input_ids: torch.Tensor, scores: torch.Tensor) -> Any:
        ids = [row.shown(tokens) for tokens in input_ids.tolist()]
        return processor(torch.tensor(ids, device=input_ids.device), scores)

    return shown


def _pad_token(config: Any, rows: int, criteria: Any) -> int:
    """What fills up a sequence that ends before the longest. Raises SpectraError where it is needed and not known."""
    from transformers import MaxLengthCriteria

    held = getattr(config, "_pad_token_tensor", None)
    if held is not None:
        return int(held)
    if rows > 1 and any(not isinstance(one, MaxLengthCriteria) for one in criteria or ()):
        raise SpectraError("pad_token_id", "it is not set, and sequences may end before the longest; set one")
    return 0


def _stores(
    model: Any, tokenizer: Any, datastores: Sequence[str | os.PathLike[str]]
) -> tuple[Sequence[Store], TableOf | None]:
    """Opened once for a model, a tokenizer and these folders, with what is nearly certain in them."""
    from spectra.datastore.shipped import stores_for
    from spectra.target.known_models import learned_of

    named = tuple(folders("datastores", datastores))
    if tokenizer is None:
        if named:
            raise SpectraError("datastores", "stores hold token ids; bind the tokenizer too, with functools.partial")
        return (), None
    if not callable(getattr(tokenizer, "get_vocab", None)):
        raise SpectraError("tokenizer", f"a {type(tokenizer).__name__} is no tokenizer; give the model's own object")
    known = learned_of(model).stores
    owner, stores, table = known.get(named, (None, (), None))
    if owner is not tokenizer:
        stores = stores_for(tokenizer_sha256(tokenizer), named)
        table = TableOf(stores)
        known[named] = tokenizer, stores, table
    return stores, table


def _max_new_tokens(config: Any, prompt: int) -> int:
    """How many tokens may be added; generate() has already turned max_new_tokens into max_length."""
    longest = getattr(config, "max_length", None)
    if longest is None:
        return 256
    if not float(longest).is_integer():
        name = "max_length" if getattr(config, "max_new_tokens", None) is None else "max_new_tokens"
        raise SpectraError(name, f"{getattr(config, name)!r} is not a whole number; give one")
    if longest <= prompt:
        raise SpectraError("max_length", f"{longest} leaves no space after a prompt of {prompt} tokens; raise it")
    return int(longest) - prompt


def _refuse(config: Any, model_kwargs: dict[str, Any]) -> None:
    from spectra.target.own_inputs import check_cache

    beams = getattr(config, "num_beams", None) or 1
    if beams > 1:
        raise SpectraError("num_beams", f"{beams} beams; speculative decoding follows one, leave it at 1")
    if not model_kwargs.get("use_cache", True):
        raise SpectraError("use_cache", "False is not supported; leave it on")
    for name in CACHES:
        if (cache := model_kwargs.get(name)) is not None:
            check_cache(name, cache)
    if getattr(config, "return_dict_in_generate", False):
        raise SpectraError("return_dict_in_generate", "not supported; leave it out, token ids are returned")
    if (getattr(config, "guidance_scale", None) or 1) != 1:
        raise SpectraError("guidance_scale", "not supported: it runs the model a second time; leave it out")
    for name in ("penalty_alpha", "dola_layers", "constraints", "force_words_ids"):
        if getattr(config, name, None):
            raise SpectraError(name, "not supported: it is another way of decoding; leave it out")
    if model_kwargs.get("encoder_outputs") is not None:
        raise SpectraError("model", "it has an encoder; give a causal language model")
    for name in ("inputs_embeds", "assistant_model"):
        if model_kwargs.get(name) is not None:
            raise SpectraError(name, "not supported; leave it out and give input_ids")


UNSEEN = ("output_attentions", "output_hidden_states")
"""Nobody gets to see them without return_dict_in_generate, which is refused."""
READ = ("attention_mask", *CACHES, "use_cache", "logits_to_keep", "cache_position", *UNSEEN)
"""Of what generate() prepares for the model; the rest has to say nothing."""


def _refuse_inputs(model: Any, input_ids: torch.Tensor, model_kwargs: dict[str, Any]) -> None:
    """What the model would read beside the tokens: images, kinds of tokens, places of one's own."""
    from spectra.target.own_inputs import check_prepared

    mask = model_kwargs.get("attention_mask")
    attended = input_ids.new_ones(input_ids.shape).bool() if mask is None else mask.bool()
    places = attended.long().cumsum(-1) - 1
    several = model.config.get_text_config(decoder=True) is not model.config
    for name, value in model_kwargs.items():
        if name in READ or value is None or value is False or (isinstance(value, Mapping) and not value):
            continue
        if name == "position_ids":
            numbers, ids = value.shape[-1], places.shape[-1]
            lines = value.shape[-2] if value.ndim > 1 else 1
            if numbers != ids or lines not in (1, len(places)):  # of a mask of ones, which generate() does not hand on
                found = f"{numbers} numbers for {ids} ids" if numbers != ids else f"{lines} rows for {len(places)}"
                raise SpectraError("attention_mask", f"it or position_ids has {found}; give one for each id")
            usual = bool(((value == places) | ~attended).all())
        else:  # of a model for images too, kind 0 is text
            usual = name.endswith("token_type_ids") and several and not value.any()
        if not usual:
            raise SpectraError(name, "not supported: the text is decoded from token ids alone; leave it out")
    check_prepared(model, input_ids, model_kwargs, places.where(attended, -1), READ)


def _check_callable(**given: Any) -> None:
    """Raises SpectraError for one of a list that is no processor and no criterion."""
    for name, ones in given.items():
        for one in ones if isinstance(ones, list) else ():
            if not callable(one):
                raise SpectraError(name, f"a {type(one).__name__} among them cannot be called; leave it out")


def _refuse_several(rows: int, processors: Any, streamer: Any) -> None:
    """What follows one sequence only, and a streamer that is none."""
    from transformers import (
        EncoderNoRepeatNGramLogitsProcessor,
        PrefixConstrainedLogitsProcessor,
        UnbatchedClassifierFreeGuidanceLogitsProcessor,
    )

    if streamer is not None and not all(callable(getattr(streamer, name, None)) for name in ("put", "end")):
        raise SpectraError("streamer", f"a {type(streamer).__name__} has no put and end; give one of transformers")
    if rows > 1 and streamer is not None:
        raise SpectraError("streamer", f"it follows one sequence, and there are {rows}; leave it out")
    if rows > 1 and any(isinstance(one, PrefixConstrainedLogitsProcessor) for one in processors or ()):
        raise SpectraError(
            "prefix_allowed_tokens_fn", f"it asks for a sequence's number, and there are {rows}; give one sequence"
        )
    if rows > 1 and any(isinstance(one, EncoderNoRepeatNGramLogitsProcessor) for one in processors or ()):
        raise SpectraError(
            "encoder_no_repeat_ngram_size", f"it goes with one sequence, and there are {rows}; leave it out"
        )
    if rows > 1 and any(isinstance(one, UnbatchedClassifierFreeGuidanceLogitsProcessor) for one in processors or ()):
        raise SpectraError(
            "logits_processor", f"one for guidance has a KV cache of one sequence, and there are {rows}; leave it out"
        )
