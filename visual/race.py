"""One run of one or more lanes: each a method answering the same request, measured one after the other.

A producer thread decodes; the page's generator reads what is done some seven times a second. Drawing is never inside a
measurement, and the thread ends after the step in hand once `stop` is set.
"""

import queue
import secrets
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from spectra.errors import SpectraError, TargetBusyError
from spectra.trace import StepTrace, Trace
from visual.engine import PLAIN, Pieces, Talker
from visual.events import Event, brief_event, delta, step_event
from visual.figures import figures
from visual.form import Request
from visual.line import Line

TICK = 0.15
IDLE = 0.5
LONGEST = 600.0


@dataclass(slots=True)
class Race:
    """What is known of one visitor's run. `state`: waiting, running, done, stopped or failed.

    lanes: name -> method. brief: the browser gets each step's time and sources only, neither text nor tree.
    """

    request: Request
    lanes: Mapping[str, str]
    brief: bool = False
    run: str = field(default_factory=lambda: secrets.token_hex(6))
    stop: threading.Event = field(default_factory=threading.Event)
    traces: dict[str, Trace] = field(default_factory=dict)
    events: dict[str, list[Event]] = field(default_factory=dict)
    state: str = "waiting"
    problem: dict[str, str] | None = None
    thread: threading.Thread | None = None
    inbox: "queue.Queue[tuple[str, StepTrace, Pieces] | BaseException | None]" = field(default_factory=queue.Queue)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.events = {lane: [] for lane in self.lanes}

    @classmethod
    def against_plain(cls, request: Request) -> "Race":
        """Plain decoding first, then the request's method."""
        return cls(request, {"plain": PLAIN, "method": request.method})

    def begin(self) -> Event:
        ask = self.request
        return {
            "kind": "begin",
            "run": self.run,
            "lanes": list(self.lanes.values()),
            "cap": ask.max_new_tokens,
            "link": {**ask.settings, "prompt": ask.prompt, "method": ask.method},
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
                    self.state, self.problem = "failed", explain(item)
                else:
                    lane, step, pieces = item
                    self.events[lane].append(brief_event(step) if self.brief else step_event(step, pieces))
            fresh = {lane: steps[start[lane] :] for lane, steps in self.events.items()}
        return delta(self.run, start, fresh) if any(fresh.values()) else None

    def end(self) -> Event:
        """Final figures, the text of every token in the trees, and how many steps the browser must hold by now."""
        return {
            "kind": "end",
            "run": self.run,
            "state": self.state,
            "problem": self.problem,
            "counts": {lane: len(steps) for lane, steps in self.events.items()},
            "figures": figures(self.traces.get("plain"), self.traces.get("method")),
            "words": {} if self.brief else words(self.traces),
        }

    def snapshot(self) -> Event:
        """Everything so far in one message."""
        whole = delta(self.run, dict.fromkeys(self.events, 0), self.events)
        return {**whole, "kind": "snapshot", "begin": self.begin(), "end": None if self.running else self.end()}

    @property
    def running(self) -> bool:
        return self.state == "running"

    @property
    def goes_on(self) -> bool:
        """Whether it decodes or waits to, and was not told to stop."""
        return self.state in ("waiting", "running") and not self.stop.is_set()

    def halt(self, wait: float = 2.0) -> Event | None:
        """Ask the decoding thread to end and return what it still had; one that waits in line leaves it.

        A step that takes longer than `wait` seconds is left to itself: what it brings is no part of this run any more.
        """
        self.stop.set()
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
    steps, pieces = trace.steps[:count], []
    held = sum(len(step.tokens) for step in steps)
    for size, text in list(trace.pieces):
        held -= size
        if held < 0:
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


def decode_lanes(engine: Talker, race: Race) -> None:
    """Fill the race's inbox; `None` or an error comes last."""
    try:
        for lane, method in race.lanes.items():
            if not race.stop.is_set():
                _decode(engine, race, lane, method)
        race.inbox.put(None)
    except (SpectraError, TargetBusyError) as error:
        race.inbox.put(error)
    except Exception as error:
        race.inbox.put(error)
        raise


def _decode(engine: Talker, race: Race, lane: str, method: str) -> None:
    answer = race.request.start(engine, method)
    race.traces[lane] = answer.trace
    try:
        for step, pieces in answer:
            race.inbox.put((lane, step, pieces))
            if race.stop.is_set():
                break
    finally:
        answer.close()


def stream(engine: Talker, race: Race, line: Line, longest: float = LONGEST) -> Iterator[Event | None]:
    """Messages for the browser, seven a second at most; None keeps a silent run cancellable. Closing it stops the run;
    `race.stop` ends it with what was decoded.

    longest: seconds after which a run is stopped, since others wait. Raises SpectraError when the line is full. The
    thread leaves it after its last step: nobody decodes beside it.
    """
    try:
        ticket = line.join()
    except SpectraError:
        race.state = "failed"
        raise

    def work() -> None:
        try:
            decode_lanes(engine, race)
        finally:
            line.leave(ticket)

    try:
        ahead = line.ahead(ticket)
        while ahead and not race.stop.is_set():
            yield {"kind": "waiting", "ahead": ahead}
            ahead = line.wait(ticket, IDLE)
        if race.stop.is_set():
            race.state = "stopped"
            yield {"kind": "left"}
            return
        race.state, race.thread = "running", threading.Thread(target=work, daemon=True)
        race.thread.start()
        yield race.begin()
        quiet = begun = time.monotonic()
        while race.running:
            stopped = race.stop.wait(TICK)
            if time.monotonic() - begun > longest and not stopped:
                stopped = True
                race.problem = {"field": "", "text": f"Stopped after {longest:g} seconds; ask for fewer tokens."}
            news = race.halt() if stopped else race.drain()
            if news or time.monotonic() - quiet > IDLE:
                quiet = time.monotonic()
                yield news
        yield race.end()
    finally:
        race.stop.set()
        if race.thread is None:
            line.leave(ticket)
