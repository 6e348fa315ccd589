"""The engine as the page sees it: one loaded model that answers by any preset. No gradio, no page."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from spectra.aside import aside
from spectra.conversations import Conversations
from spectra.datastore.language import Language
from spectra.datastore.query import query
from spectra.datastore.store import Store
from spectra.decode import decode
from spectra.errors import SpectraError
from spectra.methods import METHODS, make_method
from spectra.preset import Method
from spectra.record import Message, Recording
from spectra.settings import Limits, Sampling
from spectra.target.prefix import Prefix
from spectra.trace import StepTrace
from spectra.uploads import WINDOW, Told, Uploads, WithStores
from spectra.warm import Visits, Warm

if TYPE_CHECKING:
    from spectra.target.huggingface import HuggingFaceTarget

Run = Callable[..., Iterator[StepTrace]]
Lend = Callable[[Run], Run]
EMBEDDED = "embedded"
"""What a list of models calls the one that needs no hub."""
MEASURED_TOKENS = 16
MEASURED_CONTEXT = 256


class Engine:
    """models: what `choose` takes. model: the name of the loaded one. badges: short facts about how it runs.

    methods: preset name -> one line for people, of those that run here. cost: T(q), rows of (query tokens, measured
    seconds of one forward pass). plain: what plain decoding was last measured at, (tokens a second with the prefill
    left out, tokens of context). lend: wraps whatever decodes, for a place that lends its GPU by the call.
    """

    def __init__(self, target: HuggingFaceTarget, lend: Lend | None = None) -> None:
        self._lend = lend
        self._conversations = Conversations()
        self._uploads = Uploads()
        self._warm = Visits()
        self.chosen = target.name
        self.models: list[str] = [target.name]
        self.problems: list[str] = []
        self._adopt(target)

    @classmethod
    @aside
    def load(cls, *models: str, lend: Lend | None = None) -> Engine:
        """Load the first of these models that can be reached and run a few steps, so that no visitor pays for them.

        models: hub ids, folders or "embedded" (without any: that one); `choose` changes between them. `problems` has a
        line for each that could not be had. Raises SpectraError when there is none.
        """
        problems = []
        for model in models or (EMBEDDED,):
            try:
                engine = cls(_target(model, lend), lend)
            except SpectraError as error:
                problems.append(str(error).removeprefix("model: "))
                continue
            engine.models, engine.problems = list(models or (EMBEDDED,)), problems
            engine.chosen = model
            engine.prepare()
            return engine
        raise SpectraError("model", "; ".join(problems))

    @aside
    def choose(self, model: str) -> None:
        """Put another of `models` in the place of this one. Raises SpectraError, and keeps this, if it cannot."""
        if model not in self.models:
            raise SpectraError("model", f"{model[:80]!r} is not offered here; choose one of {', '.join(self.models)}")
        if model != self.chosen:
            self._adopt(_target(model, self._lend))
            self.chosen = model
            self.prepare()

    def prepare(self) -> None:
        self.warm_up()
        self.measure(MEASURED_CONTEXT)

    def _adopt(self, target: HuggingFaceTarget) -> None:
        def run(*arguments: Any, **options: Any) -> Iterator[StepTrace]:
            yield from decode(target, *arguments, **options)

        self._conversations.clear()
        self._uploads.clear()
        self._warm.clear()
        self.target = target
        self.run: Run = self._lend(run) if self._lend else run
        self.model = target.name
        facts = target.facts
        width = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}.get(str(facts["dtype"]), str(facts["dtype"]))
        cores = f"{facts['threads']} CPU core{'' if facts['threads'] == 1 else 's'}"
        place = str(facts["processor"]) if target.device.type != "cpu" else cores
        self.badges = [place, f"{width}, {facts['numerics']}"]
        self.methods = {name: preset.summary for name, preset in METHODS.items() if _runs(name, target)}
        self.cost = target.cost.table
        self.plain = (0.0, 0)

    def warm_up(self, tokens: int = 8) -> None:
        """A few steps of plain decoding and of SPECTRA."""
        for method in ("autoregressive", "spectra"):
            list(self.run([0] * 8, method, limits=Limits(tokens)))

    @aside
    def measure(self, context: int) -> tuple[float, int]:
        """Measure plain decoding over a few tokens after `context` of them. Raises TargetBusyError while one runs."""
        context = max(8, context)
        steps = self.run([0] * context, "autoregressive", limits=Limits(MEASURED_TOKENS))
        self.plain = (1 / median(step.seconds for step in steps), context)  # one slow step says nothing of the model
        return self.plain

    def answer(
        self,
        prompt: str,
        method: str,
        *,
        max_new_tokens: int = 256,
        temperature: float = 0.0,
        top_p: float = 1.0,
        seed: int = 0,
        visitor: str = "",
    ) -> Recording:
        """Start an answer; iterate it to decode. Raises SpectraError for bad input.

        visitor: whose own datastore, if there is one, is guessed from too.
        """
        sampling = Sampling(temperature=temperature, top_p=top_p, seed=seed)
        return self._record([{"role": "user", "content": prompt}], method, sampling, max_new_tokens, visitor)

    def chat(
        self,
        messages: Sequence[Message],
        method: str,
        *,
        max_new_tokens: int = 256,
        temperature: float = 0.0,
        top_p: float = 1.0,
        seed: int = 0,
        visitor: str = "",
        copied: int | None = None,
        warm: bool = False,
    ) -> Recording:
        """Start the next turn of a conversation, the whole of it through the chat template. Raises like `answer`.

        visitor: whose conversation and datastore; the cache stays from turn to turn ("": nothing stays). copied: start
        from a copy of at most so many of its tokens instead, and leave it as it is. warm: guess by what the visitor's
        warm answers taught, see `Warm`; the trace's settings tell how many those were. A lent GPU forgets: there
        nothing stays.
        """
        prefix = None
        if visitor and not self._lend:
            kept = self._conversations
            prefix = kept.prefix(visitor) if copied is None else kept.copy(visitor, copied)
        sampling = Sampling(temperature=temperature, top_p=top_p, seed=seed)
        learned = self._warm.of(visitor) if warm and visitor and not self._lend else None
        return self._record(messages, method, sampling, max_new_tokens, visitor, prefix, learned)

    def start_over(self, visitor: str) -> None:
        """Let the cache of the visitor's conversation go."""
        self._conversations.drop(visitor)

    def forget(self, visitor: str) -> None:
        """Let go of all that is kept for a visitor."""
        self.start_over(visitor)
        self._uploads.drop(visitor)
        self._warm.drop(visitor)

    def build_store(self, visitor: str, file: Path, keep: int, told: Told) -> dict[str, Any]:
        """Build a visitor's own datastore from an uploaded file; returns its card. `Uploads.build` has the details."""
        if self._lend:
            raise SpectraError("file", "the GPU here is lent by the call; build the store on a machine of your own")
        with self.target.held():
            loaded = (self.target.model, self.target.tokenizer, self.model)
            window = min(WINDOW, self.target.context // 2)
            return dict(self._uploads.build(visitor, file, keep, loaded, told, window=window).card)

    def drop_store(self, visitor: str) -> None:
        self._uploads.drop(visitor)

    def stores(self, visitor: str = "") -> list[dict[str, Any]]:
        """Cards of the datastores that the presets guess from, each with its `name`; the visitor's own first."""
        return [{**store.card, "name": store.name} for store in self._stores(visitor)]

    def query(self, store: str, text: str, most: int = 12, visitor: str = "") -> list[dict[str, Any]]:
        """What a store holds after `text`, likeliest first; `text` is looked up as the end of an answer.

        Raises SpectraError for a store that is not there.
        """
        found = next((each for each in self._stores(visitor) if each.name == store), None)
        if found is None:
            raise SpectraError("store", "that datastore is not there; choose one of the list")
        language = Language(self.target.tokenizer, self.model)
        return [
            {"text": one.text, "count": one.node.times, "chance": one.node.chance, "match": one.node.match}
            for one in query(found, language, text, most)
        ]

    def _stores(self, visitor: str) -> list[Store]:
        own = self._uploads.of(visitor)
        return [*([own] if own else []), *(store for store in self.target.stores if isinstance(store, Store))]

    def _record(
        self,
        messages: Sequence[Message],
        method: str,
        sampling: Sampling,
        tokens: int,
        visitor: str,
        prefix: Prefix | None = None,
        warm: Warm | None = None,
    ) -> Recording:
        raw = not getattr(self.target.tokenizer, "chat_template", None)
        own = self._uploads.of(visitor)
        made: str | Method = method
        if own or warm is not None:
            target = WithStores(self.target, [own]) if own else self.target
            made = make_method(method, target, sampling=sampling)
        recording = Recording(
            self.target, messages, made, sampling=sampling, max_new_tokens=tokens, raw=raw, run=self.run,
            prefix=prefix,
        )  # fmt: skip
        if warm is not None and isinstance(made, Method):
            recording.trace.settings["warm"] = warm.heat(made)
        return recording


def _runs(method: str, target: HuggingFaceTarget) -> bool:
    """Whether a preset has what it needs here: some need a datastore."""
    try:
        make_method(method, target)
    except SpectraError:
        return False
    return True


def _target(model: str, lend: Lend | None) -> HuggingFaceTarget:
    from spectra.target.load import load_target

    step = "eager" if lend else "auto"  # a lent GPU forgets what was recorded
    return load_target(None if model == EMBEDDED else model, step=step)
