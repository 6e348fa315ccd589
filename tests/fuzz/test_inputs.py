"""Files that commands are given, with any part changed: read, or refused in one short line that names the field."""

import json
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from damage import changed, flip, is_one_short_line, places, values
from hypothesis import example, given
from hypothesis import strategies as st

from spectra.bench.paper.figures import read_figures
from spectra.bench.replay import FORMAT, VERSION, read_recording
from spectra.bench.run.rows import claim, read_rows
from spectra.bench.steps import read_cost
from spectra.bench.tasks import TASKS, load_prompts
from spectra.bench.weights import read_text
from spectra.budget import weights
from spectra.cli.race import Race, RaceOptions
from spectra.datastore.build.corpus import Corpus
from spectra.datastore.build.selftext import read_questions
from spectra.datastore.memory import open_memory
from spectra.datastore.sources import read_hashes
from spectra.datastore.store import Store
from spectra.errors import SpectraError
from spectra.io.bounded import MAX_BYTES
from spectra.service.loading import ModelOptions, check_draft, check_holds_model
from spectra.target.execution_plan import ExecutionPlan
from spectra.target.facts import recall_plan, remember_plan
from spectra.target.gguf_header import read_header
from spectra.target.placement import Placement
from spectra.train.files import facts_of
from visual.run.race_file import RaceFile

COST = [[1, 0.01], [8, 0.02]]
HEADER = {
    "format": FORMAT, "version": VERSION, "facts": {"model": "tiny"}, "tokenizer_sha256": "0", "eos": [2],
    "cost": COST, "temperature": 0, "seed": 0, "vocabulary": 97,
}  # fmt: skip
ANSWER = {"task": "mbpp", "id": "a", "prompt": [1, 2], "answer": [3, 4], "top": [[3], [4]]}
FIGURES = {
    "format": "spectra-paper-figures", "version": 1, "source": "a paper", "stated": ["fast"],
    "models": {"m": {"mbpp": {"spectra": {"tau": 2.0}}}},
}  # fmt: skip
ESTIMATES = {
    "format": weights.FORMAT, "version": weights.VERSION, "drawn": 0.5, "luck": 0.1, "features": {"backward/2": 0.3},
}  # fmt: skip
QUESTION = {"question_id": 1, "category": "writing", "turns": ["Write.", "Again."], "reference": []}


class Input(NamedTuple):
    """lines: what the file holds, one JSON value a line. read: of its path. field: what a refusal names."""

    name: str
    lines: list[Any]
    read: Callable[[Path], object]
    field: str


INPUTS = {
    "cost": Input("cost.json", [COST], read_cost, "cost"),
    "estimates": Input("fitted.json", [ESTIMATES], weights.read_weights, "estimates"),
    "recording": Input("answers.jsonl", [HEADER, ANSWER], read_recording, "recording"),
    "rows": Input("rows.jsonl", [{"task": "a", "id": "b"}] * 2, lambda p: read_rows(p, "out", ("task", "id")), "out"),
    "settings": Input("settings.json", [{"nodes": 4}], lambda p: claim(p.parent, {"nodes": 4}), "out"),
    "figures": Input("figures.json", [FIGURES], lambda p: read_figures(p, TASKS), "figures"),
    "device map": Input("map.json", [{"model": 0, "head": "cpu"}], lambda p: Placement(str(p)), "device_map"),
    "task": Input("mt_bench_question.jsonl", [QUESTION], lambda p: load_prompts(["mt-bench"], p.parent), "data"),
}
KINDS = st.sampled_from(sorted(INPUTS))


def reads_or_refuses(one: Input, folder: Path, content: bytes, *, refused: bool = False) -> None:
    file = folder / one.name
    file.write_bytes(content)
    try:
        one.read(file)
    except SpectraError as error:
        fields = (one.field, "offload_folder") if one.field == "device_map" else (one.field,)
        assert error.field in fields and is_one_short_line(error), repr(error)
    else:
        assert not refused


def as_lines(lines: list[Any]) -> bytes:
    return "".join(json.dumps(line) + "\n" for line in lines).encode()


@pytest.mark.parametrize("kind", INPUTS)
def test_as_they_are(kind: str, tmp_path: Path) -> None:
    one = INPUTS[kind]
    file = tmp_path / one.name
    file.write_bytes(as_lines(one.lines))
    one.read(file)


@pytest.mark.parametrize("kind", INPUTS)
@pytest.mark.parametrize(
    "content", [b"[" * 100_000, b"\xff\xfe", b"1" * 5000, b"nan\n"], ids=["deep", "no text", "long", "nan"]
)
def test_what_is_no_file_of_that_kind(kind: str, content: bytes, tmp_path: Path) -> None:
    reads_or_refuses(INPUTS[kind], tmp_path, content + b"\n", refused=True)


