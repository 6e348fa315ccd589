"""A scripted engine for the page: genuine steps and trees, no model. Deterministic; its clock is scripted too."""

import random
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from asking import asked

from spectra.errors import SpectraError
from spectra.guess import Guess, Source
from spectra.inside import Hit, Inside, Learned
from spectra.metrics import PlainRate
from spectra.settings import AnswerRequest, TextOrder
from spectra.trace import StepTrace, Trace, TreeTrace
from spectra.tree import TokenTree
from spectra.verify.walk import walk
from visual.engine import ProgressCallback
from visual.examples import EXAMPLES
from visual.run.race_file import race_dict

SCRIPT = (
    "Here is a Python function that sorts a matrix by the sum of its rows:\n\n```python\ndef matrix_sort(matrix):\n"
    "    return sorted(matrix, key=lambda row: sum(row[i] for i in range(len(row))))\n```\n\n"
    "<script>window.hacked = 1</script> ${alert(1)} {{constructor}} `tick` <img src=x onerror=window.hacked=2> "
    "Café 🙂 naïve 漢字 and so on. It sorts the rows of the matrix; each row keeps its order. "
)
SOURCES = (Source.FORWARD, Source.BACKWARD, Source.RETRIEVAL, Source.POOL)
SETTINGS: dict[str, Any] = {
    "order": 5,
    "rows": 15,
    "guesses": 15,
    "refine": 0.1,
    "nodes": 120,
    "forward": True,
    "backward": True,
    "subngrams": True,
    "pool": True,
    "retrieval": True,
}
"""The paper's."""
PLAIN_RATE = PlainRate(40.0, 256)

CARD: dict[str, Any] = {
    "name": "smollm2-code",
    "model": "Fake-135M",
    "refined": True,
    "licence": "Apache-2.0",
    "bytes": 3_400_000,
    "kept": {"texts": 2600, "tokens": 310_000},
    "seen": {"texts": 8000, "tokens": 990_000},
    "dropped": {"similar": 120, "short": 0},
    "index": {"order": 12, "contexts": 512_000, "successors": 610_000},
    "corpus": [{"name": "selftext.jsonl", "bytes": 1, "sha256": "0"}],
    "perplexity": {
        "edges": [1, 1.5, 2, 3, 4, 6, 8, 12],
        "scored": [0, 600, 1400, 1800, 2200, 1500, 500],
        "kept": [0, 600, 1400, 600, 0, 0, 0],
        "cutoff": 3.34,
    },
}

LIBRARY: dict[str, Any] = {
    "name": "python-library",
    "kept": {"texts": 60, "tokens": 9000},
    "seen": {"texts": 120, "tokens": 21_000},
    "dropped": {"duplicate": 1, "similar": 2, "short": 0},
    "perplexity": {
        "edges": [2, 3, 4, 6, 8, 12],
        "scored": [8, 30, 44, 26, 12],
        "kept": [8, 30, 22, 0, 0],
        "cutoff": 5.0,
    },
}
"""What the card of the library's store has of its own: the model did not write it, so half of it goes."""


def split(text: str) -> list[bytes]:
    """Tokens: words with the space before them, signs, and single bytes of whatever is not ASCII."""
    tokens: list[bytes] = []
    for character in text:
        raw = character.encode()
        if len(raw) > 1:
            tokens += [bytes([byte]) for byte in raw]
        elif tokens and character.isalnum() and (tokens[-1][-1:].isalnum() or tokens[-1] == b" "):
            tokens[-1] += raw
        else:
            tokens.append(raw)
    return tokens


