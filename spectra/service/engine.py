"""The engine as the page sees it: one loaded model that answers by any preset. No gradio, no page."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from spectra.budget.policy import FixedBudget
from spectra.datastore.build.selftext import Question, Row
from spectra.datastore.language import Language, query
from spectra.datastore.store import Store
from spectra.decode import decode
from spectra.errors import SpectraError
from spectra.io.recent import Recent
from spectra.method import Method
from spectra.methods.presets import METHODS, make_method
from spectra.methods.resources import Resources
from spectra.metrics import PlainRate
from spectra.service.badges import badges_of
from spectra.service.demand_store import DemandStore, NoStore
from spectra.service.loading import LoadedModel, ModelOptions
from spectra.service.prefix_caches import PrefixCaches
from spectra.service.recording import Decoder, Recording, RunningAnswer
from spectra.service.shared_decoding import AT_ONCE, SharedDecoding
from spectra.service.visitor_stores import ProgressCallback, VisitorStores
from spectra.service.visitor_texts import OnWritten, VisitorTexts
from spectra.service.warm_start import MAX_VISITORS, WarmStart
from spectra.service.worker_thread import in_worker_thread
from spectra.settings import AnswerRequest, Limits, Sampling, TextOrder, Value
from spectra.target.choices import EMBEDDED, STOCK
from spectra.target.prefix import Prefix
from spectra.trace import StepTrace

if TYPE_CHECKING:
    from spectra.target.huggingface import HuggingFaceTarget

MEASURED_TOKENS = 16
WRITES = "spectra-core"
"""The preset that writes text for a datastore: it needs none."""
MEASURED_CONTEXT = 256
STOCK_SUMMARY = "transformers' own generate, untouched: what the same model takes without this project"
LONGEST_PASS = 3
"""Times as long as a pass of one row: the pass of one row of each that decode together."""
READING_PASS = 0.05
"""Seconds of such a pass that are no limit: 20 tokens a second are more than anyone reads."""


Made = TypeVar("Made", bound="Engine")


class Engine:
    """models: what `choose` takes. model: the name of the loaded one. badges: short facts about how it runs.

    methods: preset name -> one-line description, of those that run here. references: the same of what they can be
    compared with that is no preset. settings: what the settings of each preset come to here, see `Method`; `nodes` is
    None where the others decide how many there are. cost: T(q), rows of (query tokens, measured seconds of one forward
    pass). plain: the last measurement of plain decoding. problems: a line for each model that could not be loaded.
    options: how models are loaded. together: the most answers at once, see `together_on`.
    """

    BUILDS_STORES: ClassVar = True

    def __init__(self, loaded: LoadedModel, options: ModelOptions | None = None) -> None:
        self._options = options or ModelOptions()
        self._prefix_caches = PrefixCaches()
        self._visitor_stores = VisitorStores()
        self._visitor_texts = VisitorTexts()
        self._warm_starts: Recent[str, WarmStart] = Recent(MAX_VISITORS)
        self._demand_store = DemandStore()
        self._building = threading.Lock()
        self.chosen = loaded.target.name
        self.models: list[str] = [self.chosen]
        self.problems: list[str] = []
        self._adopt(loaded.target, loaded.resources)

    @classmethod
    @in_worker_thread
    def load(cls, *models: str, options: ModelOptions | None = None) -> Engine:
        """Load the first of these models that can be reached and run a few steps, so that no visitor pays for them.

        models: hub ids, folders or "embedded" (the default); `choose` changes between them. options: how they are
        loaded. Raises SpectraError when none of them can be loaded.
        """
        options = options or ModelOptions()
        engine = of_first(models, options, lambda one: cls(one.load(), options))
        engine.prepare()
        return engine

    @in_worker_thread
    def choose(self, model: str) -> None:
        """Load another of `models` in place of this one. Raises SpectraError, and keeps this one, if it cannot."""
        self.check_offered(model)
        if model != self.chosen:
            loaded = replace(self._options, model=model).load()
            self._adopt(loaded.target, loaded.resources)
            self.chosen = model
            self.prepare()

    def check_offered(self, model: str) -> None:
        """Raise SpectraError for a model that is none of `models`."""
        if model not in self.models:
            offered = ", ".join(self.models)
            raise SpectraError("model", f"{str(model)[:80]!r} is not offered here; choose one of {offered}")

    def prepare(self) -> None:
        """Run a few steps and measure plain decoding."""
        self.warm_up()
        self.measure(MEASURED_CONTEXT)

    def _adopt(self, target: HuggingFaceTarget, resources: Resources) -> None:
        from spectra.target.stock import StockModel

        self._prefix_caches.clear()
        self._visitor_stores.clear()
        self._visitor_texts.clear()
        self._warm_starts.clear()
        self.target = target
        self.resources = resources
        self._shared = SharedDecoding(target)
        self.together = together_on(target)
        self.model = target.name
        self.badges = badges_of(target)
        self._stock = StockModel(target)
        self.references = {STOCK: STOCK_SUMMARY} if self._stock.possible else {}
        self._demand_store.clear()
        runs = _settings(target, resources)
        later = _settings(target, resources.with_stores([NoStore()])) if self.BUILDS_STORES else {}
        self._on_demand = later.keys() - runs.keys()
        self.settings = {name: {**runs, **later}[name] for name in METHODS if name in runs or name in later}
        self.methods = {name: METHODS[name].summary for name in self.settings}
        self.cost = target.cost.table
        self.plain = PlainRate(0.0, 0)

    def warm_up(self) -> None:
        """A few steps of plain decoding and of SPECTRA."""
        for method in ("autoregressive", "spectra"):
            list(self._decode(method, 8, 8))

    def _decode(self, method: str, context: int, tokens: int) -> Iterator[StepTrace]:
        """A few tokens after `context` of the same."""
        made = make_method(method, self.target, self.resources.rehearsing())
        return decode(self.target, [0] * context, made, limits=Limits(tokens))

    @in_worker_thread
    def measure(self, context: int) -> PlainRate:
        """Measure plain decoding over a few tokens after `context` of them, or as many as the model can hold.

        Raises TargetBusyError while one runs.
        """
        context = min(max(8, context), max(1, self.target.context - MEASURED_TOKENS))
        steps = self._decode("autoregressive", context, MEASURED_TOKENS)
        seconds = median(step.seconds for step in steps)  # one slow step says nothing of the model
        self.plain = PlainRate(1 / seconds, context)
        return self.plain

    def settings_of(self, method: str, visitor: str = "") -> Mapping[str, Value]:
        """`settings` of one preset, counting the visitor's own datastore; empty for an unknown one."""
        usual = self.settings.get(method, {})
        own = self._visitor_stores.of(visitor)
        if own is None or method not in self.settings:
            return usual
        return _settings(self.target, self.resources.with_stores([own]), [method]).get(method, usual)

    def builds(self, request: AnswerRequest) -> bool:
        """Whether the unrefined datastore that the method guesses from is still to be built."""
        own = self._visitor_stores.of(request.visitor)
        stores = self.resources.stores if own is None else [own, *self.resources.stores]
        return request.method in self._on_demand and all(store.refined for store in stores)

    def ready(self, request: AnswerRequest, on_progress: ProgressCallback) -> None:
        """Get what the method lacks: the stock model, or the unrefined datastore that it guesses from.

        Raises SpectraError for a method that cannot be made here, so that nothing is decoded in vain.
        """
        if request.method in self.references:
            self._stock.load()
            return
        if self.builds(request):
            with self._building:  # whoever asks meanwhile waits for the same store
                if all(store.refined for store in self.resources.stores):
                    self.resources = self.resources.with_stores([self._demand_store.build(self.target, on_progress)])
        try:
            self._method_of(request)
        except SpectraError as error:
            if error.field == "datastore" and request.settings.retrieval:
                none = f"no datastore fits {self.model}; build one in the Datastore tab, or switch retrieval off"
                raise SpectraError("retrieval", none) from error
            raise

    def _method_of(self, request: AnswerRequest) -> Method:
        own = self._visitor_stores.of(request.visitor)
        resources = self.resources if own is None else self.resources.with_stores([own])
        return make_method(request.method, self.target, resources, sampling=request.sampling, settings=request.settings)

    def answer(self, request: AnswerRequest) -> RunningAnswer:
        """Start an answer, the whole conversation through the chat template; iterate it to decode.

        Raises SpectraError for bad input.
        """
        if request.method in self.references:
            stock = self._record(request, self._stock.decode)
            stock.trace.settings["drawn"] = not request.sampling.greedy
            stock.trace.environment = self._stock.facts
            return stock
        visitor = request.visitor
        prefix = self._prefix_of(request) if visitor and request.in_conversation else None
        warm_start = self._warm_starts.get_or_make(visitor, WarmStart) if visitor and request.warm else None
        method = self._method_of(request)
        decoder = partial(self._shared.decode, method=method)
        recording = self._record(request, decoder, values=method.settings, explain=request.explain, prefix=prefix)
        if warm_start is not None:
            recording.trace.settings["warm"] = warm_start.apply(method)
        return recording

    def _record(self, request: AnswerRequest, decoder: Decoder, **options: Any) -> Recording:
        """See `Recording`."""
        return Recording(
            self.target,
            request.messages,
            request.method,
            decoder,
            sampling=request.sampling,
            max_new_tokens=request.max_new_tokens,
            settings=request.settings,
            raw=not getattr(self.target.tokenizer, "chat_template", None),
            **options,
        )

    def in_turn(self, requests: Sequence[AnswerRequest]) -> Generator[RunningAnswer]:
        """Start these answers, each when it is asked for and the one before is over."""
        yield from map(self.answer, requests)

    def _prefix_of(self, request: AnswerRequest) -> Prefix:
        """The cache that an answer starts from."""
        if request.copied_tokens is None:
            return self._prefix_caches.of(request.visitor)
        return self._prefix_caches.copy(request.visitor, request.copied_tokens)

    def start_over(self, visitor: str) -> None:
        """Let the cache of the visitor's conversation go."""
        self._prefix_caches.drop(visitor)

    def forget(self, visitor: str) -> None:
        """Let go of all that is kept for a visitor."""
        self.start_over(visitor)
        self._visitor_stores.drop(visitor)
        self._visitor_texts.drop(visitor)
        self._warm_starts.drop(visitor)

    def build_store(self, visitor: str, file: Path | None, keep: int, on_progress: ProgressCallback) -> dict[str, Any]:
        """Build a visitor's own datastore from an uploaded file or from Python's library, see `VisitorStores.build`;
        returns its card.
        """
        with self.target.held():
            return dict(self._visitor_stores.build(visitor, file, keep, self.target, on_progress).card)

    def write_texts(self, visitor: str, order: TextOrder, on_written: OnWritten) -> None:
        """Have the model write text for a visitor's datastore; what was written before by such an order stays.

        It is written by `WRITES` where that runs, so in fewer steps than by plain decoding. Raises SpectraError.
        """
        self._visitor_texts.write(visitor, order, partial(self._write, order.max_new_tokens), on_written)

    def written(self, visitor: str, order: TextOrder) -> int:
        """How many texts of such an order are written already."""
        return self._visitor_texts.written(visitor, order)

    def _write(self, max_new_tokens: int, question: Question, seed: int, on_step: Callable[[int], None]) -> Row:
        method = WRITES if WRITES in self.methods else "autoregressive"
        sampling = Sampling(question.temperature, seed=seed)
        messages = ({"role": "user", "content": question.user},)
        answer = self.answer(AnswerRequest(messages, method, max_new_tokens, sampling))
        try:
            for step, _ in answer:
                on_step(len(step.tokens))
        finally:
            answer.close()
        return {
            "source": question.source,
            "user": question.user,
            "assistant": self.target.tokenizer.decode(list(answer.trace.tokens), skip_special_tokens=True),
            "temperature": question.temperature,
            "finished": answer.trace.finish == "eos",
        }

    def build_written(self, visitor: str, keep: int, on_progress: ProgressCallback) -> dict[str, Any]:
        """Build a visitor's own datastore from what `write_texts` wrote; returns its card."""
        file = self._visitor_texts.file_of(visitor)
        if file is None:
            raise SpectraError("texts", "nothing is written yet; let the model write some first")
        with self.target.held():
            return dict(self._visitor_stores.build_written(visitor, file, keep, self.target, on_progress).card)

    def drop_store(self, visitor: str) -> None:
        """Let the visitor's own datastore go."""
        self._visitor_stores.drop(visitor)

    def stores(self, visitor: str = "") -> list[dict[str, Any]]:
        """Cards of the datastores that the presets guess from, each with its `name`; the visitor's own first."""
        return [{**store.card, "name": store.name} for store in self._stores(visitor)]

    def query(self, store: str, text: str, max_rows: int = 12, visitor: str = "") -> list[dict[str, Any]]:
        """What a store holds after `text`, likeliest first; `text` is looked up as the end of an answer.

        Raises SpectraError for a store that is not there.
        """
        found = next((each for each in self._stores(visitor) if each.name == store), None)
        if found is None:
            raise SpectraError("store", "that datastore is not there; choose one of the list")
        language = Language(self.target.tokenizer, self.model)
        return [
            {"text": one.text, "count": one.node.times, "chance": one.node.chance, "match": one.match}
            for one in query(found, language, text, max_rows)
        ]

    def _stores(self, visitor: str) -> list[Store]:
        own = self._visitor_stores.of(visitor)
        shared = [store for store in self.resources.stores if isinstance(store, Store)]
        return shared if own is None else [own, *shared]


