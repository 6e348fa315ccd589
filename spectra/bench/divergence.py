"""`python -m spectra.bench divergence`: the first token at which stock `generate` and its own prompt lookup differ, and
the two logits that decide it; beside it the same place in exact numerics, scored alone and inside a wide step.

The page's Learn tab shows the file that it writes.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from spectra.bench.run.answers import tokens_of, turn_ids
from spectra.bench.run.peers import PEERS
from spectra.bench.tasks import Prompt
from spectra.errors import SpectraError
from spectra.io.file_kinds import DIVERGENCE
from spectra.io.files import check_writable, write_text
from spectra.methods.presets import PLAIN
from spectra.metrics import first_difference
from spectra.service.loading import LoadedModel, ModelOptions
from spectra.settings import Limits, Sampling, check_unicode
from spectra.target.choices import CACHES
from spectra.tree import ROOT

if TYPE_CHECKING:
    import torch

METHOD = "spectra"
BEFORE = 160
"""Characters of the text before the place."""
AHEAD = 4
"""Tokens before the place that a wide step scores together with it."""


@dataclass(frozen=True, slots=True)
class DivergenceOptions:
    """prompt: what both answer. model: in 16 bits."""

    model: ModelOptions
    prompt: str
    out: Path
    max_new_tokens: int = 256

    def __post_init__(self) -> None:
        Limits(self.max_new_tokens)
        if not self.prompt.strip():
            raise SpectraError("prompt", "it is blank; give a prompt")
        check_unicode("prompt", self.prompt)


@dataclass(slots=True)
class StockAnswer:
    """tokens: new ones. logits: of each, [vocabulary] in fp32. passes: (first position, query tokens) of each."""

    tokens: list[int]
    logits: "Sequence[torch.Tensor]"
    passes: list[tuple[int, int]] = field(default_factory=list)


AnswerBy = Callable[[Any, str, list[int], int], StockAnswer]
"""Target, name of the peer, ids of the prompt, the most new tokens."""


class LogitPair(NamedTuple):
    """Logits of the two tokens at which the answers differ."""

    first: float
    second: float


def run_divergence(options: DivergenceOptions) -> int:
    """The subcommand `divergence`. Raises SpectraError where the two answers are the same."""
    check_writable(options.out, "out")
    model = options.model.load()
    found = divergence(model, options.prompt, options.max_new_tokens)
    write_text(options.out, json.dumps(found, ensure_ascii=False, indent=1) + "\n", "out")
    stock, words = found["stock"], [token["text"] for token in found["tokens"]]
    place = f"{options.out}: token {found['index'] + 1}, {words[0]!r} or {words[1]!r}"
    logits = f"{tuple(stock['alone'])} by generate, {tuple(stock['wide'])} by prompt lookup"
    print(f"{place}; {logits} in passes over up to {stock['rows']} tokens")
    return 0


def divergence(model: LoadedModel, text: str, max_new_tokens: int, answer: AnswerBy | None = None) -> dict[str, Any]:
    """What the file holds: the place, both tokens, and logits by pass. answer: None is `stock_answer`."""
    answer = answer or stock_answer
    target = model.target
    ids = turn_ids(target.tokenizer, Prompt("", (text,)))
    ours = tokens_of(model, METHOD, ids, max_new_tokens)
    plain = tokens_of(model, PLAIN, ids, max_new_tokens)
    alone = answer(target, "hf-generate", ids, max_new_tokens)
    wide = answer(target, "hf-prompt-lookup", ids, max_new_tokens)
    index = first_difference(alone.tokens, wide.tokens)
    if index is None or index >= min(len(alone.tokens), len(wide.tokens)):
        raise SpectraError("prompt", "stock generate and its prompt lookup write the same; give another one")
    tokens = alone.tokens[index], wide.tokens[index]

    def pair(logits: "torch.Tensor") -> LogitPair:
        return LogitPair(*(float(logits[token]) for token in tokens))

    place = len(ids) + index - 1
    rows = max(count for first, count in wide.passes[1:] if first <= place)  # those that wrote the cache count too
    before = [*ids, *alone.tokens[:index]]
    own = exact_logits(model, before, max(rows, AHEAD + 1))
    decode = target.tokenizer.decode
    return {
        **DIVERGENCE._asdict(), "recorded": date.today().isoformat(),
        "model": target.name, "environment": dict(target.facts), "prompt": text, "index": index,
        "before": decode(alone.tokens[:index])[-BEFORE:],
        "tokens": [{"id": token, "text": decode([token])} for token in tokens],
        "after": [decode(each.tokens[index : index + 12]) for each in (alone, wide)],
        "stock": {"alone": pair(alone.logits[index]), "wide": pair(wide.logits[index]), "rows": rows},
        "exact": {
            "alone": pair(own[0]), "wide": pair(own[1]), "rows": max(rows, AHEAD + 1),
            "equal": bool((own[0] == own[1]).all()), "vocabulary": len(own[0]),
            "differs": first_difference(plain, ours), "tokens": len(plain),
        },
    }  # fmt: skip


def stock_answer(target: Any, name: str, ids: list[int], max_new_tokens: int) -> StockAnswer:
    """What `generate` answers greedily, untouched, with its logits."""
    import torch

    prompt = torch.tensor([ids], device=target.device)
    with torch.inference_mode(), watched(target.model) as passes:
        out = target.model.generate(
            prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=max_new_tokens, do_sample=False,
            pad_token_id=min(target.eos, default=0), output_logits=True, return_dict_in_generate=True, **PEERS[name],
        )  # fmt: skip
    logits = [row[0].float() for row in out.logits]
    return StockAnswer(out.sequences[0, len(ids) :].tolist(), logits, passes)


@contextmanager
def watched(network: Any) -> Iterator[list[tuple[int, int]]]:
    """Where each forward pass begins and how many tokens it reads."""
    passes: list[tuple[int, int]] = []

    def note(_: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
        ids = named["input_ids"] if "input_ids" in named else arguments[0]
        cache = next((named[name] for name in CACHES if name in named), None)
        passes.append((int(cache.get_seq_length()) if cache is not None else 0, int(ids.shape[1])))

    handle = network.register_forward_pre_hook(note, with_kwargs=True)
    try:
        yield passes
    finally:
        handle.remove()


def exact_logits(model: LoadedModel, before: Sequence[int], rows: int) -> "tuple[torch.Tensor, torch.Tensor]":
    """Logits [vocabulary] after `before`: token by token, and inside one step over `rows` tokens."""
    import torch

    target = model.target
    chain, head = list(before[-AHEAD:]), before[: 1 - AHEAD]
    with closing(target.start(head, rows, rows, Sampling())) as session, torch.inference_mode():
        wide_tokens = [*chain, *[chain[-1]] * (rows - AHEAD)]
        ancestors = [list(range(row + 1)) for row in range(rows)]
        wide = target.forward(session.cache, wide_tokens, ancestors, [AHEAD - 1])[0].float().clone()
        for token in chain[:-1]:
            target.forward(session.cache, [token], [[ROOT]], [0])
            session.cache.keep([ROOT])
        alone = target.forward(session.cache, chain[-1:], [[ROOT]], [0])[0].float().clone()
    return alone, wide
