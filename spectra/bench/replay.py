"""`python -m spectra.bench record` and `replay`: tune drafters in seconds, on any device's T(q), without a model.

A recording is a JSON header line (model, tokenizer, end-of-sequence ids, T(q) of the device) and a line an answer. It
knows what the model said along its own answer only: after a rejected guess it knows nothing, so candidate-pool rows and
n-grams of rejected branches are worth nothing in a replay. What one predicts is checked against real runs.
"""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spectra.bench.run.answers import check_names, turn_ids
from spectra.bench.run.rows import Row
from spectra.bench.run.runner import Cell, PromptProgress, missing_rows
from spectra.bench.steps import cost_of, read_cost
from spectra.bench.tasks import Prompt, PromptOptions
from spectra.budget.policy import FixedBudget
from spectra.budget.step_cost import StepCost
from spectra.datastore.card import read_card
from spectra.datastore.shipped import stores_for
from spectra.decode import decode
from spectra.errors import SpectraError
from spectra.io.bounded import lines_of, open_regular
from spectra.io.files import check_writable, write_text
from spectra.io.hashes import tokenizer_sha256
from spectra.io.json_text import parse_json
from spectra.method import Method, Outcome
from spectra.methods.draft_models import DRAFT_MODELS
from spectra.methods.presets import METHODS, make_method
from spectra.methods.resources import Resources, weights_for
from spectra.service.loading import LoadedModel, ModelOptions, check_draft
from spectra.settings import Limits, Sampling, check_number
from spectra.tree import ROOT, TokenTree

if TYPE_CHECKING:
    from spectra.target.draft_model import DraftModel
    from spectra.verify.noise import Noise

FORMAT, VERSION = "spectra-recording", 1
TOP = 8


@dataclass(frozen=True, slots=True)
class RecordOptions:
    """Plain answers to the first turn of each prompt, written to the file `out`."""

    prompts: PromptOptions
    model: ModelOptions
    out: Path
    max_new_tokens: int = 256
    temperature: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        Limits(self.max_new_tokens)
        _ = self.sampling  # refuses what it cannot be

    @property
    def sampling(self) -> Sampling:
        return Sampling(self.temperature, seed=self.seed)


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """recording: a file of `record`. cost: a file, see `read_cost`. nodes: the most guessed tokens a step.

    drafts: folders or hub ids of draft models. estimates: a file of `fit`.
    """

    recording: Path
    methods: tuple[str, ...] = ("spectra", "spectra-core")
    cost: Path | None = None
    datastores: tuple[Path, ...] = ()
    drafts: tuple[Path, ...] = ()
    nodes: int | None = None
    estimates: Path | None = None

    def __post_init__(self) -> None:
        check_names("methods", self.methods, METHODS)
        for method in self.methods:
            if method in DRAFT_MODELS:
                raise SpectraError(
                    "methods", f"{method} drafts with a model alone, which a replay does not; leave it out"
                )
        if self.nodes is not None:
            check_number("nodes", self.nodes, 1, 1024, whole=True)
        for folder in self.datastores:
            read_card(folder)
        for draft in self.drafts:
            check_draft(draft)


@dataclass(frozen=True, slots=True)
class Header:
    """What a recording says of its model. cost: T(q) of the device. vocabulary: size of the noise. dtype: torch's name.

    sampling: of the answers. The noise of a recording made on a GPU is not known elsewhere, and drafts without it.
    """

    model: str
    tokenizer_sha256: str
    eos: frozenset[int]
    cost: StepCost
    sampling: Sampling = field(default_factory=Sampling)
    vocabulary: int = 0
    dtype: str = "float32"


@dataclass(frozen=True, slots=True)
class RecordedAnswer:
    """One answer. prompt, answer: token ids. top: for each answer position the model's likeliest ids, best first."""

    task: str
    id: str
    prompt: tuple[int, ...]
    answer: tuple[int, ...]
    top: tuple[tuple[int, ...], ...] = ()


class Recordings(NamedTuple):
    """What a file holds."""

    header: Header
    answers: list[RecordedAnswer]


class TopListener:
    """A drafter that guesses nothing and writes down what the model found likely at each step."""

    top_k = TOP

    def __init__(self) -> None:
        self.top: list[Sequence[int]] = []

    def begin(self, prompt: Sequence[int]) -> None:
        """Nothing to prepare."""

    def grow(self, tree: TokenTree, tokens: Sequence[int]) -> None:
        """No guesses."""

    def observe(self, tokens: Sequence[int], outcome: Outcome) -> None:
        self.top.append(outcome.top[ROOT])


