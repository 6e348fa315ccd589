"""The engine of a place that lends its GPU by the call, as ZeroGPU Spaces do. No gradio, no page.

What such a call is: a fork of this process, made at its first call and perhaps used again, in which alone there is a
GPU; arguments and results are pickled; nothing that is learned there comes back but results; it ends after the seconds
that were asked for, and a call that asks for fewer waits less. So all answers of a run share one call, the model is
measured inside of one and what was measured is kept on disk by the GPU's name, the seconds go by the tokens asked for,
and an error comes back as a value, since only its class would get through otherwise.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

from spectra.errors import SpectraError
from spectra.metrics import PlainRate
from spectra.service.engine import Engine, of_first
from spectra.service.loading import LoadedModel, ModelOptions
from spectra.service.recording import RunningAnswer, Step
from spectra.settings import AnswerRequest, Value
from spectra.target.choices import QUANTISED
from spectra.trace import StepTrace, Trace

if TYPE_CHECKING:
    from spectra.target.huggingface import HuggingFaceTarget

MAX_SECONDS = 80
"""ZeroGPU lends 120 to a visitor without an account, and on some of its GPUs asks for 1.5 times what it is told."""
SPARE_SECONDS = 5
"""Asked for beside what the tokens take."""
UNKNOWN_START, UNKNOWN_STEP = 60.0, 0.05
"""Seconds to measure a model and seconds of a step, before the first call measured them."""
STEP_SHARE = 1.5
"""A step of a method against one of plain decoding, when seconds are asked for: each token may need one."""
DECIDED_BY_GPU = {"rows": None, "pool": True, "successors": None}
"""Settings that T(q) decides, of the presets that go by it: which GPU will be lent is not known."""
CAPTURED_PASSES = 8
"""Forward passes that capturing the steps of one query count takes, for two spans of the cache."""

ENDED_EARLY = "ZeroGPU worker error"
"""The title of the error of a call that had a GPU, which other errors never had."""
NO_STORE = "the GPU here is lent by the call; build the store on a machine of your own"

log = logging.getLogger("spectra")

Work = Callable[..., Iterator["Message"]]
Lend = Callable[[Work, Callable[..., int]], Work]
"""Takes what is to run on the GPU, and the seconds a call with the same arguments may take."""


@dataclass(frozen=True, slots=True)
class Known:
    """What a call tells of the loaded model, first of all. start: seconds until it could answer. fresh: in a fork that
    had not answered with this model before, as the next call's may not have."""

    model: str
    badges: list[str]
    cost: tuple[tuple[int, float], ...]
    plain: PlainRate
    start: float
    fresh: bool


@dataclass(frozen=True, slots=True)
class Begun:
    """An answer starts. trace: of no steps."""

    trace: Trace


@dataclass(frozen=True, slots=True)
class Decoded:
    """A step, the text it completed, and the text of tokens in its tree that were not sent before."""

    step: StepTrace
    pieces: list[tuple[int, str]]
    words: dict[int, str]


@dataclass(frozen=True, slots=True)
class Ended:
    """An answer is complete."""


@dataclass(frozen=True, slots=True)
class Failed:
    """A `SpectraError` of the call: where it belongs and what it says."""

    field: str
    text: str


Message = Known | Begun | Decoded | Ended | Failed


