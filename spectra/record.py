"""One answer from text to text, with its trace: what the command line and the page run."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from spectra.decode import decode
from spectra.errors import SpectraError
from spectra.methods import redraws
from spectra.preset import Method
from spectra.settings import Limits, Sampling
from spectra.target.prefix import Prefix
from spectra.text import TextStream
from spectra.trace import StepTrace, Trace

Message = dict[str, str]
"""role ("user" or "assistant") and content."""

Step = tuple[StepTrace, list[tuple[int, str]]]


class Recording:
    """An answer being decoded. Iterate it for (step, text pieces it completed); `trace` grows with it.

    target: a `HuggingFaceTarget` (needs its tokenizer). prompt: a text, or a conversation whose last message is the
    user's. raw: skip the chat template. run: called like `decode` without its target (default: `decode` on this one).
    prefix: the cache of the turns before, taken and left again.
    Raises SpectraError for bad input.
    """

    def __init__(
        self,
        target: Any,
        prompt: str | Sequence[Message],
        method: str | Method = "spectra",
        *,
        sampling: Sampling | None = None,
        max_new_tokens: int = 256,
        nodes: int | None = None,
        raw: bool = False,
        run: Callable[..., Iterator[StepTrace]] | None = None,
        prefix: Prefix | None = None,
    ) -> None:
        sampling = sampling or Sampling()
        limits = Limits(max_new_tokens, target.eos)
        messages = as_messages(prompt)
        ids = encode(target.tokenizer, messages, raw=raw)
        name = method if isinstance(method, str) else method.name
        self.target = target
        self.trace = Trace(
            method=name,
            model=target.name,
            prompt=messages[-1]["content"],
            prompt_tokens=tuple(ids),
            settings={
                "max_new_tokens": max_new_tokens,
                "temperature": sampling.temperature,
                "top_k": sampling.top_k,
                "top_p": sampling.top_p,
                "min_p": sampling.min_p,
                "repetition_penalty": sampling.repetition_penalty,
                "seed": sampling.seed,
                "nodes": nodes,
                "drawn": redraws(name, sampling),
                "raw": raw,
                "turn": len(messages) // 2 + 1,
            },
            environment=dict(target.facts),
        )
        run = run or partial(decode, target)
        more = {} if prefix is None else {"prefix": prefix}
        self._prefix = prefix
        self._steps = run(ids, method, sampling=sampling, limits=limits, nodes=nodes, **more)
        self._text = TextStream(partial(target.tokenizer.decode, skip_special_tokens=True))

    def __iter__(self) -> Iterator[Step]:
        for step in self._steps:
            pieces = self._text.push(step.tokens)
            if step.finish:
                pieces += self._text.flush()
            if self._prefix is not None:
                self.trace.kept = self._prefix.reused
            self.trace.steps.append(step)
            self.trace.pieces += pieces
            for token in {*step.tree.tokens, *step.picks}:
                if token not in self.trace.vocabulary:
                    self.trace.vocabulary[token] = self.target.tokenizer.decode([token])
            yield step, pieces

    def close(self) -> None:
        """Stop early and free the target. Safe to call twice."""
        self._steps.close()  # type: ignore[attr-defined]


def as_messages(prompt: str | Sequence[Message]) -> list[Message]:
    """A text is a conversation of one message."""
    return [{"role": "user", "content": prompt}] if isinstance(prompt, str) else list(prompt)


def encode(tokenizer: Any, prompt: str | Sequence[Message], *, raw: bool = False) -> list[int]:
    """Token ids of a text or a conversation in the model's chat template, or with `raw` as it is."""
    messages = as_messages(prompt)
    if not messages[-1]["content"].strip():
        raise SpectraError("prompt", "it is blank; write something")
    try:
        for message in messages:
            message["content"].encode()
    except UnicodeEncodeError as error:
        raise SpectraError("prompt", "it is not valid Unicode; give it as UTF-8") from error
    if raw:
        return list(tokenizer("\n\n".join(message["content"] for message in messages))["input_ids"])
    if not getattr(tokenizer, "chat_template", None):
        raise SpectraError("prompt", "this model has no chat template; pass --raw to continue the text as it is")
    return list(
        tokenizer.apply_chat_template(list(messages), add_generation_prompt=True, tokenize=True, return_dict=True)[
            "input_ids"
        ]
    )
