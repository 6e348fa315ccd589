"""One run of one or more lanes: each a method answering the same request, measured one after the other.

A producer thread decodes; the page's generator reads what is done a few times a second. Drawing is never inside a
measurement, and the thread ends after the step in hand once `stop` is set.
"""

import contextvars
import queue
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from spectra.errors import SpectraError, TargetBusyError
from spectra.settings import AnswerRequest
from spectra.trace import StepTrace, Trace
from visual.engine import Answer, Backend, Pieces
from visual.method_settings import link_of
from visual.names import named
from visual.request import plainly
from visual.run.admission import UNHEARD, AdmissionQueue, Ticket
from visual.wire.events import Event, brief_event, delta, step_event
from visual.wire.figures import Level, figures, level_of, shared_by

UPDATE_SECONDS = 0.25
"""Between two looks for decoded steps, and between two messages to one who is served alone."""
DRAWN_SECONDS = 0.5
"""Between two messages of lanes that are compared: a browser may draw them on the cores that decode."""
DRAW_SECONDS = 0.2
"""Before each of them, once what came before was sent, in which nothing is decoded: a browser draws it."""
CROWD = 4
"""So many more who are served make it twice as long between two messages: they take cores from the model."""
IDLE_SECONDS = 0.5
"""The longest that a stream is silent."""
MAX_SECONDS = 600.0
"""The longest run: others wait."""
MAX_ALONE_SECONDS = 120.0
"""The longest one that nobody decodes beside: all others wait."""


class StoppedError(Exception):
    """Raised inside the building of a datastore whose visitor pressed Stop or left."""


class RunProgress(NamedTuple):
    """What is being done, how much of it is done, and how much there is of it."""

    what: str
    done: int
    total: int


class DecodedStep(NamedTuple):
    """What the decoding thread hands to the page's generator."""

    lane: str
    step: StepTrace
    pieces: Pieces


