"""A visitor's own datastore being built: a thread builds, the page's generator tells how far it is. Stop ends it."""

import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from spectra.errors import SpectraError, TargetBusyError
from visual.engine import Engine
from visual.events import Event
from visual.line import Line
from visual.race import IDLE, TICK, explain

PATIENCE = 2.0
"""Seconds that a stopped build is waited for: its step in hand ends by itself."""


class StoppedError(Exception):
    """Raised inside a build whose visitor pressed Stop or left."""


@dataclass(slots=True)
class Building:
    """progress: (what, done, of how much). card: of the finished store. problem: why there is none."""

    visitor: str
    file: Path
    keep: int
    stop: threading.Event = field(default_factory=threading.Event)
    progress: tuple[str, int, int] = ("reading", 0, 0)
    card: dict[str, Any] | None = None
    problem: dict[str, str] | None = None

    def hear(self, what: str, done: int, total: int) -> None:
        if self.stop.is_set():
            raise StoppedError
        self.progress = (what, done, total)

    def build(self, engine: Engine) -> None:
        """Fill `card` or `problem`; neither, when it was stopped."""
        try:
            self.card = dict(engine.build_store(self.visitor, self.file, self.keep, self.hear))
        except StoppedError:
            pass
        except (SpectraError, TargetBusyError) as error:
            self.problem = explain(error)
        except Exception as error:
            self.problem = explain(error)
            raise


def stream(engine: Engine, building: Building, line: Line) -> Iterator[Event]:
    """Messages for the browser: waiting, building, and at last built, refused or halted. Closing it stops the build."""
    ticket = line.join()

    def work() -> None:
        try:
            building.build(engine)
        finally:
            line.leave(ticket)

    thread = threading.Thread(target=work, daemon=True)
    try:
        ahead = line.ahead(ticket)
        while ahead and not building.stop.is_set():
            yield {"kind": "queued", "ahead": ahead}
            ahead = line.wait(ticket, IDLE)
        if not building.stop.is_set():
            thread.start()
        while thread.is_alive():
            what, done, total = building.progress
            yield {"kind": "building", "what": what, "done": done, "total": total}
            if building.stop.wait(TICK):
                thread.join(PATIENCE)
                break
        yield outcome(building)
    finally:
        building.stop.set()
        if thread.ident is None:
            line.leave(ticket)


def discard(file: Path) -> None:
    """Delete an uploaded file and the folder that was made for it."""
    file.unlink(missing_ok=True)
    with suppress(OSError):
        file.parent.rmdir()


def outcome(building: Building) -> Event:
    if building.card is not None:
        return {"kind": "built", "card": building.card}
    if building.problem is not None:
        return {"kind": "refused", **building.problem}
    return {"kind": "halted"}