READ = INPUTS | {
    "text": Input("text.txt", [], read_text, "text"),
    "hashes": Input("hashes.txt", [], read_hashes, "exclude"),
    "prompts": Input("prompts.jsonl", [], lambda p: read_questions(p, [0.0]), "prompts"),
    "task, one list": Input("ClassEval_data.json", [], lambda p: load_prompts(["classeval"], p.parent), "data"),
}


@pytest.mark.parametrize("kind", READ)
def test_a_file_over_the_bound_is_refused(kind: str, tmp_path: Path) -> None:
    one = READ[kind]
    file = tmp_path / one.name
    with file.open("wb") as whole:
        whole.truncate(MAX_BYTES + 1)
    with pytest.raises(SpectraError, match=f"{file.name}.* is over 100 MB" if kind != "cost" else file.name) as refusal:
        one.read(file)
    assert refusal.value.field == one.field


def read_again(file: Path) -> object:
    return RaceOptions(ModelOptions(), Race(""), again=(file,)).races()


OPENED = READ | {
    "race": Input("race.json", [], RaceFile.read, "file"),
    "race to record again": Input(
        "race.json", [], lambda p: RaceOptions(ModelOptions(), Race(""), again=(p,)).races(), "again"
    ),
    "store": Input("card.json", [], lambda p: Store.open(p.parent), "datastore"),
    "draft model": Input("config.json", [], lambda p: check_draft(p.parent), "draft"),
    "model": Input("config.json", [], lambda p: check_holds_model(p.parent), "model"),
    "GGUF": Input("a.gguf", [], read_header, "model"),
    "corpus": Input("a.jsonl", [], lambda p: list(Corpus([str(p)])), "corpus"),
    "packed corpus": Input("a.jsonl.gz", [], lambda p: list(Corpus([str(p)])), "corpus"),
    "conversations": Input("a.jsonl", [], lambda p: facts_of("data", [p]), "data"),
    "packed task": Input("HumanEval.jsonl.gz", [], lambda p: load_prompts(["humaneval"], p.parent), "data"),
}


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to("/dev/zero")], ids=["pipe", "device"])
@pytest.mark.parametrize("kind", OPENED)
def test_what_is_no_regular_file_is_refused_at_once(kind: str, make: Callable[[Path], object], tmp_path: Path) -> None:
    one = OPENED[kind]
    file = tmp_path / one.name
    make(file)
    writer = threading.Timer(20, lambda: os.close(os.open(file, os.O_RDWR)))  # ends the wait of one that waits
    writer.daemon = True
    writer.start()
    begun = time.monotonic()
    with pytest.raises(SpectraError) as refusal:
        one.read(file)
    writer.cancel()
    assert time.monotonic() - begun < 10
    assert refusal.value.field == one.field and is_one_short_line(refusal.value)


@given(KINDS, st.integers(0, 10**6), values)
@example("cost", 1, [])
@example("recording", 3, {})
def test_a_changed_part(tmp_path: Path, kind: str, number: int, value: Any) -> None:
    one = INPUTS[kind]
    every = places(one.lines)
    lines = changed(one.lines, every[number % len(every)], value)
    reads_or_refuses(one, tmp_path, as_lines(lines if isinstance(lines, list) else [lines]))


@given(KINDS, st.integers(0, 10**6), st.binary(max_size=6), st.integers(0, 6))
def test_changed_bytes(tmp_path: Path, kind: str, at: int, put: bytes, out: int) -> None:
    one = INPUTS[kind]
    whole = as_lines(one.lines)
    at %= len(whole)
    reads_or_refuses(one, tmp_path, whole[:at] + put + whole[at + out :])


@given(st.binary(max_size=300), st.integers(0, 300))
def test_a_file_of_remembered_answers(tmp_path: Path, content: bytes, at: int) -> None:
    """One that holds no token ids is left out, and the memory opens."""
    folder = tmp_path / "memory"
    place = open_memory(folder, "0" * 64, "tiny").folder
    np.save(place / "1-a.npy", np.arange(20, dtype=np.uint32))
    whole = (place / "1-a.npy").read_bytes()
    (place / "2-b.npy").write_bytes(whole[:at] + content + whole[at + len(content) :])
    assert len(open_memory(folder, "0" * 64, "tiny")) >= 20


def test_a_damaged_plan_is_measured_again(tmp_path: Path) -> None:
    """One flipped byte made exact steps fast ones, for good and without a word."""
    plan = ExecutionPlan("exact", "eager", 64, (1, 8), note="é")
    file = tmp_path / "plans" / "plan.json"
    remember_plan(file, plan)
    whole = file.read_bytes()
    assert recall_plan(file) == plan
    for at in range(len(whole)):
        for mask in (1, 32):
            file.write_bytes(whole)
            flip(file, at, mask)
            assert recall_plan(file) in (None, plan), whole[: at + 1]
        file.write_bytes(whole[:at])
        assert recall_plan(file) in (None, plan)
    for other in (b"[]", b"{}", b'{"plan": 1, "sha256": 2}', b"[" * 9000, b"\xff"):
        file.write_bytes(other)
        assert recall_plan(file) is None