def run_record(options: RecordOptions) -> int:
    """The subcommand `record`. A prompt that does not fit the context is left out, with a note."""
    check_writable(options.out, "out")
    prompts = options.prompts.load()
    model = options.model.load()
    target = model.target
    header = {
        "format": FORMAT, "version": VERSION, "facts": dict(target.facts), "eos": sorted(target.eos),
        "tokenizer_sha256": tokenizer_sha256(target.tokenizer), "cost": target.cost.table,
        "temperature": options.temperature, "seed": options.seed,
        "vocabulary": target.config.vocab_size if target.device.type == "cpu" else 0,
    }  # fmt: skip
    rows = recorded_rows(model, prompts, options.max_new_tokens, options.sampling)
    write_text(options.out, "".join(json.dumps(line) + "\n" for line in [header, *rows]), "out")
    return 0


def recorded_rows(
    model: LoadedModel, prompts: Sequence[Prompt], max_new_tokens: int, sampling: Sampling | None = None
) -> Iterator[Row]:
    """A row an answer."""
    limits = Limits(max_new_tokens, model.target.eos)

    def measure(prompt: Prompt, _: Sequence[Cell]) -> Iterator[Row]:
        ids = turn_ids(model.target.tokenizer, prompt)
        listener = TopListener()
        method = Method("record", [listener], FixedBudget(0), 0)
        steps = decode(model.target, ids, method, sampling=sampling, limits=limits)
        answer = [token for step in steps for token in step.tokens]
        yield {"prompt": ids, "answer": answer, "top": listener.top}

    return missing_rows((), prompts, [{}], measure, PromptProgress(len(prompts)))


def run_replay(options: ReplayOptions) -> int:
    """The subcommand `replay`: tau, query tokens a step, drafting time, and the speedup that T(q) predicts."""
    header, answers = read_recording(options.recording)
    stores = stores_for(header.tokenizer_sha256, options.datastores, model=header.model)
    drafts = partial(drafts_for, header, options.drafts)
    resources = Resources(stores, drafts, weights=weights_for(stores, options.estimates))
    target = target_of(header, read_cost(options.cost) if options.cost else None)
    for method in options.methods:
        make_method(method, target, resources, nodes=options.nodes)  # what lacks its datastore says so before the table
    print("| method | tau | query tokens a step | drafting, us a step | predicted speedup | at most |\n|-|" + "-:|" * 5)
    for method in options.methods:
        print(replay_row(method, target, resources, answers, options.nodes))
    return 0


def drafts_for(header: Header, paths: Sequence[Path]) -> "list[DraftModel]":
    """Draft models of the recorded model, loaded when a method asks for them: they answer for real, in their time.

    Raises SpectraError for one that does not fit, and where the recording does not say what would.
    """
    import torch

    from spectra.target.draft_model import Like, load_drafts

    dtype = getattr(torch, header.dtype, None)
    if not header.vocabulary or not isinstance(dtype, torch.dtype):
        raise SpectraError("draft", "the recording does not say what fits its model; record again on a CPU")
    like = Like(header.model, header.vocabulary, dtype, torch.device("cpu"), header.tokenizer_sha256)
    return load_drafts(paths, like)


def target_of(header: Header, cost: StepCost | None = None) -> "ReplayTarget":
    """What replays answers of this header. cost: of another device."""
    import torch

    from spectra.verify.noise import Noise

    noise = Noise(header.sampling.seed, header.vocabulary, torch.device("cpu")) if header.vocabulary else None
    return ReplayTarget(cost or header.cost, header.eos, name=header.model, sampling=header.sampling, noise=noise)


def replay_row(
    method: str, target: "ReplayTarget", resources: Resources, answers: Sequence[RecordedAnswer], nodes: int | None
) -> str:
    """A Markdown row over all answers. at most: the speed if of the same guesses only those were scored that are right,
    and found in no time."""
    tokens = steps = queries = 0
    least = 0.0
    seconds = drafting = 0.0
    for answer in answers:
        target.recorded = answer
        began = time.perf_counter()
        made = make_method(method, target, resources, nodes=nodes, sampling=target.sampling)
        limits = Limits(len(answer.answer))
        for step in decode(target, answer.prompt, made, sampling=target.sampling, limits=limits):
            tokens += len(step.tokens)
            steps += 1
            drafting -= step.parts["forward"]
        drafting += time.perf_counter() - began
        assert target.session is not None
        seconds += target.session.seconds
        queries += target.session.queries
        made = make_method(method, target, resources, nodes=nodes, sampling=target.sampling)
        made.budget = RightOnly(answer.answer)
        for _ in decode(target, answer.prompt, made, sampling=target.sampling, limits=limits):
            pass
        least += target.session.seconds
    plain = tokens * target.cost.seconds(1)
    return (
        f"| {method} | {tokens / steps:.2f} | {queries / steps:.1f} | {drafting / steps * 1e6:.0f} "
        f"| {plain / (seconds + drafting):.2f} | {plain / least:.2f} |"
    )


