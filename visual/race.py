"""One race: plain decoding, then the method, measured one after the other so that neither slows the other.

A producer thread decodes; the page's generator reads what is done about ten times a second. Drawing is never inside a
measurement, and the thread ends after the step in hand once `stop` is set.
"""

import queue
import secrets
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from spectra.errors import SpectraError, TargetBusyError
from spectra.trace import StepTrace, Trace
from visual.engine import PLAIN, Engine, Pieces
from visual.events import LANES, Event, delta, step_event
from visual.figures import figures
from visual.form import Request

TICK = 0.1
IDLE = 0.5


@dataclass(slots=True)
class Race:
    """What is known of one visitor's race. `state` is "running", "done", "stopped" or "failed"."""

    request: Request
    run: str = field(default_factory=lambda: secrets.token_hex(6))
    stop: threading.Event = field(default_factory=threading.Event)
    traces: dict[str, Trace] = field(default_factory=dict)
    events: dict[str, list[Event]] = field(default_factory=lambda: {lane: [] for lane in LANES})
    state: str = "running"
    problem: dict[str, str] | None = None
    thread: threading.Thread | None = None
    inbox: "queue.Queue[tuple[str, StepTrace, Pieces] | BaseException | None]" = field(default_factory=queue.Queue)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def begin(self) -> Event:
        ask = self.request
        return {"kind": "begin", "run": self.run, "method": ask.method, "cap": ask.max_new_tokens}

    def drain(self) -> Event | None:
        """What came since the last call as a delta, None if nothing did. Safe from any thread."""
        with self.lock:
            start = {lane: len(self.events[lane]) for lane in LANES}
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
                    self.events[lane].append(step_event(step, pieces))
            fresh = {lane: self.events[lane][start[lane] :] for lane in LANES}
        return delta(self.run, start, fresh) if any(fresh.values()) else None

    def end(self) -> Event:
        """Final figures, the text of every token in the trees, and how many steps the browser must hold by now."""
        words: dict[int, str] = {}
        for trace in self.traces.values():
            words |= trace.vocabulary
        return {
            "kind": "end",
            "run": self.run,
            "state": self.state,
            "problem": self.problem,
            "counts": {lane: len(self.events[lane]) for lane in LANES},
            "figures": figures(self.traces.get("plain"), self.traces.get("method")),
            "words": words,
        }

    def snapshot(self) -> Event:
        """Everything so far in one message."""
        whole = delta(self.run, dict.fromkeys(LANES, 0), self.events)
        return {**whole, "kind": "snapshot", "begin": self.begin(), "end": None if self.running else self.end()}

    def download(self) -> dict[str, Any]:
        """Both traces in one file."""
        return {"format": "spectra-race", "version": 1, **{lane: t.to_dict() for lane, t in self.traces.items()}}

    @property
    def running(self) -> bool:
        return self.state == "running"

    def halt(self, wait: float = 2.0) -> None:
        """Ask the decoding thread to end and read what it still had."""
        self.stop.set()
        if self.thread is not None:
            self.thread.join(wait)
        self.drain()
        if self.running:
            self.state = "stopped"


def explain(error: BaseException) -> dict[str, str]:
    """The field an error belongs to ("" for none) and one line a visitor can act on."""
    if isinstance(error, SpectraError):
        return {"field": error.field, "text": str(error).removeprefix(f"{error.field}: ")}
    if isinstance(error, TargetBusyError):
        return {"field": "", "text": "The model is serving another answer; try again in a moment."}
    return {"field": "", "text": f"The run ended early ({type(error).__name__}). The server's log has the details."}


def decode_both(engine: Engine, race: Race, target: threading.Lock) -> None:
    """Fill the race's inbox; `None` or an error comes last. Holds `target` while it decodes."""
    ask = race.request
    try:
        with target:
            for lane, method in zip(LANES, (PLAIN, ask.method), strict=True):
                if not race.stop.is_set():
                    _decode(engine, race, lane, method)
        race.inbox.put(None)
    except (SpectraError, TargetBusyError) as error:
        race.inbox.put(error)
    except Exception as error:
        race.inbox.put(error)
        raise


def _decode(engine: Engine, race: Race, lane: str, method: str) -> None:
    ask = race.request
    answer = engine.answer(
        ask.prompt,
        method,
        max_new_tokens=ask.max_new_tokens,
        temperature=ask.temperature,
        top_p=ask.top_p,
        seed=ask.seed,
    )
    race.traces[lane] = answer.trace
    try:
        for step, pieces in answer:
            race.inbox.put((lane, step, pieces))
            if race.stop.is_set():
                break
    finally:
        answer.close()


def stream(engine: Engine, race: Race, target: threading.Lock) -> Iterator[Event | None]:
    """Messages for the browser, ten a second at most; None keeps a silent run cancellable. Closing it stops the run."""
    race.thread = threading.Thread(target=decode_both, args=(engine, race, target), daemon=True)
    race.thread.start()
    try:
        yield race.begin()
        quiet = time.monotonic()
        while race.running:
            time.sleep(TICK)
            news = race.drain()
            if news or time.monotonic() - quiet > IDLE:
                quiet = time.monotonic()
                yield news
        yield race.end()
    finally:
        race.stop.set()