class LentEngine(Engine):
    """See `Engine`; `load_for` makes one. It is made in the main thread, before anything used CUDA: a model that is
    moved to the GPU there is handed to the calls by the place that lends.

    Neither caches nor what answers taught are kept, and no store is built: that takes a call of unknown length. Before
    the first call `cost` has no rows. What T(q) decides is left open in `settings`.
    """

    BUILDS_STORES: ClassVar = False

    def __init__(self, loaded: LoadedModel, options: ModelOptions, lend: Lend) -> None:
        self._known: dict[str, Known] = {}
        self._networks: dict[str, HuggingFaceTarget] = {}
        self._inside: dict[tuple[str, str], Engine] = {}  # filled in a fork
        super().__init__(loaded, options)
        self._lent = lend(self._work, lambda *arguments: arguments[-1])

    @classmethod
    def load_for(cls, lend: Lend, *models: str, options: ModelOptions | None = None) -> LentEngine:
        """Load the first of these models that can be reached; nothing is measured. See `Engine.load`."""
        options = replace(options or ModelOptions(), remember=None)
        engine = of_first(models, options, lambda one: cls(unmeasured(one), options, lend))
        engine._networks[engine.chosen] = engine.target
        return engine

    def choose(self, model: str) -> None:
        """Use another of `models` from the next call on, which moves it to the GPU, in the first one's precision: what
        this machine's CPU would take is no matter. Quantised weights are made on the GPU alone: each call's fork loads
        them. See `Engine.choose`."""
        from spectra.target.load import TORCH_DTYPES

        self.check_offered(model)
        if model != self.chosen:
            if model not in self._networks:
                dtype = next(name for name, kind in TORCH_DTYPES.items() if kind == self.target.dtype)
                loaded = unmeasured(replace(self._options, model=model), device="cpu", dtype=dtype, weights="bf16")
                if self._options.weights not in QUANTISED:
                    self._networks = {self.chosen: self.target, model: loaded.target}
                self._adopt(loaded.target, loaded.resources)
            else:
                target = self._networks[model]
                self._adopt(target, unloaded(target, self._options).resources)
            self.chosen = model
            if model in self._known:
                self._learn(self._known[model])

    def _adopt(self, target: HuggingFaceTarget, resources: Any) -> None:
        super()._adopt(target, resources)
        self.together = 1
        self.references = {}
        self.cost = ()  # the target's is a placeholder
        self.settings = {name: left_open(values) for name, values in self.settings.items()}
        self.badges = ["a GPU lent by the call", self.badges[1].split(",")[0]]

    def seconds(self, model: str, requests: Sequence[AnswerRequest]) -> int:
        """How long a call that answers these may take."""
        known = self._known.get(model)
        start = known.start if known else UNKNOWN_START
        step = 1 / known.plain.tokens_per_second if known and known.plain.tokens_per_second else UNKNOWN_STEP
        tokens = sum(request.max_new_tokens for request in requests)
        return min(MAX_SECONDS, math.ceil(SPARE_SECONDS + start + STEP_SHARE * step * tokens))

    def answer(self, request: AnswerRequest) -> RunningAnswer:
        """Start an answer in a call of its own."""
        return LentAnswer(self._call((request,)))

    def in_turn(self, requests: Sequence[AnswerRequest]) -> Generator[RunningAnswer]:
        """Start these answers, one after the other, in one call; each is to be iterated to its end before the next.

        Raises SpectraError where no GPU is lent, and for what `Engine.answer` refuses.
        """
        call = self._call(tuple(requests))
        try:
            for _ in requests:
                yield LentAnswer(call)
        finally:
            call.close()

    def measure(self, context: int) -> PlainRate:
        """See `Engine.measure`."""
        call = self._call((), context)
        if call.next() is not None:
            call.close()
        return self.plain

    def prepare(self) -> None:
        """Nothing can be run before the first call."""

    def build_store(self, *_: Any) -> dict[str, Any]:
        raise SpectraError("file", NO_STORE)

    def write_texts(self, *_: Any) -> None:
        raise SpectraError("texts", NO_STORE)

    def build_written(self, *_: Any) -> dict[str, Any]:
        raise SpectraError("texts", NO_STORE)

    def _call(self, requests: Sequence[AnswerRequest], context: int | None = None) -> Call:
        """The seconds go along: the fork is older than what is known here."""
        seconds = self.seconds(self.chosen, requests)
        return Call(self._lent(self.chosen, requests, context, seconds), self._learn)

    def _learn(self, known: Known) -> None:
        if not known.fresh and known.model in self._known:
            known = replace(known, start=self._known[known.model].start)
        self._known[known.model] = known
        if known.model == self.chosen:
            self.badges, self.cost, self.plain = known.badges, known.cost, known.plain

    def _work(
        self, model: str, requests: Sequence[AnswerRequest], context: int | None, seconds: int
    ) -> Iterator[Message]:
        """What runs on the GPU, for so many seconds."""
        began = time.monotonic()
        over = began + seconds - 1
        fresh = all(known != model for known, _ in self._inside)
        try:
            engine = self._engine(model, sum(request.max_new_tokens for request in requests))
            if context is not None:
                engine.measure(context)
            started = time.monotonic() - began
            yield Known(model, engine.badges, engine.cost, engine.plain, started, fresh)
            for request in requests:
                for message in answered(engine, request):
                    yield message
                    if time.monotonic() > over:
                        raise SpectraError("max_new_tokens", "the GPU's time is over; ask for fewer tokens")
        except SpectraError as error:
            yield Failed(error.field, error.problem)
        except Exception as error:
            log.exception("a lent call failed")
            yield Failed("", f"the run ended early ({type(error).__name__}); the server's log has the details")

    def _engine(self, model: str, tokens: int) -> Engine:
        """The ordinary engine of this fork: by CUDA graphs where capturing them pays for so many tokens."""
        eager = self._inside_engine(model, "eager")
        if self._options.step == "eager" or eager.target.device.type != "cuda":
            return eager
        graphs = self._inside_engine(model, self._options.step)
        if graphs.target.plan.step == "eager" or pays(eager.cost, graphs.cost, tokens):
            return graphs
        return eager

    def _inside_engine(self, model: str, step: str) -> Engine:
        if (model, step) not in self._inside:
            for key in [key for key in self._inside if key[0] != model]:
                del self._inside[key]  # the memory is the next model's
            here = self._networks.get(model)
            options = replace(self._options, model=model, step=step)
            loaded = options.load() if here is None else measured(here, options)
            engine = Engine(loaded, options)
            engine.prepare()
            self._inside[model, step] = engine
        return self._inside[model, step]