@dataclass
class FakeAnswer:
    """Writes the script over and over. before_step: called with the tokens so far. `closed` tells a test that the page
    let go of it.
    """

    trace: Trace
    words: dict[bytes, int]
    limit: int
    step_seconds: float
    guesses: bool
    explain: bool = False
    guessing_seconds: float = 0.031
    before_step: Callable[[int], object] | None = None
    closed: bool = False
    threads: set[threading.Thread] = field(default_factory=set)

    def __iter__(self) -> Iterator[tuple[StepTrace, list[tuple[int, str]]]]:
        script = split(SCRIPT)
        total = [script[i % len(script)] for i in range(self.limit + 9)]
        dice = random.Random(5)
        done, pending = 0, b""
        held = 0
        while done < self.limit:
            if self.closed:
                return
            if self.before_step:
                self.before_step(done)
            time.sleep(self.step_seconds)
            self.threads.add(threading.current_thread())
            step = self._step(total, done, dice)
            done += len(step.tokens)
            pieces = []
            for token in step.tokens:
                pending, held = pending + self._text(token), held + 1
                try:
                    pieces.append((held, pending.decode()))
                    pending, held = b"", 0
                except UnicodeDecodeError:
                    continue
            if step.finish and held:
                pieces.append((held, pending.decode(errors="replace")))
            self.trace.steps.append(step)
            self.trace.pieces += pieces
            if step.finish:
                self.trace.vocabulary = {i: word.decode(errors="replace") for word, i in self.words.items()}
            yield step, pieces

    def close(self) -> None:
        self.closed = True
        self.trace.vocabulary = {i: word.decode(errors="replace") for word, i in self.words.items()}

    def _text(self, token: int) -> bytes:
        return next(word for word, number in self.words.items() if number == token)

    def _step(self, total: list[bytes], done: int, dice: random.Random) -> StepTrace:
        ids = [self.words[word] for word in total[done : done + 9]]
        tree = TokenTree(self.words[total[done - 1]] if done else 0)
        if self.guesses:
            self._grow(tree, ids, dice)
        path, picks = walk(tree, lambda node: ids[tree.depths[node]])
        new = picks[: self.limit - done]
        sources = [tree.sources[node][0] for node in path] + [Source.MODEL]
        return StepTrace(
            index=len(self.trace.steps),
            tokens=tuple(new),
            sources=tuple(sources[: len(new)]),
            path=tuple(path[: len(new)]),
            picks=tuple(picks),
            tree=TreeTrace.of(tree),
            seconds=self.guessing_seconds if self.guesses else 0.024,
            prefill_seconds=0.0 if done else 0.18,
            finish="length" if done + len(new) >= self.limit else "",
            held={"forward": 1000 + done, "backward": 2000 + done} if self.guesses else {},
            offered=sum(tree.eligible) + 2,
            inside=self._inside(ids) if self.explain else None,
        )

    def _inside(self, ids: list[int]) -> Inside:
        row = Learned("pool", 1, tuple(ids[:5]), (0, 2), (0, 1, 2))
        found = (Hit(ids[0], 3, 41, 66, "smollm2-code", 7, 1.25), Hit(ids[1], 3, 4, 66, "smollm2-code", None, None))
        learned = (row, Learned("text", -1, tuple(ids[1:3]), (), (0,)))
        return Inside(
            (tuple(ids[:4]), tuple(ids[2:4])), ((2, ids[0]), (3, ids[1])), (False, True, False), learned, found
        )

    def _grow(self, tree: TokenTree, ids: list[int], dice: random.Random) -> None:
        for rank in range(dice.randrange(5)):
            source = SOURCES[dice.choice((0, 1, 1, 2, 2, 3))]
            right = dice.choice((0, 0, 1, 2, 3, 5))
            wrong = [dice.choice(list(self.words.values())) for _ in range(dice.randrange(1, 4))]
            tree.insert(Guess(tuple(ids[:right] + wrong)[:6], source, rank=rank))
        for node in range(1, len(tree)):
            tree.probability[node] = 0.62 ** tree.depths[node]
        if len(tree) > 1:
            tree.add(0, dice.choice(ids), Source.POOL, eligible=False)