@dataclass(slots=True)
class Run:
    """What is known of one visitor's run. `state`: waiting, running, done, stopped or failed.

    request: what the visitor asked for. lanes: name -> what is decoded there. brief: the browser gets each step's time
    and sources only, neither text nor tree. facts: more that the browser gets when it begins. names: of each
    lane; those that are not given say the method and what was changed. id: what its messages
    are told apart by. events: the steps of each lane that were drained, as the browser gets them. progress: of a
    datastore that is built before its lane. alone: nobody else decodes meanwhile. drawn: a browser draws lanes that are
    compared, so it gets fewer messages and a moment before each lane. sent: cleared by the decoding thread to have
    everything sent at once that was decoded so far, set when that is done.
    """

    request: AnswerRequest
    lanes: Mapping[str, AnswerRequest]
    brief: bool = False
    alone: bool = False
    drawn: bool = False
    facts: Event = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    id: str = field(default_factory=lambda: secrets.token_hex(6))
    stop: threading.Event = field(default_factory=threading.Event)
    traces: dict[str, Trace] = field(default_factory=dict)
    events: dict[str, list[Event]] = field(default_factory=dict)
    state: str = "waiting"
    problem: dict[str, str] | None = None
    progress: "RunProgress | None" = None
    thread: threading.Thread | None = None
    sent: threading.Event = field(default_factory=threading.Event)
    inbox: "queue.Queue[DecodedStep | BaseException | None]" = field(default_factory=queue.Queue)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.events = {lane: [] for lane in self.lanes}
        every = {lane: named(each.method, each.settings.changed) for lane, each in self.lanes.items()}
        self.names = every | self.names
        self.sent.set()

    @classmethod
    def against_plain(cls, request: AnswerRequest, *, alone: bool = False, drawn: bool = False) -> "Run":
        """Plain decoding first, then the request's method."""
        return cls(request, {"plain": plainly(request), "method": request}, alone=alone, drawn=drawn)

    def begin(self) -> Event:
        """What the browser must know before the first step."""
        return {
            "kind": "begin",
            "run": self.id,
            "lanes": {lane: each.method for lane, each in self.lanes.items()},
            "names": self.names,
            "cap": self.request.max_new_tokens,
            "link": link_of(self.request),
            **self.facts,
        }

    def drain(self) -> Event | None:
        """What came since the last call as a delta, None if nothing did. Safe from any thread."""
        with self.lock:
            start = {lane: len(steps) for lane, steps in self.events.items()}
            while True:
                try:
                    item = self.inbox.get_nowait()
                except queue.Empty:
                    break
                if item is None:
                    self.state = "stopped" if self.stop.is_set() else "done"
                elif isinstance(item, BaseException):
                    self.state = "failed"
                    self.problem = explain(item)
                else:
                    event = brief_event(item.step) if self.brief else step_event(item.step, item.pieces)
                    self.events[item.lane].append(event)
            fresh = {lane: steps[start[lane] :] for lane, steps in self.events.items()}
            level, shared = self.level, self.shared
        return delta(self.id, start, fresh, level, shared) if any(fresh.values()) else None

    def end(self) -> Event:
        """Final figures, the text of every token in the trees, and how many steps the browser must hold by now."""
        return {
            "kind": "end",
            "run": self.id,
            "state": self.state,
            "problem": self.problem,
            "counts": {lane: len(steps) for lane, steps in self.events.items()},
            "figures": figures(self.traces.get("plain"), self.traces.get("method")),
            "words": {} if self.brief else words(self.traces),
        }

    def snapshot(self) -> Event:
        """Everything so far in one message."""
        whole = delta(self.id, dict.fromkeys(self.events, 0), self.events, self.level, self.shared)
        return {**whole, "kind": "snapshot", "begin": self.begin(), "end": None if self.running else self.end()}

    def on_progress(self, what: str, done: int, total: int) -> None:
        """Called by what builds a datastore; raises where the run was stopped."""
        if self.stop.is_set():
            raise StoppedError
        self.progress = RunProgress(what, done, total)

    @property
    def level(self) -> Level | None:
        """Of the steps that were drained; None before both lanes of a race have some, for runs of other lanes, and for
        one that is shared.
        """
        if self.shared or not all(self.events.get(lane) for lane in ("plain", "method")):
            return None
        plain, method = (self.traces[lane].steps[: len(self.events[lane])] for lane in ("plain", "method"))
        return level_of(plain, method)

    @property
    def shared(self) -> int:
        """The most others that decoded in the same passes, 0 for none."""
        return max((shared_by(trace) for trace in list(self.traces.values())), default=0)

    @property
    def running(self) -> bool:
        return self.state == "running"

    @property
    def active(self) -> bool:
        """Whether it decodes or waits for its turn, and was not stopped."""
        return self.state in ("waiting", "running") and not self.stop.is_set()

    def halt(self, wait: float = 2.0) -> Event | None:
        """Ask the decoding thread to end and return what it still had; a run that waits for its turn gives it up.

        A step that takes longer than `wait` seconds is left to itself: what it brings is not part of this run any more.
        """
        self.stop.set()
        self.sent.set()
        if self.thread is not None:
            self.thread.join(wait)
        last = self.drain()
        if self.thread is not None and self.thread.is_alive():
            self.traces = {lane: upto(trace, len(self.events[lane])) for lane, trace in self.traces.items()}
        if self.state in ("waiting", "running"):
            self.state = "stopped"
        return last


def upto(trace: Trace, count: int) -> Trace:
    """The first `count` steps of a trace that may still grow, and the text that they completed."""
    steps = trace.steps[:count]
    pieces = []
    tokens = sum(len(step.tokens) for step in steps)
    for size, text in list(trace.pieces):
        tokens -= size
        if tokens < 0:
            break
        pieces.append((size, text))
    return replace(trace, steps=steps, pieces=pieces, vocabulary=dict(trace.vocabulary))


def words(traces: Mapping[str, Trace]) -> dict[int, str]:
    """The text of every token in the trees of these traces."""
    return {token: text for trace in traces.values() for token, text in trace.vocabulary.items()}


def explain(error: BaseException) -> dict[str, str]:
    """The field an error belongs to ("" for none) and one line a visitor can act on."""
    if isinstance(error, SpectraError):
        return {"field": error.field, "text": str(error).removeprefix(f"{error.field}: ")}
    if isinstance(error, TargetBusyError):
        return {"field": "", "text": "The model is serving another answer; try again in a moment."}
    return {"field": "", "text": f"The run ended early ({type(error).__name__}). The server's log has the details."}


def another_chose(model: str) -> SpectraError:
    """What to say of what was asked of another model than the one in use."""
    return SpectraError("go", f"another visitor chose {model}; look at its settings and start again")


