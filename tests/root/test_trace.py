"""Traces: any run survives JSON, and whatever is no trace is refused with one line."""

import json
import os
import random
from dataclasses import replace

import pytest
from drafting import KINDS, Scripted, decode_by, method_of, random_tree
from tiny import COST, VOCABULARY, model_of, target_of

from spectra import FixedBudget, Guess, Limits, Method, Sampling
from spectra.errors import SpectraError
from spectra.guess import Source
from spectra.io.files import check_writable, write_text
from spectra.methods.presets import make_method
from spectra.trace import StepTrace, Trace, TreeTrace


def recorded(seed=0):
    dice = random.Random(seed)
    target = target_of(model_of("llama"))
    prompt = [dice.randrange(VOCABULARY) for _ in range(5)]
    truth = [t for s in decode_by(target, prompt, "autoregressive", limits=Limits(20)) for t in s.tokens]
    drafter = Scripted(dice.choice(KINDS), truth, 5, vocabulary=VOCABULARY, seed=seed)
    method = method_of([drafter], 64, dice.choice((None, COST)))
    steps = list(decode_by(target, prompt, method, sampling=Sampling(), limits=Limits(20)))
    text = dice.choice(('a "quoted"\n\\ line', "naïve 漢字 🙂", "</script>\u2028\x00"))
    pieces = [(1, text), (2, ""), (len(truth) - 3, "end")]
    return Trace("m", "tiny", text, tuple(prompt), {"seed": 1}, {"a": None}, steps, pieces, {3: text, 50: ""})


@pytest.mark.parametrize("seed", range(12))
def test_json_round_trip(seed):
    trace = recorded(seed)
    again = Trace.from_json(trace.to_json())
    assert again == trace
    assert again.to_json() == trace.to_json()
    assert (again.tokens, again.sources, again.text, again.finish) == (
        trace.tokens,
        trace.sources,
        trace.text,
        "length",
    )


def test_what_a_trace_says_of_itself():
    data = json.loads(recorded().to_json())
    assert (data["format"], data["version"]) == ("spectra-trace", 1)


def test_steps_are_consistent():
    for seed in range(12):
        for index, step in enumerate(recorded(seed).steps):
            assert step.index == index
            assert len(step.sources) == len(step.tokens)
            assert [step.tree.tokens[n] for n in step.path] == list(step.tokens[: len(step.path)])
            assert list(step.picks[: len(step.tokens)]) == list(step.tokens)
            assert (step.prefill_seconds > 0) == (index == 0)
            assert abs(sum(step.parts.values()) - step.seconds) < 1e-9
            assert set(step.parts) == {"draft", "forward", "verify", "keep"}


def forward(core):
    return sum(map(len, core.forward.lists.values()))


SIZES = {
    "spectra-core": lambda core: {"forward": forward(core), "backward": len(core.backward.entries)},
    "spectra-paper-core-no-backward": lambda core: {"forward": forward(core)},
    "anpd": lambda anpd: {"ngram": len(anpd._best)},
    "lookahead": lambda lookahead: {"ngram": sum(map(len, lookahead.pool.lists.values()))},
    "prompt-lookup": lambda lookup: {},
}


@pytest.mark.parametrize("name", SIZES)
def test_a_step_tells_how_many_ngrams_it_was_drafted_from(name):
    """Asked of the drafter after the step before."""
    target = target_of(model_of("llama"))
    method = make_method(name, target, sampling=Sampling())
    expected = []
    for step in decode_by(target, [3, 1, 4, 1, 5, 3, 1, 4], method, limits=Limits(30)):
        assert not expected or step.held == expected[-1]
        assert step.offered >= sum(step.tree.eligible) - 1
        expected.append(SIZES[name](method.drafters[0]))
    assert len(expected) > 2


def test_a_file_from_before_steps_told_it_is_read():
    data = recorded().to_dict()
    for step in data["steps"]:
        del step["held"], step["offered"]
    assert all((step.held, step.offered) == ({}, None) for step in Trace.from_dict(data).steps)


