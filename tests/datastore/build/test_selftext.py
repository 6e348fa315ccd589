"""The model's own answers: those of stock generate, whole batches at a time, and the same file after a stop."""

import json
import os
import re
import resource
import signal
import sys

import pytest
from words import save_model

from spectra.cli.datastore import main
from spectra.datastore.build.seed_prompts import SEED_PROMPTS
from spectra.datastore.build.selftext import Question, held
from spectra.datastore.build.stock_answers import answer
from spectra.target.load import load_network


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return save_model(tmp_path_factory.mktemp("models") / "tiny")


def asked(folder):
    file = folder / "prompts.jsonl"
    rows = [{"user": " ".join(f"w{3 + (7 * i + j) % 60}" for j in range(1 + i % 4)), "source": "s"} for i in range(7)]
    file.write_text("".join(json.dumps(row) + "\n" for row in [*rows, rows[0]]))
    return file


@pytest.fixture
def prompts(tmp_path):
    return asked(tmp_path)


def write(model, prompts, out, *more, place=("--device", "cpu")):
    fixed = ("--model", model, "--dtype", "fp32", *place, "--max-new-tokens", "12", "--batch", "3")
    try:
        return main(["selftext", *map(str, ("--prompts", prompts, "--out", out, *fixed, *more))])
    except SystemExit as stop:
        return stop.code


@pytest.fixture(scope="module")
def lines(model, tmp_path_factory):
    """Of a run that nothing disturbed."""
    folder = tmp_path_factory.mktemp("whole")
    out = folder / "whole.jsonl"
    assert write(model, asked(folder), out) == 0
    return out.read_bytes().splitlines(keepends=True)


def test_without_prompts_it_answers_the_projects_own(model, tmp_path):
    out = tmp_path / "own.jsonl"
    fixed = ("--model", model, "--dtype", "fp32", "--device", "cpu", "--max-new-tokens", "2", "--temperatures", "0")
    assert main(["selftext", "--out", str(out), *map(str, fixed)]) == 0
    assert {row["user"] for row in read(out)} == set(SEED_PROMPTS)


def read(file):
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_each_prompt_is_answered_at_each_temperature(model, prompts, tmp_path):
    assert write(model, prompts, tmp_path / "out.jsonl") == 0
    rows = read(tmp_path / "out.jsonl")
    assert len(rows) == 14
    assert [row["temperature"] for row in rows] == [0.0] * 7 + [0.7] * 7
    assert {row["user"] for row in rows} == {json.loads(line)["user"] for line in prompts.read_text().splitlines()}
    told = {"model": model.name, "seed": 0, "max_new_tokens": 12}
    wanted = {"source", "user", "assistant", "temperature", "finished", *told}
    assert all(set(row) == wanted and row.items() >= told.items() for row in rows)
    assert all(row["assistant"].count("w") + row["assistant"].count("u") for row in rows)


def test_a_model_whose_embeddings_are_on_disk_writes_the_same(model, prompts, tmp_path):
    (tmp_path / "map.json").write_text(json.dumps({"": "cpu", "model.embed_tokens": "disk"}))
    place = ("--device-map", tmp_path / "map.json", "--offload-folder", tmp_path / "offload")
    assert write(model, prompts, tmp_path / "whole.jsonl") == 0
    assert write(model, prompts, tmp_path / "spread.jsonl", place=place) == 0
    assert (tmp_path / "whole.jsonl").read_bytes() == (tmp_path / "spread.jsonl").read_bytes()


def test_greedy_answers_are_those_of_one_prompt_alone(model, prompts, tmp_path):
    write(model, prompts, tmp_path / "out.jsonl", "--temperatures", "0")
    network, tokenizer, _ = load_network(model, device="cpu", dtype="fp32")
    for row in read(tmp_path / "out.jsonl"):
        question = Question("", row["user"], 0.0)
        assert answer(network.eval(), tokenizer, [question], 12)[0]["assistant"] == row["assistant"]


def test_an_answer_ends_where_the_model_ends_it(model, prompts):
    network, tokenizer, _ = load_network(model, device="cpu", dtype="fp32")
    question = Question("", "w9 w8", 0.0)
    (whole,) = answer(network, tokenizer, [question], 12)
    tokens = re.findall(r"w\d+", whole["assistant"])
    end = next(i for i, token in enumerate(tokens) if i and token not in tokens[:i])
    network.generation_config.eos_token_id = tokenizer.convert_tokens_to_ids(tokens[end])
    (cut,) = answer(network, tokenizer, [question], 12)
    assert re.findall(r"w\d+", cut["assistant"]) == tokens[:end]
    assert (whole["finished"], cut["finished"]) == (False, True)


