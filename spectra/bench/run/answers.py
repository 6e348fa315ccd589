"""One method's answer to all turns of one prompt. The clock runs around the whole call: ids in, ids out."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from spectra.bench.run.rows import Row
from spectra.bench.tasks import Prompt
from spectra.decode import decode
from spectra.errors import SpectraError
from spectra.methods.draft_models import DRAFT_MODELS
from spectra.metrics import distinct4, first_difference, summarize
from spectra.service.loading import LoadedModel
from spectra.service.recording import encode
from spectra.settings import Limits, Sampling, check_number
from spectra.trace import StepTrace


class Turn(NamedTuple):
    """The answer to one turn. seconds: with the prefill. steps: none of a peer, which does not tell them."""

    tokens: list[int]
    seconds: float
    steps: list[StepTrace]


Run = Callable[[list[int]], Turn]
"""Answers the ids of a prompt."""


@dataclass(frozen=True, slots=True)
class AnswerOptions:
    """How every answer is decoded. nodes: the most guessed tokens a step; None is the method's own number."""

    max_new_tokens: int = 256
    temperature: float = 0.0
    top_p: float = 1.0
    seed: int = 0
    nodes: int | None = None

    def __post_init__(self) -> None:
        Limits(self.max_new_tokens)
        if self.nodes is not None:
            check_number("nodes", self.nodes, 1, 1024, whole=True)
        _ = self.sampling  # refuses what it cannot be

    @property
    def sampling(self) -> Sampling:
        return Sampling(temperature=self.temperature, top_p=self.top_p, seed=self.seed)


@dataclass(slots=True)
class PromptAnswer:
    """outputs: new ids by turn. seconds, steps: of all turns."""

    outputs: list[list[int]] = field(default_factory=list)
    seconds: float = 0.0
    steps: list[StepTrace] = field(default_factory=list)

    @property
    def tokens(self) -> list[int]:
        return [token for output in self.outputs for token in output]


def answer_turns(tokenizer: Any, prompt: Prompt, run: Run, plain: PromptAnswer | None = None) -> PromptAnswer:
    """Answer every turn. Each later one continues what plain decoding answered (None: this is plain decoding)."""
    answer = PromptAnswer()
    for number in range(len(prompt.turns)):
        before = (plain or answer).outputs[:number]
        turn = run(turn_ids(tokenizer, prompt, before))
        answer.outputs.append(turn.tokens)
        answer.seconds += turn.seconds
        answer.steps += turn.steps
    return answer


def turn_ids(tokenizer: Any, prompt: Prompt, before: Sequence[Sequence[int]] = ()) -> list[int]:
    """Ids of the turn that follows the answers `before`, in the model's chat template where it has one."""
    messages = []
    for said, output in zip(prompt.turns, before, strict=False):
        messages.append({"role": "user", "content": said})
        messages.append({"role": "assistant", "content": tokenizer.decode(output, skip_special_tokens=True)})
    messages.append({"role": "user", "content": prompt.turns[len(before)]})
    return encode(tokenizer, messages, raw=not getattr(tokenizer, "chat_template", None))


def tokens_of(
    model: LoadedModel, method: str, ids: Sequence[int], max_new_tokens: int, sampling: Sampling | None = None
) -> list[int]:
    """What a preset answers."""
    made = model.method(method, sampling=sampling)
    limits = Limits(max_new_tokens, model.target.eos)
    steps = decode(model.target, ids, made, sampling=sampling, limits=limits)
    return [token for step in steps for token in step.tokens]


def drafts_with_a_model(method: str) -> bool:
    """method: a preset, or one with a setting behind it, as a sweep names it."""
    return method.split()[0] in DRAFT_MODELS


def drafted_from(model: LoadedModel, methods: Collection[str]) -> dict[str, Any]:
    """The datastores and draft models that these methods draft from, as rows and folders record them."""
    stores: Sequence[Any] = model.resources.stores
    sources: dict[str, Any] = {"datastores": sorted(store.name for store in stores)}
    if any(drafts_with_a_model(method) for method in methods):
        sources["drafts"] = [draft.name for draft in model.resources.drafts]
    return sources


def facts_line(target: Any) -> str:
    """Model, device, versions."""
    return ", ".join(f"{name} {value}" for name, value in target.facts.items())


def check_names(field_name: str, given: Collection[str], choices: Collection[str]) -> None:
    """Raise SpectraError naming the field where there is none or one that is no choice."""
    if not given:
        raise SpectraError(field_name, "there is none; give names with commas between them")
    for name in given:
        if name not in choices:
            raise SpectraError(field_name, f"{name!r} is unknown; choose from {', '.join(choices)}")


def figures_of_answer(answer: PromptAnswer, plain: PromptAnswer, *, comparable: bool) -> Row:
    """The measured fields of a row. steps, tau, mac_tp and what needs steps are None for a peer.

    comparable: False where even an exact method may write something else, so that `identical` says nothing (None).
    """
    difference = first_difference(plain.tokens, answer.tokens)
    row: Row = {
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