def broken():
    """(what is wrong, text of the file)."""
    good = recorded().to_dict()
    text = json.dumps(good)
    yield "empty", ""
    yield "cut off", text[: len(text) // 2]
    yield "no object", "[1, 2]"
    yield "null", "null"
    yield "deep", "[" * 100_000
    yield "another format", text.replace("spectra-trace", "other")
    yield "another version", text.replace('"version": 1', '"version": 2')
    for key in good:
        if key not in ("format", "version", "kept"):
            yield f"without {key}", json.dumps({k: v for k, v in good.items() if k != key})
    for key, value in {"steps": 3, "pieces": [[1]], "settings": 3, "vocabulary": [], "prompt_tokens": ["x"]}.items():
        yield f"{key} of another kind", json.dumps(good | {key: value})
    changes = {
        "tokens": [1, 2, 3, 4, 5, 6, 7],
        "sources": ["Magic!"],
        "path": [999],
        "index": "x",
        "seconds": None,
        "parts": 3,
        "held": {"Magic!": 1},
        "offered": "x",
        "tree": {},
    }
    for key, value in changes.items():
        yield f"step {key}", json.dumps(good | {"steps": [good["steps"][0] | {key: value}]})
    yield "infinite", json.dumps(good | {"steps": [good["steps"][0] | {"index": float("inf")}]})
    tree = good["steps"][0]["tree"]
    changes = {
        "parents": [-1, *[999] * (len(tree["tokens"]) - 1)],
        "eligible": [],
        "tokens": [],
        "sources": [["model"]],
    }
    for key, value in changes.items():
        if len(tree["tokens"]) > 1:
            yield f"tree {key}", json.dumps(good | {"steps": [good["steps"][0] | {"tree": tree | {key: value}}]})


@pytest.mark.parametrize(("what", "text"), [pytest.param(w, t, id=w) for w, t in broken()])
def test_damaged_files_are_refused(what, text):
    with pytest.raises(SpectraError) as error:
        Trace.from_json(text)
    assert error.value.field == "trace"
    assert "\n" not in str(error.value)
    assert "Error" not in str(error.value)  # names of Python's are no words for who opens a file


OWN, GUESSED = (Source.MODEL,), (Source.FORWARD,)
STEP = StepTrace(
    index=0,
    tokens=(1, 2, 5),
    sources=GUESSED * 2 + OWN,
    path=(1, 2),
    picks=(1, 2, 5),
    tree=TreeTrace((9, 1, 2, 3), (-1, 0, 1, 0), (OWN, *[GUESSED] * 3), (True,) * 4, (None,) * 4),
    seconds=0.1,
)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"path": (1, 3), "tokens": (1, 3, 5), "picks": (1, 3, 5)}, "jumps in its tree"),
        ({"tokens": (1, 7, 5), "picks": (1, 7, 5)}, "not those of its path"),
        ({"tree": STEP.to_dict()["tree"] | {"probability": (None, 1.5, None, None)}}, "not a number from 0 to 1"),
    ],
)
def test_a_path_that_is_none_of_its_tree_is_refused(changes, said):
    assert StepTrace.from_dict(STEP.to_dict()) == STEP
    with pytest.raises(ValueError, match=said):
        StepTrace.from_dict(STEP.to_dict() | changes)


def test_a_prompt_is_read_before_the_first_step():
    steps = [STEP, replace(STEP, index=1)]
    for read, good in (((0.5, 0.0), True), ((0.5, 0.5), False)):
        steps = [replace(step, prefill_seconds=seconds) for step, seconds in zip(steps, read, strict=True)]
        trace = Trace("spectra", "m", "p", (9,), steps=steps, pieces=[(3, "a"), (3, "b")])
        if good:
            trace.check()
            continue
        with pytest.raises(ValueError, match="read after the first step"):
            trace.check()


def test_a_tree_of_a_step_rounds_its_probabilities():
    tree = random_tree(random.Random(1), 5)
    tree.probability[2] = 0.123456
    assert TreeTrace.of(tree).probability == (None, None, 0.1235, None, None)
    assert len(TreeTrace.of(tree)) == 5


def test_a_step_reads_what_it_writes():
    for step in recorded(3).steps:
        assert StepTrace.from_dict(json.loads(json.dumps(step.to_dict()))) == step


def test_files_are_written_whole_or_not_at_all(tmp_path):
    path = tmp_path / "a.json"
    write_text(path, "one")
    write_text(path, "two")
    assert path.read_text() == "two"
    assert [p.name for p in tmp_path.iterdir()] == ["a.json"]


@pytest.mark.parametrize("name", ["missing/a.json", ".", "x" * 300, "file/a.json"])
def test_paths_that_cannot_be_written(tmp_path, name):
    (tmp_path / "file").write_text("")
    for write in (lambda p: check_writable(p, "json"), lambda p: write_text(p, "x", "json")):
        with pytest.raises(SpectraError) as error:
            write(tmp_path / name)
        assert error.value.field == "json"
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_a_file_has_the_mode_that_the_umask_allows(tmp_path):
    before = os.umask(0o027)
    try:
        write_text(tmp_path / "a.json", "one")
    finally:
        os.umask(before)
    assert (tmp_path / "a.json").stat().st_mode & 0o777 == 0o640


def test_checking_a_path_leaves_nothing_behind(tmp_path):
    check_writable(tmp_path / "a.json")
    assert [p.name for p in tmp_path.iterdir()] == []


def test_a_pipe_is_written_not_replaced(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    check_writable(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_text(pipe, "through")
    assert os.read(reader, 99) == b"through"
    os.close(reader)
    assert pipe.is_fifo()


class GuessesAndARow:
    """A drafter of one run of guesses and of a pool row, which is none."""

    def __init__(self, tokens):
        self.tokens = tokens

    def begin(self, prompt):
        pass

    def grow(self, tree, tokens):
        tree.insert(Guess(self.tokens, Source.FORWARD))
        tree.add(0, 1, Source.POOL, eligible=False)

    def observe(self, tokens, outcome):
        pass


def test_a_step_tells_of_guesses_and_of_its_picks_up_to_the_end():
    """A pool row is no guess, and of a run that ends within its accepted guesses the rest was not written."""
    target = target_of(model_of("llama"))
    first, second, third, _ = (step.tokens[0] for step in decode_by(target, [3, 4], "autoregressive", limits=Limits(4)))
    assert len({first, second}) == 2
    method = Method("test", [GuessesAndARow((first, second, third))], FixedBudget(8), 8)
    (step,) = decode_by(target, [3, 4], method, limits=Limits(9, frozenset({second})))
    assert (step.tokens, step.finish, step.offered) == ((first, second), "eos", 3)
    assert len(step.path) == 2 and step.picks == (first, second, third)
