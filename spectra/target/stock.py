"""Stock transformers `generate` as an answer like any other: what a visitor's own program would run, untouched.

Its text need not be plain decoding's: in 16 bits sums are rounded in another order, and draws are torch's own.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

import torch
from transformers import AutoModelForCausalLM, StoppingCriteriaList

from spectra.guess import Source
from spectra.settings import Limits, Sampling
from spectra.target import embedded
from spectra.target.facts import environment
from spectra.target.parameter_state import without_numbers
from spectra.trace import StepTrace, TreeTrace
from spectra.tree import TokenTree

if TYPE_CHECKING:
    from spectra.target.huggingface import HuggingFaceTarget

Heard = SimpleQueue[tuple[int, float] | Exception | None]
"""Each token that `generate` wrote and when; None, or what failed, comes last."""


class StockModel:
    """The target's model as transformers runs it.

    The embedded model's weights are codes that transformers does not read: its bf16 numbers are loaded beside them.
    """

    def __init__(self, target: HuggingFaceTarget) -> None:
        self._target = target
        self._model = None if without_numbers(target.model) else target.model

    @property
    def possible(self) -> bool:
        """Whether the numbers of the weights are here, or in the embedded model's folder."""
        return not without_numbers(self._target.model) or self._target.name == embedded.NAME

    @property
    def facts(self) -> dict[str, object]:
        """Of the model and the machine; how our steps are taken is none of them."""
        return dict(environment(self._target))

    def load(self) -> None:
        """Have the numbers of the weights; the first answer does it otherwise."""
        if self._model is None:
            folder = embedded.embedded_folder()
            self._model = AutoModelForCausalLM.from_pretrained(folder, dtype=self._target.dtype).eval()

    def decode(self, prompt: Sequence[int], *, sampling: Sampling, limits: Limits, **_: object) -> Iterator[StepTrace]:
        """A token a step. The first one's seconds are the prompt's too, which `generate` does not tell apart.

        Nobody else decodes on the target meanwhile. Closing it ends `generate` after the token in hand. Raises
        SpectraError for a prompt that does not fit, TargetBusyError.
        """
        self._target.check(prompt, limits.max_new_tokens)
        with self._target.held():
            self.load()
            heard: Heard = SimpleQueue()
            stop = threading.Event()
            arguments = (prompt, sampling, limits.max_new_tokens, heard, stop)
            thread = threading.Thread(target=self._generate, args=arguments, daemon=True)
            last = time.perf_counter()
            thread.start()
            try:
                before, index = prompt[-1], 0
                while isinstance(news := heard.get(), tuple):
                    token, now = news
                    index += 1
                    ended = "eos" if token in limits.eos else "length" if index == limits.max_new_tokens else ""
                    yield _step(index - 1, before, token, now - last, ended)
                    last, before = now, token
                if news is not None:
                    raise news
            finally:
                stop.set()
                thread.join()
                news = None  # an error holds this frame, and the cache of what failed would stay with them

    def _generate(
        self,
        prompt: Sequence[int],
        sampling: Sampling,
        max_new_tokens: int,
        heard: Heard,
        stop: threading.Event,
    ) -> None:
        model: Any = self._model
        ids = torch.tensor([list(prompt)], device=self._target.device)

        def stopped(tokens: torch.Tensor, scores: object, **_: object) -> torch.Tensor:
            return torch.full((len(tokens),), stop.is_set(), device=tokens.device)

        try:
            with torch.inference_mode():
                model.generate(
                    ids,
                    attention_mask=torch.ones_like(ids),
                    max_new_tokens=max_new_tokens,
                    pad_token_id=min(self._target.eos, default=0),
                    streamer=Listener(heard),
                    stopping_criteria=StoppingCriteriaList([stopped]),
                    **arguments_of(sampling),
                )
        except Exception as error:  # noqa: BLE001 - raised where the tokens are asked for
            heard.put(error)
        else:
            heard.put(None)


class Listener:
    """A transformers streamer that hands on every new token with the time it came, the prompt left out."""

    def __init__(self, heard: Heard) -> None:
        self._heard = heard
        self._new = False

    def put(self, tokens: torch.Tensor) -> None:
        if self._new:
            self._heard.put((int(tokens), time.perf_counter()))
        self._new = True

    def end(self) -> None:
        """`StockModel` tells the end itself, also where `generate` fails."""


def arguments_of(sampling: Sampling) -> dict[str, Any]:
    """Arguments of `model.generate`. Seeds torch's own generator, which it draws from."""
    arguments: dict[str, Any] = {"do_sample": not sampling.greedy, "repetition_penalty": sampling.repetition_penalty}
    if sampling.greedy:
        return arguments
    torch.manual_seed(sampling.seed)
    return arguments | {
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "top_k": sampling.top_k,
        "min_p": sampling.min_p or None,
    }


def _step(index: int, before: int, token: int, seconds: float, finish: str) -> StepTrace:
    tree = TreeTrace.of(TokenTree(before))
    return StepTrace(index, (token,), (Source.MODEL,), (), (token,), tree, seconds, finish=finish)
