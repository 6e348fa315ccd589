"""A visitor's own datastore being made: a thread writes text or builds, the page's generator reports how far it is.

Writing and building are two jobs, each with its own turn: others decode beside the writing, a build is alone. Stop ends
the one in hand, and text that is written is built from.
"""

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from spectra.errors import SpectraError, TargetBusyError
from spectra.settings import TextOrder
from visual.engine import Engine, ProgressCallback
from visual.run.admission import UNHEARD, AdmissionQueue
from visual.run.run import IDLE_SECONDS, MAX_SECONDS, UPDATE_SECONDS, RunProgress, StoppedError, explain
from visual.wire.events import Event

STOP_SECONDS = 2.0
"""How long a stopped build is waited for: its step in hand ends by itself."""


UNHEARD_BUILD: Event = {"kind": "refused", "field": "", "text": UNHEARD}
"""For whom it reaches all the same."""
START = RunProgress("reading", 0, 0)


@dataclass(slots=True)
class Job(ABC):
    """problem: why it failed. alone: nobody decodes beside it. max_seconds: after which it is stopped, and `late`.
    deserted: stopped because nobody listened.
    """

    visitor: str
    stop: threading.Event = field(default_factory=threading.Event, kw_only=True)
    problem: dict[str, str] | None = field(default=None, kw_only=True)
    alone: bool = field(default=True, kw_only=True)
    max_seconds: float = field(default=MAX_SECONDS, kw_only=True)
    late: bool = field(default=False, kw_only=True)
    deserted: bool = field(default=False, kw_only=True)

    @abstractmethod
    def work(self) -> None:
        """Do it; raises `StoppedError` once `stop` is set."""

    @abstractmethod
    def state(self) -> Event:
        """How far it is."""

    @abstractmethod
    def outcome(self) -> Event:
        """The last message of one that did not fail."""

    def run(self) -> None:
        """Do it, or fill `problem`; neither, when it was stopped."""
        try:
            self.work()
        except StoppedError:
            pass
        except (SpectraError, TargetBusyError) as error:
            self.problem = explain(error)
        except Exception as error:
            self.problem = explain(error)
            raise


@dataclass(slots=True)
class StoreBuild(Job):
    """build: makes the store and returns its card. card: of the finished store."""

    build: Callable[[ProgressCallback], Mapping[str, Any]]
    progress: RunProgress = START
    card: dict[str, Any] | None = None

    def on_progress(self, what: str, done: int, total: int) -> None:
        """Called by the builder; raises where the build was stopped."""
        if self.stop.is_set():
            raise StoppedError
        self.progress = RunProgress(what, done, total)

    def work(self) -> None:
        self.card = dict(self.build(self.on_progress))

    def state(self) -> Event:
        return {"kind": "building", **self.progress._asdict()}

    def outcome(self) -> Event:
        if self.card is None and self.late:
            text = f"Stopped after {self.max_seconds:g} seconds, for others wait; give less text."
            return {"kind": "refused", "field": "", "text": text}
        if self.card is None and self.deserted:
            return UNHEARD_BUILD
        return {"kind": "halted"} if self.card is None else {"kind": "built", "card": self.card}


@dataclass(slots=True)
class TextWriting(Job):
    """The model writes text. already: texts that were there. texts, tokens: there now. begun, latest: when the writing
    began and when the latest text was finished, in seconds of `time.monotonic`.
    """

    engine: Engine
    order: TextOrder
    alone: bool = field(default=False, kw_only=True)
    already: int = 0
    texts: int = 0
    tokens: int = 0
    begun: float = 0.0
    latest: float = 0.0

    def on_written(self, texts: int, tokens: int) -> None:
        """Called by the engine; raises where the writing was stopped."""
        if texts > self.texts:
            self.latest = time.monotonic()
        self.texts, self.tokens = texts, tokens
        if self.stop.is_set():
            raise StoppedError

    def work(self) -> None:
        self.already = self.texts = self.engine.written(self.visitor, self.order)
        self.begun = time.monotonic()
        self.engine.write_texts(self.visitor, self.order, self.on_written)

    def state(self) -> Event:
        return {**self._counts("writing"), "left": self.left(time.monotonic())}

    def outcome(self) -> Event:
        return self._counts("written") if self.texts else {"kind": "halted"}

    def left(self, now: float) -> float | None:
        """Seconds that the rest takes at the speed of the finished texts; None before the first of them."""
        own = self.texts - self.already
        if own <= 0:
            return None
        rest = (self.latest - self.begun) / own * max(0, self.order.texts - self.texts)
        return max(0.0, rest - (now - self.latest))

    def _counts(self, kind: str) -> Event:
        return {"kind": kind, "texts": self.texts, "of": max(self.order.texts, self.texts), "tokens": self.tokens}


@dataclass(slots=True)
class WrittenStore:
    """Text that the model writes, then a store of it."""

    writing: TextWriting
    build: StoreBuild

    @property
    def stop(self) -> threading.Event:
        """Of the job in hand: the first one ends the writing, and what is written becomes a store."""
        return self.build.stop if self.writing.stop.is_set() else self.writing.stop

    def stream(self, admission: AdmissionQueue) -> Iterator[Event]:
        """Messages for the browser: those of the writing, then those of the build where there is text and
        somebody for whom it is.
        """
        yield from stream(self.writing, admission)
        if self.writing.deserted and self.writing.problem is None:
            yield UNHEARD_BUILD
        if self.writing.problem is None and self.writing.texts and not self.writing.deserted:
            yield from stream(self.build, admission)


def written_store(engine: Engine, visitor: str, order: TextOrder, keep: int) -> WrittenStore:
    """The run in which the model writes the texts of a visitor's store and builds it. keep: how many it keeps."""

    def build(on_progress: ProgressCallback) -> Mapping[str, Any]:
        return engine.build_written(visitor, keep, on_progress)

    return WrittenStore(TextWriting(visitor, engine, order), StoreBuild(visitor, build))


def stream(job: Job, admission: AdmissionQueue) -> Iterator[Event]:
    """Messages for the browser: queued, how far it is, and at last its outcome or refused. Closing it stops the job."""
    ticket = admission.join(job.visitor, alone=job.alone)

    def work() -> None:
        try:
            job.run()
        finally:
            admission.leave(ticket)

    thread = threading.Thread(target=work, daemon=True)
    try:
        for ahead in admission.waiting(ticket, job.stop, IDLE_SECONDS):
            yield {"kind": "queued", "ahead": ahead}
        job.deserted = job.stop.is_set() and admission.left(ticket)
        if not job.stop.is_set():
            thread.start()
        end = time.monotonic() + job.max_seconds
        while thread.is_alive():
            yield job.state()
            job.late = time.monotonic() > end
            stopped = job.stop.wait(UPDATE_SECONDS)
            job.deserted = admission.left(ticket)
            if stopped or job.deserted or job.late:
                job.stop.set()
                thread.join(STOP_SECONDS)
                break
        yield job.outcome() if job.problem is None else {"kind": "refused", **job.problem}
    finally:
        job.stop.set()
        if thread.ident is None:
            admission.leave(ticket)
