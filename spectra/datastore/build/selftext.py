"""The model's own answers to prompts, the best corpus for a store that is to draft for it. Batched, resumable.

Batches are formed from the prompts alone, each is seeded by its number and written at once, so that a stopped run goes
on to the same file. Who answers is handed in: stock `generate` with left padding for the command.
"""

import json
import os
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate, chain
from pathlib import Path
from types import MappingProxyType
from typing import Any

from spectra.datastore.build.readers import UNREADABLE, encodable, json_rows, prompt_of, reason
from spectra.datastore.build.seed_prompts import SEED_PROMPTS
from spectra.errors import SpectraError
from spectra.io.files import check_writable
from spectra.io.json_text import parse_json
from spectra.io.locks import take_lock
from spectra.io.workdir import append
from spectra.settings import check_number


@dataclass(frozen=True, slots=True)
class Question:
    """What the model is asked, and how it draws its answer."""

    source: str
    user: str
    temperature: float


Row = dict[str, Any]
"""What is written of an answer: source, user, assistant, temperature, finished (its end is the model's own).

The command adds what else the answers depend on: model, seed, max_new_tokens.
"""
Answering = Callable[[Sequence[Question], int], list[Row]]
"""Answers a batch of one temperature by a seed."""


@dataclass(frozen=True, slots=True)
class Writing:
    """How answers are written. batch: prompts answered together."""

    max_new_tokens: int = 256
    temperatures: tuple[float, ...] = (0.0, 0.7)
    batch: int = 8
    seed: int = 0

    def __post_init__(self) -> None:
        check_number("max-new-tokens", self.max_new_tokens, 1, 2**20, whole=True)
        check_number("batch", self.batch, 1, 4096, whole=True)
        check_number("seed", self.seed, 0, 2**63 - 1, whole=True)
        if not self.temperatures:
            raise SpectraError("temperatures", "there is none; give for example 0,0.7")
        for temperature in self.temperatures:
            check_number("temperatures", temperature, 0, 100)


def read_questions(file: Path, temperatures: Sequence[float]) -> list[Question]:
    """Each prompt of a jsonl file at each temperature, prompts of like length together.

    Raises SpectraError naming the line that holds no prompt.
    """
    prompts: dict[str, str] = {}
    try:
        for place, data in json_rows(file):
            prompt = prompt_of(data) if isinstance(data, dict) else None
            if prompt is None or not prompt.strip():
                raise SpectraError("prompts", f"{place} holds no prompt; give rows with a user field")
            prompts.setdefault(prompt, encodable(str(data.get("source", ""))))
    except UNREADABLE as error:
        raise SpectraError(
            "prompts", f"{file} cannot be read ({reason(error)}); give jsonl rows with a user field"
        ) from error
    if not prompts:
        raise SpectraError("prompts", f"{file} is empty; give rows with a user field")
    return _ranked(prompts, temperatures)


def own_questions(temperatures: Sequence[float]) -> list[Question]:
    """The same of the prompts that come with the project."""
    return _ranked(dict.fromkeys(SEED_PROMPTS, ""), temperatures)


def _ranked(prompts: Mapping[str, str], temperatures: Sequence[float]) -> list[Question]:
    """prompts: each with its source."""
    ranked = sorted(prompts, key=lambda prompt: (len(prompt), prompt))
    return [Question(prompts[prompt], prompt, t) for t in temperatures for prompt in ranked]


def check_out(out: Path) -> None:
    """Raise SpectraError unless answers can be added to the file: those that are there are read first."""
    check_writable(out, "out")
    if out.exists() and not out.is_file():
        raise SpectraError("out", f"{out} is no regular file, so answers cannot be added to it; name another")


@contextmanager
def held(out: Path) -> Iterator[None]:
    """Hold the file that answers are written to, which is made if need be, for one process.

    Raises SpectraError for "out" while another process holds it, and where the disk refuses, which loses no answer.
    """
    try:
        with out.open("ab") as file:
            take_lock(file, f"{out} is being written by another process; wait for it")
            yield
    except OSError as error:
        raise SpectraError(
            "out",
            f"cannot write {out} ({error.strerror or error}); free some space or make it writable: the answers so far "
            "are kept, and the same command goes on",
        ) from error


def write_answers(
    answering: Answering,
    questions: Sequence[Question],
    out: Path,
    writing: Writing,
    progress: Callable[[int], object],
    facts: Mapping[str, Any] = MappingProxyType({}),
) -> None:
    """Answer the questions that `out` does not answer yet, a batch at a time.

    progress: is called with how many more are done. facts: goes into every row; answers with other ones are not gone
    on with. What `answering` raises ends the work; `out` keeps the batches before.
    """
    batches = list(_batches(questions, writing.batch))
    done = _resume(out, batches, facts)
    progress(sum(map(len, batches[:done])))
    for number, batch in enumerate(batches[done:], done):
        rows = answering(batch, writing.seed + number)
        append(out, "".join(json.dumps({**row, **facts}, ensure_ascii=False) + "\n" for row in rows).encode())
        progress(len(batch))


def _batches(questions: Sequence[Question], size: int) -> Iterator[Sequence[Question]]:
    """Neighbours of one temperature."""
    start = 0
    for i in range(1, len(questions) + 1):
        if i == len(questions) or i - start == size or questions[i].temperature != questions[start].temperature:
            yield questions[start:i]
            start = i


def _read(row: bytes) -> Row:
    """Empty for what is no answer."""
    try:
        found = parse_json(row)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _resume(out: Path, batches: Sequence[Sequence[Question]], facts: Mapping[str, Any]) -> int:
    """How many batches `out` answers; a batch that is there in part is cut off.

    Raises SpectraError where the file holds anything but answers to the first questions, or of other facts as far as
    it tells them, and leaves it as it is.
    """
    if not out.exists():
        return 0
    *rows, torn = out.read_bytes().split(b"\n")
    questions = list(chain.from_iterable(batches))
    asked = [(one.user, one.temperature) for one in questions]
    answers = [_read(row) for row in rows]
    answered = [(row.get("user"), row.get("temperature")) for row in answers]
    torn_elsewhere = torn and (answered == asked or not (answered or _opens(torn, questions[0])))
    if answered != asked[: len(rows)] or torn_elsewhere:
        raise SpectraError("out", f"{out} answers other prompts; choose another file or remove it")
    if others := [name for name in facts if any(row.get(name, facts[name]) != facts[name] for row in answers)]:
        other = others[0].replace("_", "-")
        raise SpectraError("out", f"{out} was written with another {other}; repeat that, or choose another file")
    ends = [0, *accumulate(map(len, batches))]
    done = bisect_right(ends, len(rows)) - 1
    os.truncate(out, sum(len(row) + 1 for row in rows[: ends[done]]))
    return done


def _opens(torn: bytes, question: Question) -> bool:
    """Whether a row that answers the question may begin so."""
    opening = json.dumps({"source": question.source, "user": question.user}, ensure_ascii=False)[:-1].encode()
    return opening.startswith(torn) or torn.startswith(opening)
