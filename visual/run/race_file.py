"""Recorded races as files: read, checked, written, and shown without a model."""

import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from spectra.errors import SpectraError
from spectra.io.file_kinds import RACE
from spectra.io.json_text import TooManyError, parse_json, read_json
from spectra.settings import METHOD_NUMBERS, MethodSettings, Value
from spectra.trace import Trace
from visual.engine import PLAIN
from visual.method_settings import FIELDS, link_values
from visual.names import KINDS, named, short
from visual.request import RANGES
from visual.run.run import words
from visual.wire.events import Event, delta, trace_events
from visual.wire.figures import figures, shared_by

MAX_BYTES = 32_000_000
MAX_VALUES = 3_000_000
"""Keys included; a token of a shipped race has 55. While more are made of text all threads of the server wait."""
MOST_NODES = int(METHOD_NUMBERS["nodes"].high) + 1
"""Of a step's tree: as many as a method may guess, and the root. A browser draws them all."""
MOST_LETTERS = 300_000
"""Of a prompt and of an answer. A browser lays 100,000 out at once, and a million in 20 seconds."""
DAY = re.compile(r"(\d{4}-\d\d-\d\d)?", re.ASCII)
LONGEST_FACT = 200
"""Letters of a fact in the note of what was recorded."""
METHOD = re.compile(r"[a-z0-9-]{1,64}")
"""Names of presets. The browser looks them up, so one that every object of JavaScript has is refused too."""