@pytest.mark.parametrize("kept", [0, 3, 14, *(pytest.param(kept, marks=pytest.mark.all_cases) for kept in (1, 8, 11))])
@pytest.mark.parametrize("torn", [False, True])
def test_a_stopped_run_goes_on_to_the_same_file(model, prompts, lines, tmp_path, kept, torn):
    part = b"".join(lines[:kept]) + (lines[kept][:20] if torn and kept < 14 else b"")
    (tmp_path / "out.jsonl").write_bytes(part)
    assert write(model, prompts, tmp_path / "out.jsonl") == 0
    assert (tmp_path / "out.jsonl").read_bytes() == b"".join(lines)


@pytest.mark.parametrize("kept", [0, 4, *(pytest.param(kept, marks=pytest.mark.all_cases) for kept in (3, 13))])
@pytest.mark.parametrize("end", [1, 60, -2, -1])
def test_a_last_line_that_is_cut_anywhere_is_cut_off(model, prompts, lines, tmp_path, kept, end):
    """A row that lacks its line's end alone, too: whether it is whole is not known."""
    (tmp_path / "out.jsonl").write_bytes(b"".join(lines[:kept]) + lines[kept][:end])
    assert write(model, prompts, tmp_path / "out.jsonl") == 0
    assert (tmp_path / "out.jsonl").read_bytes() == b"".join(lines)


def test_a_file_that_another_process_writes_is_left_alone(model, prompts, tmp_path, capsys):
    out = tmp_path / "out.jsonl"
    assert write(model, prompts, out) == 0
    whole = out.read_bytes()
    with held(out):
        assert write(model, prompts, out) == 2
    assert capsys.readouterr().err.strip().endswith(f"out: {out} is being written by another process; wait for it")
    assert out.read_bytes() == whole


def test_a_pipe_is_refused_at_once(model, prompts, tmp_path, capsys):
    """To add to it would wait for whoever reads it."""
    out = tmp_path / "out.jsonl"
    os.mkfifo(out)
    assert write(model, prompts, out) == 2
    assert (
        capsys.readouterr()
        .err.strip()
        .endswith(f"out: {out} is no regular file, so answers cannot be added to it; name another")
    )


def test_a_full_disk_is_told_and_loses_no_answer(model, prompts, lines, tmp_path):
    out, told = tmp_path / "out.jsonl", tmp_path / "told"
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        code = 99
        try:
            os.dup2(os.open(told, os.O_WRONLY | os.O_CREAT), 2)
            sys.stderr = os.fdopen(2, "w")
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
            code = write(model, prompts, out)
            sys.stderr.flush()
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 2
    assert f"out: cannot write {out} (File too large); free some space" in told.read_text()
    assert write(model, prompts, out) == 0
    assert out.read_bytes() == b"".join(lines)


def test_answers_to_other_prompts_are_left_alone(model, prompts, tmp_path, capsys):
    row = {"source": "", "user": "other", "assistant": "x", "temperature": 0.0, "finished": True}
    (tmp_path / "out.jsonl").write_text(f"{json.dumps(row)}\n" * 3)
    assert write(model, prompts, tmp_path / "out.jsonl") == 2
    assert "answers other prompts" in capsys.readouterr().err
    assert len(read(tmp_path / "out.jsonl")) == 3


@pytest.mark.parametrize("rows", [5, 14])
def test_answers_of_another_model_seed_or_length_are_left_alone(model, prompts, tmp_path, capsys, rows):
    """They were gone on with, to a file of both."""
    out = tmp_path / "out.jsonl"
    assert write(model, prompts, out) == 0
    lines = out.read_bytes().splitlines(keepends=True)
    out.write_bytes(b"".join(lines[:rows]))
    other = save_model(tmp_path / "other", 1)
    for name, value in (("model", other), ("seed", 1), ("max-new-tokens", 9)):
        assert write(model, prompts, out, f"--{name}", value) == 2
        assert f"out: {out} was written with another {name}; " in capsys.readouterr().err
        assert out.read_bytes() == b"".join(lines[:rows])
    untold = [{key: row[key] for key in list(row)[:5]} for row in read(out)]
    out.write_text("".join(json.dumps(row) + "\n" for row in untold))
    assert write(model, prompts, out, "--seed", 1) == 0, "rows of before do not say"


