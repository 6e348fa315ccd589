"""The engine as the page sees it: one loaded model that answers by any preset. No gradio, no page."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from spectra.datastore.language import Language, query
from spectra.datastore.store import Store
from spectra.decode import decode
from spectra.errors import SpectraError
from spectra.method import Method
from spectra.methods.presets import METHODS, make_method
from spectra.methods.resources import Resources, load_resources
from spectra.metrics import PlainRate
from spectra.service.prefix_caches import PrefixCaches
from spectra.service.recording import Decoder, Recording
from spectra.service.visitor_stores import ProgressCallback, VisitorStores
from spectra.service.warm_start import WarmStarts
from spectra.service.worker_thread import in_worker_thread
from spectra.settings import AnswerRequest, Limits
from spectra.target.prefix import Prefix
from spectra.trace import StepTrace

if TYPE_CHECKING:
    from spectra.target.huggingface import HuggingFaceTarget

Lend = Callable[[Decoder], Decoder]
EMBEDDED = "embedded"
"""What a list of models calls the one that needs no hub."""
MEASURED_TOKENS = 16
MEASURED_CONTEXT = 256


class Engine:
    """models: what `choose` takes. model: the name of the loaded one. badges: short facts about how it runs.

    methods: preset name -> one-line description, of those that run here. cost: T(q), rows of (query tokens, measured
    seconds of one forward pass). plain: the last measurement of plain decoding. problems: a line for each model that
    could not be loaded. lend: wraps whatever decodes, for a place that lends its GPU by the call.
    """

    def __init__(self, target: HuggingFaceTarget, resources: Resources, lend: Lend | None = None) -> None:
        self._lend = lend
        self._prefix_caches = PrefixCaches()
        self._visitor_stores = VisitorStores()
        self._warm_starts = WarmStarts()
        self.chosen = target.name
        self.remember: Path | None = None
        self.models: list[str] = [target.name]
        self.problems: list[str] = []
        self._adopt(target, resources)

    @classmethod
    @in_worker_thread
    def load(cls, *models: str, lend: Lend | None = None, remember: Path | None = None) -> Engine:
        """Load the first of these models that can be reached and run a few steps, so that no visitor pays for them.

        models: hub ids, folders or "embedded" (the default); `choose` changes between them. remember: a folder that
        all visitors' finished answers join. Raises SpectraError when none of them can be loaded.
        """
        problems = []
        for model in models or (EMBEDDED,):
            try:
                target, resources = _load(model, lend, remember)
                engine = cls(target, resources, lend)
            except SpectraError as error:
                problems.append(str(error).removeprefix("model: "))
                continue
            engine.models = list(models or (EMBEDDED,))
            engine.problems = problems
            engine.chosen = model
            engine.remember = remember
            engine.prepare()
            return engine
        raise SpectraError("model", "; ".join(problems))

    @in_worker_thread
    def choose(self, model: str) -> None:
        """Load another of `models` in place of this one. Raises SpectraError, and keeps this one, if it cannot."""
        if model not in self.models:
            raise SpectraError("model", f"{model[:80]!r} is not offered here; choose one of {', '.join(self.models)}")
        if model != self.chosen:
            target, resources = _load(model, self._lend, self.remember)
            self._adopt(target, resources)
            self.chosen = model
            self.prepare()

    def prepare(self) -> None:
        """Run a few steps and measure plain decoding."""
        self.warm_up()
        self.measure(MEASURED_CONTEXT)

    def _adopt(self, target: HuggingFaceTarget, resources: Resources) -> None:
        def decoder(method: str | Method, prompt: Sequence[int], **options: Any) -> Iterator[StepTrace]:
            """A lent GPU gets its arguments pickled, so a preset goes there by name."""
            if isinstance(method, str):
                method = make_method(method, target, resources, sampling=options.get("sampling"))
            yield from decode(target, prompt, method, **options)

        self._prefix_caches.clear()
        self._visitor_stores.clear()
        self._warm_starts.clear()
        self.target = target
        self.resources = resources
        self.decoder: Decoder = self._lend(decoder) if self._lend else decoder
        self.model = target.name
        self.badges = _badges(target)
        self.methods = {name: preset.summary for name, preset in METHODS.items() if _runs(name, target, resources)}
        self.cost = target.cost.table
        self.plain = PlainRate(0.0, 0)

    def warm_up(self, tokens: int = 8) -> None:
        """A few steps of plain decoding and of SPECTRA."""
        for method in ("autoregressive", "spectra"):
            list(self.decoder(method, [0] * 8, limits=Limits(tokens)))

    @in_worker_thread
    def measure(self, context: int) -> PlainRate:
        """Measure plain decoding over a few tokens after `context` of them. Raises TargetBusyError while one runs."""
        context = max(8, context)
        steps = self.decoder("autoregressive", [0] * context, limits=Limits(MEASURED_TOKENS))
        seconds = median(step.seconds for step in steps)  # one slow step says nothing of the model
        self.plain = PlainRate(1 / seconds, context)
        return self.plain

    def answer(self, request: AnswerRequest) -> Recording:
        """Start an answer, the whole conversation through the chat template; iterate it to decode.

        A lent GPU forgets: there neither caches nor what answers taught are kept. Raises SpectraError for bad input.
        """
        visitor = request.visitor
        kept = bool(visitor) and not self._lend
        prefix = self._prefix_of(request) if kept and request.in_conversation else None
        warm_start = self._warm_starts.of(visitor) if kept and request.warm else None
        own = self._visitor_stores.of(visitor)
        method: str | Method = request.method
        if own is not None or warm_start is not None:
            resources = self.resources if own is None else self.resources.with_stores([own])
            method = make_method(request.method, self.target, resources, sampling=request.sampling)
        recording = Recording(
            self.target,
            request.messages,
            request.method,
            partial(self.decoder, method),
            sampling=request.sampling,
            max_new_tokens=request.max_new_tokens,
            raw=not getattr(self.target.tokenizer, "chat_template", None),
            prefix=prefix,
        )
        if warm_start is not None and isinstance(method, Method):
            recording.trace.settings["warm"] = warm_start.apply(method)
        return recording

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
        self._warm_starts.drop(visitor)

    def build_store(self, visitor: str, file: Path, keep: int, on_progress: ProgressCallback) -> dict[str, Any]:
        """Build a visitor's own datastore from an uploaded file, see `VisitorStores.build`; returns its card."""
        if self._lend:
            raise SpectraError("file", "the GPU here is lent by the call; build the store on a machine of your own")
        with self.target.held():
            return dict(self._visitor_stores.build(visitor, file, keep, self.target, on_progress).card)

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
            {"text": one.text, "count": one.node.times, "chance": one.node.chance, "match": one.node.match}
            for one in query(found, language, text, max_rows)
        ]

    def _stores(self, visitor: str) -> list[Store]:
        own = self._visitor_stores.of(visitor)
        shared = [store for store in self.resources.stores if isinstance(store, Store)]
        return shared if own is None else [own, *shared]


def _runs(method: str, target: HuggingFaceTarget, resources: Resources) -> bool:
    """Whether a preset has what it needs here: some need a datastore."""
    try:
        make_method(method, target, resources)
    except SpectraError:
        return False
    return True


def _badges(target: HuggingFaceTarget) -> list[str]:
    """Where the model runs, and in what numbers."""
    facts = target.facts
    threads = facts["threads"]
    cores = f"{threads} CPU core" if threads == 1 else f"{threads} CPU cores"
    place = cores if target.device.type == "cpu" else str(facts["processor"])
    dtype = str(facts["dtype"])
    width = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}.get(dtype, dtype)
    return [place, f"{width}, {facts['numerics']}"]


def _load(model: str, lend: Lend | None, remember: Path | None) -> tuple[HuggingFaceTarget, Resources]:
    from spectra.target.load import load_target

    step = "eager" if lend else "auto"  # a lent GPU forgets its CUDA graphs
    target = load_target(None if model == EMBEDDED else model, step=step)
    return target, load_resources(target, remember=None if lend else remember)
