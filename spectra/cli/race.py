"""`python -m spectra race`: plain decoding and a method answer one prompt, written as a file that the page replays."""

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import date
from pathlib import Path
from typing import Any

from spectra.cli.arguments import EXPLAIN_HELP, METHOD_HELP, MODEL_HELP, Parser, add_options
from spectra.errors import SpectraError
from spectra.io.file_kinds import RACE
from spectra.io.files import check_writable, write_text
from spectra.io.json_text import read_json
from spectra.methods.presets import PLAIN, check_method
from spectra.metrics import first_difference, speedup, summarize
from spectra.service.loading import LoadedModel, ModelOptions
from spectra.service.recording import record
from spectra.settings import Limits, MethodSettings, Sampling, check_unicode
from spectra.trace import Trace

WARM_UP = 8
RUNS = 3
HELP = {
    **MODEL_HELP,
    **METHOD_HELP,
    "explain": EXPLAIN_HELP,
    "max_new_tokens": "tokens at which both answers are cut",
    "method": "the preset that runs against plain decoding, see `methods`",
    "out": "the file to write",
    "seed": "of the draws above temperature 0",
    "temperature": "0 is greedy",
    "prompt": "left out with --again",
    "title": "a few words that name the race on the page",
}


@dataclass(frozen=True, slots=True)
class Race:
    """What is decoded twice, by plain decoding and by `method`."""

    prompt: str = ""
    title: str = ""
    method: str = "spectra"
    max_new_tokens: int = 192
    temperature: float = 0.0
    seed: int = 7
    explain: bool = False
    settings: MethodSettings = field(default_factory=MethodSettings)

    @property
    def sampling(self) -> Sampling:
        return Sampling(self.temperature, seed=self.seed)

    def check(self) -> None:
        """Raise SpectraError for what is wrong with it."""
        if not self.prompt.strip():
            raise SpectraError("prompt", "it is blank; give a prompt, or files with --again")
        check_unicode("prompt", self.prompt)
        check_unicode("title", self.title)
        check_method(self.method, self.settings)
        Limits(self.max_new_tokens)
        _ = self.sampling  # refuses what it cannot be


@dataclass(frozen=True, slots=True)
class RaceOptions:
    """A race to write to the file `out`, or files to record anew, in place (`again`)."""

    model: ModelOptions
    race: Race
    out: Path | None = None
    again: tuple[Path, ...] = ()

    def races(self) -> dict[Path, Race]:
        """What to record into which file. Raises SpectraError for what is wrong with it."""
        if self.again:
            self.check_alone()
            races = {path: _read_race(path) for path in self.again}
            for path in races:
                check_writable(path, "again")
            return races
        self.race.check()
        if self.out is None:
            raise SpectraError("out", "it is missing; say which file to write")
        check_writable(self.out, "out")
        return {self.out: self.race}

    def check_alone(self) -> None:
        """Raise SpectraError for an option beside --again, whose files say it: it would be passed over."""
        usual = Race()
        names = [one.name for one in fields(Race) if one.name != "settings"]
        given = [name for name in names if getattr(self.race, name) != getattr(usual, name)]
        if self.out is not None:
            given.append("out")
        given += self.race.settings.changed
        if given:
            raise SpectraError(given[0], "the files of --again say it; leave one of them out")


def add_race_options(parser: Parser) -> None:
    """The options of `race`; the files of --again follow it all together."""
    add_options(parser, RaceOptions, HELP, positional=("prompt",), without=("again",))
    parser.add_argument(
        "--again", type=Path, nargs="+", default=[], metavar="PATH", help="record these races anew, in place"
    )


def _read_race(path: Path) -> Race:
    try:
        data = read_json(path)
        trace = Trace.from_dict(data["method"])
        settings = {name: trace.settings[name] for name in ("max_new_tokens", "temperature", "seed")}
        settings["explain"] = any(step.inside for step in trace.steps)
        settings["settings"] = MethodSettings(**trace.changed)
    except OSError as error:
        raise SpectraError("again", f"cannot read {path} ({error.strerror or error}); give files of --out") from error
    except (ValueError, KeyError, TypeError) as error:
        raise SpectraError("again", f"{path} is no race ({type(error).__name__}); give files of --out") from error
    return Race(trace.prompt, str(data.get("title", "")), trace.method, **settings)


def run_race(options: RaceOptions) -> int:
    """The subcommand `race`: record every wanted race and write it; one line of figures each, on stderr."""
    races = options.races()  # what is wrong is found before a model is loaded
    model = options.model.load()
    for path, race in races.items():
        recorded = record_race(model, race)
        options.model.tell_unasked(race.method, race.settings)
        write_text(path, json.dumps(recorded, ensure_ascii=False, separators=(",", ":")) + "\n", "out")
        plain = Trace.from_dict(recorded["plain"])
        method = Trace.from_dict(recorded["method"])
        base = summarize(plain.steps)
        ours = summarize(method.steps)
        same = "identical" if first_difference(plain.tokens, method.tokens) is None else "NOT identical"
        same = "another draw" if method.settings["drawn"] else same
        print(f"{path}: {speedup(base, ours):.2f}x, tau {ours.tau:.2f}, {ours.tokens} tokens, {same}", file=sys.stderr)
    return 0


def record_race(model: LoadedModel, race: Race) -> dict[str, Any]:
    """Both answers as data, decoded `RUNS` times in turns after a short warm-up; each step keeps its fastest time.

    Every run takes the same steps: what differs is how much else the machine had to do. So no run joins a memory.
    """
    raw = not getattr(model.target.tokenizer, "chat_template", None)

    def answer(method: str, tokens: int) -> Trace:
        recording = record(
            model.target, model.resources.rehearsing(), race.prompt, method,
            sampling=race.sampling, max_new_tokens=tokens, raw=raw, explain=race.explain,
            settings=race.settings if method != PLAIN else None,
        )  # fmt: skip
        for _ in recording:
            pass
        return recording.trace

    methods = {"plain": PLAIN, "method": race.method}
    for method in methods.values():
        answer(method, WARM_UP)
    turns = [{lane: answer(method, race.max_new_tokens) for lane, method in methods.items()} for _ in range(RUNS)]
    lanes = {lane: undisturbed([turn[lane] for turn in turns]) for lane in methods}
    data = RACE._asdict() | {"recorded": date.today().isoformat(), "title": race.title}
    return data | {lane: slim(trace).to_dict() for lane, trace in lanes.items()}


def undisturbed(runs: Sequence[Trace]) -> Trace:
    """The first run, every step as fast as in any. Raises SpectraError where they took other steps."""
    first = runs[0]
    if any([step.tokens for step in run.steps] != [step.tokens for step in first.steps] for run in runs):
        raise SpectraError("method", f"{first.method} took other steps when it was run again; it cannot be recorded")
    steps = [min(same, key=lambda step: step.seconds) for same in zip(*(run.steps for run in runs), strict=True)]
    prefill = min(run.steps[0].prefill_seconds for run in runs)
    return replace(first, steps=[replace(steps[0], prefill_seconds=prefill), *steps[1:]])


def slim(trace: Trace) -> Trace:
    """The same trace with times in whole microseconds: half the file."""
    steps = [
        replace(
            step,
            seconds=round(step.seconds, 6),
            prefill_seconds=round(step.prefill_seconds, 6),
            parts={name: round(seconds, 6) for name, seconds in step.parts.items()},
        )
        for step in trace.steps
    ]
    return replace(trace, steps=steps)
