"""A visitor's own datastore being built: a thread builds, the page's generator reports progress. Stop ends it."""

import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from spectra.errors import SpectraError, TargetBusyError
from visual.engine import Engine
from visual.run.admission import AdmissionQueue
from visual.run.run import IDLE_SECONDS, UPDATE_SECONDS, Progress, StoppedError, explain
from visual.wire.events import Event

STOP_SECONDS = 2.0
"""How long a stopped build is waited for: its step in hand ends by itself."""


START = Progress("reading", 0, 0)


@dataclass(slots=True)
class StoreBuild:
    """file: None is the text that comes along. card: of the finished store. problem: why there is none."""

    visitor: str
    file: Path | None
    keep: int
    stop: threading.Event = field(default_factory=threading.Event)
    progress: Progress = START
    card: dict[str, Any] | None = None
    problem: dict[str, str] | None = None

    def on_progress(self, what: str, done: int, total: int) -> None:
        """Called by the builder; raises where the build was stopped."""
        if self.stop.is_set():
            raise StoppedError
        self.progress = Progress(what, done, total)

    def run(self, engine: Engine) -> None:
        """Fill `card` or `problem`; neither, when it was stopped."""
        try:
            self.card = dict(engine.build_store(self.visitor, self.file, self.keep, self.on_progress))
        except StoppedError:
            pass
        except (SpectraError, TargetBusyError) as error:
            self.problem = explain(error)
        except Exception as error:
            self.problem = explain(error)
            raise


def stream(engine: Engine, build: StoreBuild, admission: AdmissionQueue) -> Iterator[Event]:
    """Messages for the browser: queued, building, and at last built, refused or halted. Closing it stops the build."""
    ticket = admission.join(build.visitor, alone=True)

    def work() -> None:
        try:
            build.run(engine)
        finally:
            admission.leave(ticket)

    thread = threading.Thread(target=work, daemon=True)
    try:
        for ahead in admission.waiting(ticket, build.stop, IDLE_SECONDS):
            yield {"kind": "queued", "ahead": ahead}
        if not build.stop.is_set():
            thread.start()
        while thread.is_alive():
            yield {"kind": "building", **build.progress._asdict()}
            if build.stop.wait(UPDATE_SECONDS) or admission.left(ticket):
                build.stop.set()
                thread.join(STOP_SECONDS)
                break
        yield outcome(build)
    finally:
        build.stop.set()
        if thread.ident is None:
            admission.leave(ticket)


def discard(file: Path) -> None:
    """Delete an uploaded file and the folder that was made for it. A call by hand may name what is no file."""
    with suppress(OSError, ValueError):
        file.unlink(missing_ok=True)
        file.parent.rmdir()


def outcome(build: StoreBuild) -> Event:
    """The last message."""
    if build.card is not None:
        return {"kind": "built", "card": build.card}
    if build.problem is not None:
        return {"kind": "refused", **build.problem}
    return {"kind": "halted"}
