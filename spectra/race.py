"""`python -m spectra race`: plain decoding and a method answer one prompt, written as a file that the page replays."""

import argparse
import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

from spectra.errors import SpectraError
from spectra.methods import METHODS
from spectra.metrics import first_difference, speedup, summarize
from spectra.record import Recording
from spectra.settings import Limits, Sampling
from spectra.trace import Trace, check_writable, write_text

FORMAT = "spectra-race"
VERSION = 1
WARM_UP = 8
RUNS = 3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own arguments; `add_model_arguments` has the others."""
    parser.add_argument("prompt", metavar="PROMPT", nargs="?", help="left out with --again")
    parser.add_argument("--out", type=Path, metavar="FILE", help="where to write the race")
    parser.add_argument("--again", type=Path, metavar="FILE", nargs="+", help="record these races anew, in place")
    parser.add_argument("--title", default="", help="a few words that name the race on the page")
    parser.add_argument("--method", default="spectra", help="a preset (default: spectra; see `methods`)")
    parser.add_argument("--max-new-tokens", type=int, default=192)
    parser.add_argument("--temperature", type=float, default=0.0, help="0 is greedy (default)")
    parser.add_argument("--seed", type=int, default=7)


def wanted(chosen: argparse.Namespace) -> list[tuple[Path, dict[str, Any]]]:
    """(file, what to record into it), from the arguments or from the files to record anew. Raises SpectraError."""
    if chosen.again:
        return [(path, _asked(path)) for path in chosen.again]
    if not (chosen.prompt or "").strip():
        raise SpectraError("prompt", "it is blank; give a prompt, or files with --again")
    if chosen.out is None:
        raise SpectraError("out", "it is missing; say which file to write")
    if chosen.method not in METHODS:
        raise SpectraError("method", f"{chosen.method!r} is unknown; choose one of {', '.join(METHODS)}")
    Limits(chosen.max_new_tokens)
    Sampling(chosen.temperature, seed=chosen.seed)
    check_writable(chosen.out, "out")
    keys = ("title", "prompt", "method", "max_new_tokens", "temperature", "seed")
    return [(chosen.out, {key: getattr(chosen, key) for key in keys})]


def _asked(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        trace = Trace.from_dict(data["method"])
        kept = {key: trace.settings[key] for key in ("max_new_tokens", "temperature", "seed")}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise SpectraError("again", f"{path} is no race ({type(error).__name__}); give files of --out") from error
    return {"title": str(data.get("title", "")), "prompt": trace.prompt, "method": trace.method, **kept}


def run_race(chosen: argparse.Namespace, target: Any) -> list[str]:
    """Record every wanted race on `target` and write it; one line of figures each."""
    lines = []
    for path, asked in wanted(chosen):
        race = record_race(target, asked)
        write_text(path, json.dumps(race, ensure_ascii=False, separators=(",", ":")) + "\n", "out")
        plain, method = (Trace.from_dict(race[lane]) for lane in ("plain", "method"))
        base, ours = summarize(plain.steps), summarize(method.steps)
        same = "identical" if first_difference(plain.tokens, method.tokens) is None else "NOT identical"
        same = "another draw" if method.settings["drawn"] else same
        lines.append(f"{path}: {speedup(base, ours):.2f}x, tau {ours.tau:.2f}, {ours.tokens} tokens, {same}")
    return lines


def record_race(target: Any, asked: dict[str, Any]) -> dict[str, Any]:
    """Both answers as data, decoded `RUNS` times in turns after a short warm-up; each step keeps its fastest time.

    Every run takes the same steps: what differs is how much else the machine had to do.
    """
    sampling = Sampling(asked["temperature"], seed=asked["seed"])
    raw = not getattr(target.tokenizer, "chat_template", None)

    def answer(method: str, tokens: int) -> Trace:
        recording = Recording(
            target, asked["prompt"], method, sampling=sampling, max_new_tokens=tokens, raw=raw
        )  # fmt: skip
        for _ in recording:
            pass
        return recording.trace

    methods = {"plain": "autoregressive", "method": asked["method"]}
    for method in methods.values():
        answer(method, WARM_UP)
    turns = [{lane: answer(method, asked["max_new_tokens"]) for lane, method in methods.items()} for _ in range(RUNS)]
    lanes = {lane: undisturbed([turn[lane] for turn in turns]) for lane in methods}
    race = {"format": FORMAT, "version": VERSION, "recorded": date.today().isoformat(), "title": asked["title"]}
    return race | {lane: slim(trace).to_dict() for lane, trace in lanes.items()}


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