@dataclass(slots=True)
class RightOnly:
    """A `Budget` that knows the answer, so that no choice of the same guesses is better. place: tokens written."""

    answer: Sequence[int]
    place: int = 0

    def choose(self, tree: TokenTree) -> TokenTree:
        path, node = [], ROOT
        for token in self.answer[self.place :]:
            child = tree.child(node, token)
            if child is None:
                break
            path.append(child)
            node = child
        return tree.subset(path)

    def observe(self, grown: TokenTree, emitted: Sequence[int]) -> None:
        self.place += len(emitted)


def read_recording(path: Path) -> Recordings:
    """Raises SpectraError naming the line that is wrong."""
    number, answers = 0, []
    try:
        with open_regular(path) as file:
            lines = lines_of(file)
            header = _header(parse_json(next(lines, b"").decode("utf-8")))
            for line in lines:
                number += 1
                answers.append(_answer(parse_json(line.decode("utf-8"))))
    except OSError as error:
        raise SpectraError("recording", f"{path} cannot be read ({error}); name a file that `record` wrote") from error
    except (ValueError, KeyError, TypeError, IndexError, OverflowError) as error:
        said = {KeyError: f"it has no {error}", TypeError: "a value of another kind"}.get(type(error), error)
        place = f"{path} line {number + 1}"
        raise SpectraError("recording", f"{place} is not a recording's ({said}); record the answers again") from error
    if not answers:
        raise SpectraError("recording", f"{path} holds no answer; record some")
    return Recordings(header, answers)


def _header(data: Any) -> Header:
    if data["format"] != FORMAT or data["version"] != VERSION:
        raise ValueError(f"no {FORMAT} of version {VERSION}")
    return Header(
        model=str(data["facts"]["model"]),
        tokenizer_sha256=str(data["tokenizer_sha256"]),
        eos=frozenset(map(int, data["eos"])),
        cost=cost_of(data["cost"]),
        sampling=Sampling(float(data.get("temperature", 0)), seed=int(data.get("seed", 0))),
        vocabulary=int(data.get("vocabulary", 0)),
        dtype=str(data["facts"].get("dtype", "float32")),
    )


def _answer(data: Any) -> RecordedAnswer:
    prompt = tuple(map(int, data["prompt"]))
    answer = tuple(map(int, data["answer"]))
    top = tuple(tuple(map(int, ids)) for ids in data["top"])
    if not prompt or not answer:
        raise ValueError("a blank prompt or answer")
    return RecordedAnswer(data["task"], data["id"], prompt, answer, top)


@dataclass(slots=True)
class ReplayScored:
    """The outcome of a step: picks along the recorded answer."""

    known: dict[int, int]
    top: dict[int, Sequence[int]]

    def pick(self, node: int) -> int:
        return self.known[node]

    def probabilities(self, node: int) -> NDArray[np.float64]:
        """Raises ValueError: only the picks and the likeliest tokens are recorded."""
        raise ValueError("a recording holds no distributions")

    def read(self, ticket: int) -> int | None:
        return None


@dataclass(slots=True)
class ReplaySession:
    """seconds: what the passes so far would have cost."""

    recorded: RecordedAnswer
    cost: StepCost
    keyed: "Noise | None" = None
    prefill_seconds: float = 0.0
    seconds: float = 0.0
    queries: int = 0

    def score(self, tree: TokenTree, tokens: Sequence[int]) -> ReplayScored:
        self.seconds += self.cost.seconds(len(tree))
        self.queries += len(tree)
        answer = self.recorded.answer
        top = self.recorded.top
        right = {ROOT: len(tokens) - len(self.recorded.prompt)}
        for node in range(1, len(tree)):
            place = right.get(tree.parents[node])
            if place is not None and place + 1 < len(answer) and tree.tokens[node] == answer[place]:
                right[node] = place + 1
        return ReplayScored(
            {node: answer[place] for node, place in right.items()},
            {node: top[place] for node, place in right.items() if place < len(top)},
        )

    def noise(self, position: int) -> Sequence[float] | None:
        return None if self.keyed is None else self.keyed.read(position)

    def keep(self, path: Sequence[int]) -> None:
        """Nothing is cached."""

    def close(self) -> None:
        """Nothing is held."""


@dataclass(slots=True)
class ReplayTarget:
    """A `Target` that reads its answers from recordings; `session` is the one started last."""

    cost: StepCost
    eos: frozenset[int] = frozenset()
    max_query_tokens: int = 1024
    trees: bool = True
    name: str = "replay"
    facts: Mapping[str, object] = field(default_factory=dict)
    sampling: Sampling = field(default_factory=Sampling)
    noise: "Noise | None" = None
    recorded: RecordedAnswer | None = None
    session: ReplaySession | None = None

    def start(
        self, prompt: Sequence[int], max_new_tokens: int, max_query_tokens: int, sampling: Sampling, *, top_k: int = 0
    ) -> ReplaySession:
        if self.recorded is None or tuple(prompt) != self.recorded.prompt:
            raise ValueError("set `recorded` to the answer of this prompt first")
        self.session = ReplaySession(self.recorded, self.cost, None if sampling.greedy else self.noise)
        return self.session