def decode_lanes(backend: Backend, run: Run, on_ready: Callable[[], object]) -> None:
    """Fill the run's inbox; `None` or an error comes last. on_ready: called when nothing is left to be built."""
    try:
        for request in run.lanes.values():
            backend.ready(request, run.on_progress)
        run.progress = None
        on_ready()
        with closing(backend.in_turn(list(run.lanes.values()))) as answers:
            for lane in run.lanes:
                if run.drawn:
                    _let_draw(run)
                if not run.stop.is_set():
                    _decode(run, lane, next(answers))
        run.inbox.put(None)
    except StoppedError:
        run.inbox.put(None)
    except (SpectraError, TargetBusyError) as error:
        run.inbox.put(error)
    except Exception as error:
        run.inbox.put(error)
        raise


def _let_draw(run: Run) -> None:
    run.sent.clear()
    run.sent.wait(IDLE_SECONDS)
    run.stop.wait(DRAW_SECONDS)


def _decode(run: Run, lane: str, answer: Answer) -> None:
    run.traces[lane] = answer.trace
    try:
        for decoded in answer:
            if decoded is not None:
                run.inbox.put(DecodedStep(lane, *decoded))
            if run.stop.is_set():
                break
    finally:
        answer.close()


def stream(
    backend: Backend, run: Run, admission: AdmissionQueue, max_seconds: float | None = None
) -> Iterator[Event | None]:
    """Messages for the browser, four a second at most, fewer where many are served; None keeps a silent run
    cancellable. Closing it stops the run; `run.stop` ends it with what was decoded.

    max_seconds: after which a run is stopped, since others wait; None is the default. Raises SpectraError when the
    queue is full, and where another visitor has chosen another model before its turn. The thread leaves the queue after
    its last step: nobody decodes beside one that is alone, nor while one builds a datastore, which would slow them down
    and say nothing of it.
    """
    max_seconds = max_seconds or (MAX_ALONE_SECONDS if run.alone else MAX_SECONDS)
    model = backend.chosen
    try:
        alone = run.alone or any(map(backend.builds, run.lanes.values()))
        ticket = admission.join(run.request.visitor, alone=alone)
    except SpectraError:
        run.state = "failed"
        raise

    def on_ready() -> None:
        if not run.alone:
            admission.share(ticket)

    def work() -> None:
        try:
            decode_lanes(backend, run, on_ready)
        finally:
            admission.leave(ticket)

    try:
        for ahead in admission.waiting(ticket, run.stop, IDLE_SECONDS):
            yield {"kind": "waiting", "ahead": ahead}
        if run.stop.is_set():
            run.state = "stopped"
            lost = admission.left(ticket)
            yield {"kind": "left"}
            if lost:
                raise SpectraError("go", UNHEARD)
            return
        if model != backend.chosen:
            run.state = "failed"
            yield {"kind": "left"}
            raise another_chose(backend.chosen)
        run.state = "running"
        context = contextvars.copy_context()  # a lent GPU is asked for in the name of who asked
        run.thread = threading.Thread(target=context.run, args=(work,), daemon=True)
        run.thread.start()
        yield run.begin()
        yield from _messages(run, admission, ticket, max_seconds)
        yield run.end()
    finally:
        run.stop.set()
        if run.thread is None:
            admission.leave(ticket)


def _messages(run: Run, admission: AdmissionQueue, ticket: Ticket, max_seconds: float) -> Iterator[Event | None]:
    """What a run that has begun brings, until it ends, is stopped or has had its time."""
    begun = time.monotonic()
    last = begun
    while run.running:
        stopped = run.stop.wait(UPDATE_SECONDS)
        if not stopped and admission.left(ticket):
            stopped = True
            run.problem = {"field": "", "text": UNHEARD}
        if time.monotonic() - begun > max_seconds and not stopped:
            stopped = True
            fewer = "fewer methods or tokens" if len(run.lanes) > 2 else "fewer tokens"
            run.problem = {"field": "", "text": f"Stopped after {max_seconds:g} seconds; ask for {fewer}."}
        over = stopped or run.thread is None or not run.thread.is_alive()
        each = DRAWN_SECONDS if run.drawn else UPDATE_SECONDS
        pause = each * (1 + (admission.served - 1) / CROWD) if any(run.events.values()) else 0.0
        between = not run.sent.is_set()
        if not (over or between) and time.monotonic() - last < pause:
            continue
        news = run.halt() if stopped else run.drain()
        if run.progress is not None and not news:
            news = {"kind": "building", **run.progress._asdict()}
        if news or time.monotonic() - last > IDLE_SECONDS:
            last = time.monotonic()
            yield news
        if between:
            run.sent.set()
            last = time.monotonic() + DRAW_SECONDS
