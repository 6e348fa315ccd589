"""One method's answer to all turns of one prompt. The clock runs around the whole call: ids in, ids out."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from spectra.bench.tasks import Prompt
from spectra.metrics import distinct4, first_difference, summarize
from spectra.record import encode
from spectra.trace import StepTrace

Run = Callable[[list[int]], tuple[list[int], float, list[StepTrace]]]
"""Prompt ids -> (new ids, seconds with the prefill, steps; no steps of a peer, which does not tell them)."""


@dataclass(slots=True)
class Answer:
    """outputs: new ids by turn. seconds, steps: of all turns."""

    outputs: list[list[int]] = field(default_factory=list)
    seconds: float = 0.0
    steps: list[StepTrace] = field(default_factory=list)

    @property
    def tokens(self) -> list[int]:
        return [token for output in self.outputs for token in output]


def answer_turns(tokenizer: Any, prompt: Prompt, run: Run, plain: Answer | None = None) -> Answer:
    """Answer every turn. Each later one continues what plain decoding answered (None: this is plain decoding)."""
    answer = Answer()
    for number in range(len(prompt.turns)):
        before = (plain or answer).outputs[:number]
        new, seconds, steps = run(turn_ids(tokenizer, prompt, before))
        answer.outputs.append(new)
        answer.seconds += seconds
        answer.steps += steps
    return answer


def turn_ids(tokenizer: Any, prompt: Prompt, before: Sequence[Sequence[int]]) -> list[int]:
    """Ids of the turn that follows the answers `before`, in the model's chat template where it has one."""
    messages = []
    for said, output in zip(prompt.turns, before, strict=False):
        messages.append({"role": "user", "content": said})
        messages.append({"role": "assistant", "content": tokenizer.decode(output, skip_special_tokens=True)})
    messages.append({"role": "user", "content": prompt.turns[len(before)]})
    return encode(tokenizer, messages, raw=not getattr(tokenizer, "chat_template", None))


def row_of(answer: Answer, plain: Answer, *, comparable: bool) -> dict[str, Any]:
    """The measured fields of a row. steps, tau, mac_tp and what needs steps are None for a peer.

    comparable: False where even an exact method may write something else, so that `identical` says nothing (None).
    """
    difference = first_difference(plain.tokens, answer.tokens)
    row: dict[str, Any] = {
        "new_tokens": len(answer.tokens), "seconds": answer.seconds, "distinct4": distinct4(answer.tokens),
        "identical": difference is None if comparable else None,
        "first_difference": difference if comparable else None,
        "steps": None, "tau": None, "mac_tp": None, "queries": None, "sources": None, "offered": None,
        "acceptance": None, "step_tokens": None,
    }  # fmt: skip
    if not answer.steps:
        return row
    figures = summarize(answer.steps)
    return row | {
        "steps": figures.passes, "tau": figures.tau, "mac_tp": figures.macro,
        "queries": sum(len(step.tree) for step in answer.steps) / figures.passes,
        "sources": {source: round(share * figures.tokens) for source, share in figures.share.items()},
        "offered": figures.offered, "acceptance": figures.acceptance,
        "step_tokens": [len(step.tokens) for step in answer.steps],
    }  # fmt: skip
