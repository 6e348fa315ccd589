"""`python -m spectra.bench record` and `replay`: tune drafters in seconds, on any device's T(q), without a model.

A recording is a JSON header line (model, tokenizer, end-of-sequence ids, T(q) of the device) and a line an answer.
"""

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spectra.bench.answer import turn_ids
from spectra.bench.costs import add_cost_argument, cost_of, read_cost
from spectra.bench.progress import Progress
from spectra.bench.replay import Recorded, ReplayTarget
from spectra.bench.tasks import load_prompts
from spectra.bench.values import known, names
from spectra.budget import FixedBudget
from spectra.cli import number, quiet_target
from spectra.datastore.card import tokenizer_sha256
from spectra.datastore.shipped import stores_for
from spectra.decode import decode
from spectra.drafted import DRAFTED
from spectra.drafters.protocol import Outcome
from spectra.errors import SpectraError
from spectra.methods import METHODS, make_method
from spectra.preset import Method
from spectra.settings import Limits
from spectra.target.protocol import StepCost
from spectra.trace import check_writable, write_text
from spectra.tree import ROOT, TokenTree

FORMAT, VERSION = "spectra-recording", 1
TOP = 8


@dataclass(frozen=True, slots=True)
class Header:
    """What a recording says of its model. cost: T(q) of the device."""

    model: str
    tokenizer_sha256: str
    eos: frozenset[int]
    cost: StepCost


class Listener:
    """A drafter that guesses nothing and writes down what the model found likely at each step."""

    def __init__(self) -> None:
        self.top: list[Sequence[int]] = []

    def begin(self, prompt: Sequence[int]) -> None:
        """Nothing to prepare."""

    def grow(self, tree: TokenTree, tokens: Sequence[int]) -> None:
        """No guesses."""

    def observe(self, tokens: Sequence[int], outcome: Outcome) -> None:
        self.top.append(outcome.top[ROOT])


def run_record(chosen: argparse.Namespace) -> int:
    """The subcommand `record`: plain greedy answers to the first turn of each prompt that fits the context."""
    check_writable(chosen.out, "out")
    limits = Limits(chosen.max_new_tokens)
    prompts = load_prompts(chosen.tasks, chosen.data, chosen.limit)
    target = quiet_target(chosen)
    header = {
        "format": FORMAT, "version": VERSION, "facts": dict(target.facts), "eos": sorted(target.eos),
        "tokenizer_sha256": tokenizer_sha256(target.tokenizer), "cost": target.cost.table,
    }  # fmt: skip
    lines, progress = [json.dumps(header)], Progress(len(prompts))
    for prompt in prompts:
        ids, listener = turn_ids(target.tokenizer, prompt, []), Listener()
        method = Method("record", [listener], FixedBudget(0), 0, TOP)
        try:
            steps = list(decode(target, ids, method, limits=Limits(limits.max_new_tokens, target.eos)))
            answer = [token for step in steps for token in step.tokens]
            row = {"task": prompt.task, "id": prompt.id, "prompt": ids, "answer": answer, "top": listener.top}
            lines.append(json.dumps(row))
        except SpectraError as error:
            progress.leave_out(prompt, error)
        progress.step(ran=True)
    write_text(chosen.out, "\n".join(lines) + "\n", "out")
    return 0


def run_replay(chosen: argparse.Namespace) -> int:
    """The subcommand `replay`: tau, queries a step, drafting time, and the speedup that T(q) predicts."""
    methods = known("methods", chosen.methods, METHODS)
    for method in methods:
        if method in DRAFTED:
            raise SpectraError("methods", f"{method} drafts with a model and a recording has none; leave it out")
    header, answers = read_recording(chosen.recording)
    cost = read_cost(chosen.cost) if chosen.cost else header.cost
    stores = stores_for(header.tokenizer_sha256, chosen.datastore, model=header.model)
    target = ReplayTarget(cost, header.eos, name=header.model, stores=stores)
    for method in methods:
        make_method(method, target, nodes=chosen.nodes)  # one that lacks its datastore says so before the table
    print("| method | tau | queries a step | drafting, us a step | predicted speedup |\n|---|---:|---:|---:|---:|")
    for method in methods:
        print(row(method, target, answers, chosen.nodes))
    return 0


def row(method: str, target: ReplayTarget, answers: list[Recorded], nodes: int | None) -> str:
    """A Markdown row over all answers."""
    tokens = steps = queries = 0
    seconds = drafting = 0.0
    for answer in answers:
        target.recorded = answer
        began = time.perf_counter()
        for step in decode(target, answer.prompt, method, limits=Limits(len(answer.answer)), nodes=nodes):
            tokens += len(step.tokens)
            steps += 1
            drafting -= step.parts["forward"]
        drafting += time.perf_counter() - began
        assert target.session is not None
        seconds += target.session.seconds
        queries += target.session.queries
    return (
        f"| {method} | {tokens / steps:.2f} | {queries / steps:.1f} | {drafting / steps * 1e6:.0f} "
        f"| {tokens * target.cost.seconds(1) / (seconds + drafting):.2f} |"
    )


def read_recording(path: Path) -> tuple[Header, list[Recorded]]:
    """(header, answers). Raises SpectraError naming the line that is wrong."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise SpectraError("recording", f"{path} cannot be read ({error}); name a file that `record` wrote") from error
    number = 0
    try:
        header, answers = _header(json.loads(lines[0])), []
        for line in lines[1:]:
            number += 1
            answers.append(_answer(json.loads(line)))
    except (ValueError, KeyError, TypeError, IndexError, OverflowError) as error:
        raise SpectraError("recording", f"{path} line {number + 1} is not a recording's ({error!r})") from error
    if not answers:
        raise SpectraError("recording", f"{path} holds no answer; record some")
    return header, answers


def _header(data: Any) -> Header:
    if (data["format"], data["version"]) != (FORMAT, VERSION):
        raise ValueError(f"no {FORMAT} of version {VERSION}")
    return Header(
        str(data["facts"]["model"]), str(data["tokenizer_sha256"]), frozenset(map(int, data["eos"])),
        cost_of(data["cost"]),
    )  # fmt: skip


def _answer(data: Any) -> Recorded:
    prompt, answer, *top = (tuple(map(int, ids)) for ids in (data["prompt"], data["answer"], *data["top"]))
    if not prompt or not answer:
        raise ValueError("a blank prompt or answer")
    return Recorded(data["task"], data["id"], prompt, answer, tuple(top))


def add_replay_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of `replay`."""
    parser.add_argument("recording", type=Path, metavar="FILE", help="what `record` wrote")
    parser.add_argument(
        "--methods", type=names, default=["spectra", "spectra-core"], help="presets, commas between them"
    )
    add_cost_argument(parser)
    parser.add_argument("--datastore", action="append", default=[], metavar="PATH", help="retrieve from this store too")
    parser.add_argument("--nodes", type=number(int), help="the most guessed tokens a step (default: the method's)")
