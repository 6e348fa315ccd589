"""One answer from text to text, with its trace: what the command line and the page run."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

from spectra.decode import decode
from spectra.errors import SpectraError
from spectra.io.chat_template import template_ids
from spectra.io.text_ids import text_ids
from spectra.io.text_stream import TextStream
from spectra.methods.presets import make_method, redraws
from spectra.methods.resources import Resources
from spectra.service.shared_decoding import SharedSteps
from spectra.settings import Limits, Message, MethodSettings, Sampling, Value, check_unicode
from spectra.target.prefix import Prefix
from spectra.trace import StepTrace, Trace

Step = tuple[StepTrace, list[tuple[int, str]]]
"""A step and the pieces of text that it completed, each with the number of its tokens."""

Decoder = Callable[..., Iterator[StepTrace]]
"""Called with token ids and `sampling`, `limits`, perhaps `prefix`, as `decode` takes them; decodes by one method."""


class RunningAnswer(Protocol):
    """An answer being decoded, wherever. Iterate it for its steps; `trace` grows with it. `close` stops early."""

    trace: Trace

    def __iter__(self) -> Iterator[Step]: ...

    def close(self) -> None: ...


class Recording:
    """An answer being decoded. Iterate it for (step, text pieces it completed); `trace` grows with it.

    The settings of the trace say, where others decoded in the same passes, how many at most ("shared").

    target: a `HuggingFaceTarget` (needs its tokenizer). prompt: a text, or a conversation whose last message is the
    user's. method: a name, for the trace. decoder: what decodes. settings: what is changed about the method, for the
    trace, and values: what all its settings came to. raw: skip the chat template. explain: see `decode`. prefix: the
    cache of the turns before, taken and left again. Raises SpectraError for bad input.
    """

    def __init__(
        self,
        target: Any,
        prompt: str | Sequence[Message],
        method: str,
        decoder: Decoder,
        *,
        sampling: Sampling | None = None,
        max_new_tokens: int = 256,
        settings: MethodSettings | None = None,
        values: Mapping[str, Value] | None = None,
        raw: bool = False,
        explain: bool = False,
        prefix: Prefix | None = None,
    ) -> None:
        sampling = sampling or Sampling()
        limits = Limits(max_new_tokens, target.eos)
        messages = as_messages(prompt)
        ids = encode(target.tokenizer, messages, raw=raw)
        self.target = target
        self.trace = Trace(
            method=method,
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
                "method": {"changed": (settings or MethodSettings()).changed, "values": dict(values or {})},
                "drawn": redraws(method, sampling),
                "raw": raw,
                "turn": len(messages) // 2 + 1,
            },
            environment=dict(target.facts),
        )
        session_options: dict[str, Any] = {"explain": True} if explain else {}
        if prefix is not None:
            session_options["prefix"] = prefix
        self._prefix = prefix
        self._steps = decoder(ids, sampling=sampling, limits=limits, **session_options)
        self._text = TextStream(partial(target.tokenizer.decode, skip_special_tokens=True))

    def __iter__(self) -> Iterator[Step]:
        for step in self._steps:
            pieces = self._text.push(step.tokens)
            if step.finish:
                pieces += self._text.flush()
            if self._prefix is not None:
                self.trace.kept = self._prefix.reused
            if isinstance(self._steps, SharedSteps) and self._steps.others:
                self.trace.settings["shared"] = self._steps.others
            self.trace.steps.append(step)
            self.trace.pieces += pieces
            for token in {*step.tree.tokens, *step.picks, *(step.inside.tokens if step.inside else ())}:
                if token not in self.trace.vocabulary:
                    self.trace.vocabulary[token] = self.target.tokenizer.decode([token])
            yield step, pieces

    def close(self) -> None:
        """Stop early and free the target. Safe to call twice."""
        self._steps.close()  # type: ignore[attr-defined]


def record(
    target: Any,
    resources: Resources,
    prompt: str | Sequence[Message],
    method: str = "spectra",
    *,
    sampling: Sampling | None = None,
    max_new_tokens: int = 256,
    settings: MethodSettings | None = None,
    raw: bool = False,
    explain: bool = False,
) -> Recording:
    """Start an answer by a preset with `settings` changed; iterate it to decode. Raises SpectraError for bad input."""
    sampling = sampling or Sampling()
    made = make_method(method, target, resources, sampling=sampling, settings=settings)
    return Recording(
        target,
        prompt,
        method,
        partial(decode, target, method=made),
        sampling=sampling,
        max_new_tokens=max_new_tokens,
        settings=settings,
        values=made.settings,
        raw=raw,
        explain=explain,
    )


def as_messages(prompt: str | Sequence[Message]) -> list[Message]:
    """A text is a conversation of one message."""
    return [{"role": "user", "content": prompt}] if isinstance(prompt, str) else list(prompt)


def encode(tokenizer: Any, prompt: str | Sequence[Message], *, raw: bool = False) -> list[int]:
    """Token ids of a text or a conversation in the model's chat template, or with `raw` as it is."""
    messages = as_messages(prompt)
    if not messages[-1]["content"].strip():
        raise SpectraError("prompt", "it is blank; write something")
    for message in messages:
        check_unicode("prompt", message["content"])
    if raw:
        return list(text_ids(tokenizer, "\n\n".join(message["content"] for message in messages)))
    if not getattr(tokenizer, "chat_template", None):
        raise SpectraError("prompt", "this model has no chat template; pass --raw to continue the text as it is")
    return template_ids(tokenizer, messages)