def of_first(models: Sequence[str], options: ModelOptions, make: Callable[[ModelOptions], Made]) -> Made:
    """The engine of the first of these models that can be loaded.

    Raises SpectraError where none can: for the option that the first fails for, which could be reached then, else for
    `model`, with the reason of each.
    """
    models = models or (EMBEDDED,)
    errors: list[SpectraError] = []
    for model in models:
        try:
            engine = make(replace(options, model=model))
        except SpectraError as error:
            errors.append(error)
            continue
        engine.models, engine.chosen = list(models), model
        engine.problems = [str(error).removeprefix("model: ") for error in errors]
        return engine
    if errors[0].field != "model":
        raise errors[0]
    raise SpectraError("model", "; ".join(dict.fromkeys(str(error).removeprefix("model: ") for error in errors)))


def together_on(target: HuggingFaceTarget) -> int:
    """How many rows, `AT_ONCE` at most, a pass has in `READING_PASS` or `LONGEST_PASS` times the time of one.

    From T(q) of the device; drafting is not in it. Where rows do not go through one pass, each waits for all others.
    """
    cost = target.cost
    alone = cost.seconds(1)
    limit = max(LONGEST_PASS * alone, READING_PASS)

    def of(sequences: int) -> float:
        return cost.seconds(sequences) if target.joins else sequences * alone

    return max(n for n in range(1, AT_ONCE + 1) if n == 1 or of(n) <= limit)


def _settings(
    target: HuggingFaceTarget, resources: Resources, names: Iterable[str] = METHODS
) -> dict[str, Mapping[str, Value]]:
    """What the settings of presets come to here; those that lack what they need, a datastore, are left out."""
    found: dict[str, Mapping[str, Value]] = {}
    for name in names:
        with suppress(SpectraError):
            method = make_method(name, target, resources)
            follows = isinstance(method.budget, FixedBudget) and "order" in method.settings
            found[name] = {**method.settings, "nodes": None} if follows else method.settings
    return found