@pytest.mark.parametrize("text", ["a line\n", "no end", '{"user": "w3"}\n', '{"source": "s", "user": "other", "as'])
def test_a_file_of_something_else_is_left_alone_however_short(model, prompts, tmp_path, capsys, text):
    """One of fewer rows than a batch was taken for a batch that is there in part, and emptied."""
    out = tmp_path / "out.jsonl"
    out.write_text(text)
    assert write(model, prompts, out) == 2
    assert "answers other prompts" in capsys.readouterr().err
    assert out.read_text() == text


def test_the_prompts_themselves_are_not_written_over(model, prompts, capsys):
    whole = prompts.read_bytes()
    assert write(model, prompts, prompts, "--batch", "64") == 2
    assert "answers other prompts" in capsys.readouterr().err
    assert prompts.read_bytes() == whole


BAD = {
    "prompts: ": ("--prompts", "nowhere.jsonl"),
    "prompts: nowhere cannot be read": ("--prompts", "nowhere"),
    "temperatures: -1.0 is out of range": ("--temperatures", "0,-1"),
    "'x' is not a number": ("--temperatures", "x"),
    "batch: 0 is out of range": ("--batch", "0"),
    "max-new-tokens: 0 is out of range": ("--max-new-tokens", "0"),
    "do not fit the context of 256": ("--max-new-tokens", "255"),
    "out: cannot write": ("--out", "/nowhere/at/all.jsonl"),
}


@pytest.mark.parametrize("problem", BAD)
def test_bad_input_ends_with_one_line(model, prompts, tmp_path, capsys, problem):
    capsys.readouterr()
    assert write(model, prompts, tmp_path / "out.jsonl", *BAD[problem]) == 2
    err = capsys.readouterr().err
    assert problem in err
    assert err.count("\n") == 1


def test_a_prompt_that_is_too_long_is_told_before_the_others_are_answered(model, prompts, tmp_path, capsys):
    with prompts.open("a") as file:
        file.write(json.dumps({"user": "w5 " * 250}) + "\n")
    assert write(model, prompts, tmp_path / "out.jsonl", "--batch", "1") == 2
    assert "do not fit the context of 256" in capsys.readouterr().err
    assert not (tmp_path / "out.jsonl").exists()


def test_half_a_surrogate_pair_in_a_prompt_is_a_question_mark(model, tmp_path):
    prompts, out = tmp_path / "prompts.jsonl", tmp_path / "out.jsonl"
    prompts.write_text('{"user": "w5 \\ud800", "source": "\\udcff"}\n')
    assert write(model, prompts, out) == 0
    assert {(row["user"], row["source"]) for row in read(out)} == {("w5 ?", "?")}


@pytest.mark.parametrize("text", ["", '{"text": "x"}\n', '{"user": " "}\n', "{\n"])
def test_prompts_that_are_none_are_named(model, tmp_path, capsys, text):
    (tmp_path / "bad.jsonl").write_text(text)
    assert write(model, tmp_path / "bad.jsonl", tmp_path / "out.jsonl") == 2
    assert "prompts: " in capsys.readouterr().err


def test_where_nothing_can_be_drawn_there_is_one_line_and_no_text(model, prompts, tmp_path, capsys):
    """Stock generate fails in torch, or writes its first token over and over."""
    out = tmp_path / "out.jsonl"
    assert write(model, prompts, out, "--temperatures", "1e-40") == 2
    assert "spectra.datastore: temperatures: 1e-40 takes the scores beyond all numbers" in capsys.readouterr().err
    broken = save_model(tmp_path / "broken")
    network, _, _ = load_network(broken, device="cpu", dtype="fp32")
    network.lm_head.weight.data[7] = float("nan")
    network.save_pretrained(broken)
    for temperature in ("0", "0.7"):
        assert write(broken, prompts, out, "--temperatures", temperature) == 2
        assert "spectra.datastore: model: its logits are no numbers" in capsys.readouterr().err
    assert not out.exists() or not out.read_bytes()