@dataclass
class FakeEngine:
    """`answers` keeps every answer that was started. step_seconds: what a step really takes. guessing_seconds: what the
    trace says a step with guesses took. others: with how many its answers say that they were shared. before_step: gets
    the tokens of the answer so far.
    """

    step_seconds: float = 0.002
    guessing_seconds: float = 0.031
    model: str = "Fake-135M"
    badges: tuple[str, ...] = ("2 CPU cores", "bf16, exact")
    answers: list[FakeAnswer] = field(default_factory=list)
    methods: dict[str, str] = field(
        default_factory=lambda: {
            "autoregressive": "One token a step.",
            "spectra": "Two dictionaries, a candidate pool and retrieval.",
            "spectra-core": "Without retrieval.",
            "spectra-paper": "As printed.",
            "rest": "Continuations of an unrefined datastore.",
        }
    )

    settings: dict[str, dict[str, Any]] = field(
        default_factory=lambda: {
            "autoregressive": {},
            "spectra": {**SETTINGS, "rows": 2, "guesses": None, "nodes": 64, "successors": 8},
            "spectra-core": {**SETTINGS, "rows": 2, "guesses": None, "nodes": 64, "successors": 8, "retrieval": False},
            "spectra-paper": {**SETTINGS, "nodes": None},
            "rest": {"nodes": 64},
        }
    )
    cost: tuple[tuple[int, float], ...] = ((1, 0.021), (2, 0.022), (4, 0.023), (8, 0.026), (16, 0.034), (32, 0.058))
    plain: PlainRate = PLAIN_RATE
    models: tuple[str, ...] = ("Fake-135M",)
    chosen: str = "Fake-135M"
    together: int = 1
    others: int = 0
    before_step: Callable[[int], object] | None = None
    measured: list[int] = field(default_factory=list)
    conversations: list[list[dict[str, str]]] = field(default_factory=list)
    kept: dict[str, int] = field(default_factory=dict)
    gone: list[str] = field(default_factory=list)
    own: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    built: int = 0
    uploads: list[Path | None] = field(default_factory=list)
    visitors: list[str] = field(default_factory=list)
    shared: tuple[dict[str, Any], ...] = (CARD,)
    texts: dict[tuple[str, tuple[str, ...]], int] = field(default_factory=dict)
    BUILDS_STORES: ClassVar[bool] = True
    references: ClassVar[dict[str, str]] = {"hf-generate": "what transformers takes"}

    def settings_of(self, method: str, visitor: str = "") -> dict[str, Any]:
        """A visitor's store where there is no other makes `spectra` guess from it, and from no recycled successors."""
        values = self.settings.get(method, {})
        alone = method == "spectra" and not self.shared and bool(self.own.get(visitor))
        return {**values, "retrieval": True, "successors": 0} if alone else values

    def choose(self, model: str) -> None:
        if model == "Gone-7B":
            raise SpectraError("model", "cannot load 'Gone-7B' (no such file); give a hub id that can be reached")
        self.model = self.chosen = model

    def measure(self, context: int) -> PlainRate:
        self.measured.append(context)
        self.plain = PlainRate(50.0, context)
        return self.plain

    def start_over(self, visitor: str) -> None:
        self.kept.pop(visitor, None)

    def forget(self, visitor: str) -> None:
        self.start_over(visitor)
        self.drop_store(visitor)
        self.gone.append(visitor)

    def stores(self, visitor: str = "") -> list[dict[str, Any]]:
        return [*self.own.get(visitor, []), *self.shared]

    def build_store(self, visitor: str, file: Path | None, keep: int, on_progress: ProgressCallback) -> dict[str, Any]:
        """Takes a line at a time, `step_seconds` each."""
        self.uploads.append(file)
        if file is None:
            card = {**CARD, **LIBRARY}
            self.own[visitor] = [card]
            return card
        if file.suffix != ".txt":
            raise SpectraError("file", f"{file.suffix} is not read here; give .txt or .jsonl")
        lines = file.read_text().splitlines()
        for number, _ in enumerate(lines):
            on_progress("scoring", number, len(lines))
            time.sleep(self.step_seconds)
        card = {**CARD, "name": f"my-{file.stem}", "kept": {"texts": min(keep, len(lines)), "tokens": 99}}
        self.own[visitor] = [card]
        return card

    def write_texts(self, visitor: str, order: TextOrder, on_written: Callable[[int, int], None]) -> None:
        """A text takes ten steps of a tenth of its tokens each, `step_seconds` a step."""
        if "refuse" in order.prompts:
            raise SpectraError("texts", "one of 9000 tokens does not fit; shorten it")
        texts = self.texts.get((visitor, order.prompts), 0)
        while texts < order.texts:
            for step in range(1, 11):
                time.sleep(self.step_seconds)
                on_written(texts, order.max_new_tokens * (10 * texts + step) // 10)
            texts += 1
            self.texts[visitor, order.prompts] = texts
            on_written(texts, order.max_new_tokens * texts)

    def written(self, visitor: str, order: TextOrder) -> int:
        return self.texts.get((visitor, order.prompts), 0)

    def build_written(self, visitor: str, keep: int, on_progress: ProgressCallback) -> dict[str, Any]:
        texts = sum(count for (whose, _), count in self.texts.items() if whose == visitor)
        on_progress("scoring", 0, texts)
        card = {**CARD, "name": "written-by-the-model", "kept": {"texts": min(keep, texts), "tokens": 99}}
        self.own[visitor] = [card]
        return card

    def drop_store(self, visitor: str) -> None:
        self.own.pop(visitor, None)

    def query(self, store: str, text: str, max_rows: int, visitor: str = "") -> list[dict[str, Any]]:
        if store not in [card["name"] for card in self.stores(visitor)]:
            raise SpectraError("store", "that datastore is not there; choose one of the list")
        if text == "unknown":
            return []
        rows = [{"text": " self.balance", "count": 41, "chance": 0.62, "match": 3}]
        return [*rows, {"text": "<b>bold</b>\n", "count": 4, "chance": 0.06, "match": 3}][:max_rows]

    def builds(self, request: AnswerRequest) -> bool:
        """`rest` needs a store, which is built once."""
        return request.method == "rest" and not self.built

    def ready(self, request: AnswerRequest, on_progress: ProgressCallback) -> None:
        if self.builds(request):
            for number in range(20):
                on_progress("indexing", number, 20)
                time.sleep(20 * self.step_seconds)
            self.built += 1

    def answer(self, request: AnswerRequest) -> FakeAnswer:
        """A conversation keeps a token a word, its own way of counting."""
        if request.in_conversation:
            self.conversations.append(list(request.messages))
        answer = self._answer(request)
        if request.in_conversation:
            self._keep(request, answer.trace)
        return answer

    def in_turn(self, requests: Sequence[AnswerRequest]) -> Generator[FakeAnswer]:
        yield from map(self.answer, requests)

    def _answer(self, request: AnswerRequest) -> FakeAnswer:
        self.visitors.append(request.visitor)
        if request.prompt == "refuse":
            raise SpectraError("prompt", "9000 tokens do not fit; give at most 8192")
        if request.prompt == "break":
            raise RuntimeError("a secret detail")
        words = {word: i for i, word in enumerate(dict.fromkeys(split(SCRIPT)))}
        trace = Trace(request.method, self.model, request.prompt, (1, 2, 3))
        values = SETTINGS if request.method == "spectra-paper" else self.settings.get(request.method, {})
        trace.settings = {
            "max_new_tokens": request.max_new_tokens,
            "temperature": request.sampling.temperature,
            "seed": request.sampling.seed,
            "top_p": request.sampling.top_p,
            "method": {"changed": request.settings.changed, "values": values},
        }
        trace.environment = {"device": "cpu", "threads": 2, "processor": "Fake CPU", "dtype": "bfloat16"}
        if self.others:
            trace.settings["shared"] = self.others
        guesses = request.method != "autoregressive"
        self.answers.append(
            FakeAnswer(
                trace,
                words,
                request.max_new_tokens,
                self.step_seconds,
                guesses,
                request.explain,
                self.guessing_seconds,
                self.before_step,
            )
        )
        return self.answers[-1]

    def _keep(self, request: AnswerRequest, trace: Trace) -> None:
        if request.warm:
            trace.settings["warm"] = len(request.messages) // 2
        if request.copied_tokens is not None:
            trace.kept = request.copied_tokens
            return
        trace.kept = self.kept.get(request.visitor, 0)
        self.kept[request.visitor] = sum(len(message["content"].split()) for message in request.messages)


def recorded_race(tokens: int = 90, *, explain: bool = False) -> dict[str, Any]:
    """A race as a file holds it. explain: with what was looked up and learned at each step."""
    engine = FakeEngine(step_seconds=0)
    methods = {"plain": "autoregressive", "method": "spectra"}
    answers = {
        lane: engine.answer(asked(EXAMPLES[0].prompt, method, max_new_tokens=tokens, seed=7, explain=explain))
        for lane, method in methods.items()
    }
    for answer in answers.values():
        list(answer)
    return {**race_dict({lane: answer.trace for lane, answer in answers.items()}), "title": "A first race"}