@dataclass(frozen=True, slots=True)
class RaceFile:
    """Two answers to one prompt. recorded: the day, "" where the file does not say. title: a few words."""

    plain: Trace
    method: Trace
    recorded: str = ""
    title: str = ""

    @classmethod
    def from_json(cls, text: str) -> "RaceFile":
        """Raises `SpectraError` for the field "file", naming what is wrong."""
        try:
            data = parse_json(text)
        except ValueError as error:
            raise SpectraError("file", "this is not JSON; give a race that this page downloaded") from error
        return cls._of(data)

    @classmethod
    def _of(cls, data: Any) -> "RaceFile":
        if not RACE.fits(data):
            raise SpectraError("file", "this is no race; give a file that Download trace saved")
        if data.get("version") != RACE.version:
            raise SpectraError(
                "file", f"version {str(data.get('version'))[:20]!r} is not {RACE.version}; record it again"
            )
        lanes = {}
        for lane in ("plain", "method"):
            if lane not in data:
                raise SpectraError("file", f'"{lane}" is missing: that race was stopped early; give a whole one')
            try:
                lanes[lane] = Trace.from_dict(data[lane])
            except SpectraError as error:
                raise SpectraError("file", f"{lane}: {str(error).removeprefix('trace: ')}") from error
            if not lanes[lane].tokens:
                raise SpectraError("file", f"{lane}: it holds no steps; give a whole race")
            if not any(step.seconds for step in lanes[lane].steps):
                raise SpectraError("file", f"{lane}: its steps took no time; give a race that this page downloaded")
            if (nodes := max(len(step.tree) for step in lanes[lane].steps)) > MOST_NODES:
                raise SpectraError("file", f"{lane}: a tree of {nodes} nodes, over {MOST_NODES}; record it again")
            for what, text in (("prompt", lanes[lane].prompt), ("answer", lanes[lane].text)):
                if len(text) > MOST_LETTERS:
                    raise SpectraError("file", f"{lane}: its {what} has over {MOST_LETTERS:,} letters; record another")
            if not METHOD.fullmatch(lanes[lane].method) or lanes[lane].method == "constructor":
                raise SpectraError("file", f"{lane}: {lanes[lane].method[:40]!r} is no method; record it again")
        plain, method = lanes["plain"], lanes["method"]
        if plain.method != PLAIN:
            raise SpectraError("file", f"plain: {plain.method} is not plain decoding; give a race of this page")
        if (plain.prompt, plain.prompt_tokens, plain.model) != (method.prompt, method.prompt_tokens, method.model):
            raise SpectraError("file", "its two answers are not of one model to one prompt; give a race of this page")
        recorded, title = data.get("recorded", ""), data.get("title", "")
        if not (isinstance(recorded, str) and DAY.fullmatch(recorded)):
            raise SpectraError(
                "file", f"recorded: {str(recorded)[:40]!r} is no day such as 2026-11-24; give one or none"
            )
        if not isinstance(title, str):
            raise SpectraError("file", f"title: {str(title)[:40]!r} is no text; give one or none")
        return cls(plain, method, recorded, title.encode(errors="replace").decode()[:120])

    @classmethod
    def read(cls, path: Path) -> "RaceFile":
        """From disk. Raises like `from_json`."""
        try:
            if path.stat().st_size > MAX_BYTES:
                raise SpectraError("file", f"over {MAX_BYTES // 1_000_000} MB; give a race that this page downloaded")
            data = read_json(path, MAX_VALUES)
        except SpectraError:
            raise
        except (OSError, UnicodeDecodeError) as error:
            raise SpectraError("file", "it cannot be read as text; give a race that this page downloaded") from error
        except TooManyError as error:
            raise SpectraError("file", f"{error}; give a race that this page downloaded") from error
        except ValueError as error:
            raise SpectraError("file", "this is not JSON; give a race that this page downloaded") from error
        return cls._of(data)

    def snapshot(self) -> Event:
        """The finished race in one message, as `Run.snapshot` sends it, with a note of what was recorded."""
        lanes = {"plain": trace_events(self.plain), "method": trace_events(self.method)}
        run = secrets.token_hex(6)
        changed = self.changed
        return {
            **delta(run, dict.fromkeys(lanes, 0), lanes, shared=max(map(shared_by, (self.plain, self.method)))),
            "kind": "snapshot",
            "begin": {
                "kind": "begin",
                "run": run,
                "lanes": {"plain": self.plain.method, "method": self.method.method},
                "names": {"plain": short(self.plain.method), "method": named(self.method.method, changed)},
                "cap": len(self.plain.tokens),
                "link": {
                    **{name: self.method.settings[name] for name in RANGES if name in self.method.settings},
                    "prompt": self.plain.prompt,
                    "method": self.method.method,
                    **link_values(changed),
                },
                "recorded": self.note,
            },
            "end": {
                "kind": "end",
                "run": run,
                "state": "done",
                "problem": None,
                "counts": {lane: len(steps) for lane, steps in lanes.items()},
                "figures": figures(self.plain, self.method),
                "words": words({"plain": self.plain, "method": self.method}),
            },
        }

    @property
    def changed(self) -> dict[str, Value]:
        """What was changed about the method."""
        changed = self.method.changed
        try:
            return MethodSettings(**{name: changed[name] for name in FIELDS if name in changed}).changed
        except (SpectraError, TypeError):
            return {}

    @property
    def note(self) -> str:
        """What ran, on what, when, and whether it was stopped. Letters that cannot be printed, such as those that turn
        the direction of what follows, are left out.
        """
        facts = self.method.environment
        place = str(facts.get("processor", ""))
        if str(facts.get("device", "cpu")) == "cpu" and facts.get("threads"):
            threads = "1 thread" if facts["threads"] == 1 else f"{facts['threads']} threads"
            place = f"{threads} of {place}" if place else threads.replace("thread", "CPU thread")
        parts = [self.method.model, place, KINDS.get(str(facts.get("dtype")), ""), self.recorded]
        if not (self.plain.finish and self.method.finish):
            parts.append("stopped before its end")
        shown = ("".join(filter(str.isprintable, part))[:LONGEST_FACT] for part in parts)
        return ", ".join(filter(None, shown))


def race_dict(traces: Mapping[str, Trace]) -> dict[str, Any]:
    """Both answers of a race, as a file holds them; a race that was stopped may lack one."""
    lanes = {lane: trace.to_dict() for lane, trace in traces.items()}
    return RACE._asdict() | {"recorded": date.today().isoformat(), **lanes}


def shipped(folder: Path) -> dict[str, Path]:
    """Races that come with the page: name -> file. A folder that is not there holds none."""
    return {path.stem: path for path in sorted(folder.glob("*.json"))}