class Call:
    """The messages of one call, of which several answers are made. learn: gets what the call knows of the model."""

    def __init__(self, messages: Iterator[Message], learn: Callable[[Known], None]) -> None:
        self._messages = messages
        self._learn = learn

    def next(self) -> Begun | Decoded | Ended | None:
        """None at the end. Raises SpectraError for what failed inside, and where no GPU is lent."""
        while True:
            try:
                message = next(self._messages, None)
            except Exception as error:  # a place that lends has errors of its own
                text = " ".join(str(getattr(error, "message", "") or error).split()) or type(error).__name__
                if getattr(error, "title", "") == ENDED_EARLY:
                    problem = f"the call on the GPU was ended early ({text}); try again, or ask for fewer tokens"
                else:
                    problem = f"no GPU is lent now ({text}); the Replay tab has recorded races"
                raise SpectraError("go", problem) from error
            if isinstance(message, Failed):
                raise SpectraError(message.field, message.text)
            if not isinstance(message, Known):
                return message
            self._learn(message)

    def close(self) -> None:
        """Give the GPU back. Safe to call twice."""
        self._messages.close()  # type: ignore[attr-defined]


@dataclass
class LentAnswer:
    """See `Recording`. trace: grows while this is iterated."""

    call: Call
    trace: Trace = field(init=False)

    def __post_init__(self) -> None:
        begun = self.call.next()
        if not isinstance(begun, Begun):
            raise SpectraError("go", "the GPU was taken away before the answer began; try again")
        self.trace = begun.trace

    def __iter__(self) -> Iterator[Step]:
        while isinstance(message := self.call.next(), Decoded):
            self.trace.steps.append(message.step)
            self.trace.pieces += message.pieces
            self.trace.vocabulary |= message.words
            yield message.step, message.pieces
        if message is None:
            raise SpectraError("go", "the GPU was taken away before the answer ended; try again")

    def close(self) -> None:
        """Stop early: only where the answer is not complete is the call given up, and with it what would follow."""
        if not self.trace.finish:
            self.call.close()


def answered(engine: Engine, request: AnswerRequest) -> Iterator[Message]:
    """One answer as messages, by the ordinary engine."""
    answer = engine.answer(replace(request, visitor="", in_conversation=False, copied_tokens=None, warm=False))
    try:
        yield Begun(replace(answer.trace))
        sent: set[int] = set()
        for step, pieces in answer:
            fresh = {token: text for token, text in answer.trace.vocabulary.items() if token not in sent}
            sent |= fresh.keys()
            yield Decoded(step, pieces, fresh)
        yield Ended()
    finally:
        answer.close()


def pays(eager: Sequence[tuple[int, float]], graphs: Sequence[tuple[int, float]], tokens: int) -> bool:
    """Whether CUDA graphs save more over an answer of so many tokens than capturing them takes.

    eager, graphs: T(q), see `Engine.cost`. A step of each row count in the table is captured.
    """
    saved = (eager[0][1] - graphs[0][1]) * tokens
    return saved > CAPTURED_PASSES * sum(seconds for _, seconds in eager)


def left_open(values: Mapping[str, Value]) -> Mapping[str, Value]:
    """A preset's settings without what T(q) decides: those of presets with a top-k go by it, see `adaptive`."""
    return {**values, **DECIDED_BY_GPU} if "successors" in values else values


def unmeasured(options: ModelOptions, **placed: str) -> LoadedModel:
    """The model with its stores, as `load_network` has it. placed: in the place of what the options say of it.

    Raises SpectraError.
    """
    from spectra.target.huggingface import HuggingFaceTarget
    from spectra.target.load import load_network

    options.check_tokenizers()
    network, tokenizer, name = load_network(**options.loading() | placed)
    return unloaded(HuggingFaceTarget(network, tokenizer, name=name), options)


def unloaded(target: HuggingFaceTarget, options: ModelOptions) -> LoadedModel:
    """The target with its stores, and its draft models by name: loading one would measure it. Raises SpectraError."""
    from spectra.target.draft_model import named_drafts

    loaded = replace(options, drafts=()).equipped(target)
    return replace(loaded, resources=loaded.resources.with_drafts(named_drafts(options.drafts, target)))


def measured(target: HuggingFaceTarget, options: ModelOptions) -> LoadedModel:
    """The same model, moved to the GPU where it is not there yet, and measured or recalled."""
    from spectra.target.load import check_device, wrap_model

    if not options.placement and options.weights not in QUANTISED:
        target.model.to(check_device(options.device))
    step = options.step if target.device.type == "cuda" else "auto"
    wrapped = wrap_model(target.model, target.tokenizer, numerics=options.numerics, step=step, name=target.name)
    return options.equipped(wrapped)
