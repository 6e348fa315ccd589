"""Draft models: what they are taught, that training teaches it, and that a stopped run ends where a whole one does."""

import hashlib
import json
import resource
from contextlib import contextmanager

import numpy as np
import pytest
import torch
from damage import flip
from safetensors.torch import load_file
from stores import write_rows
from tiny import VOCABULARY, make
from transformers import AutoModelForCausalLM
from words import save_model, tokenizer

from spectra.cli.train import main
from spectra.datastore.sources import digest
from spectra.errors import SpectraError
from spectra.io import workdir
from spectra.train import run, trainer
from spectra.train.conversations import Batches, padded, read_conversations
from spectra.train.scoring import agreement, answer_logits, answer_states
from spectra.train.settings import TrainSettings
from spectra.train.teacher import ask_teacher

SMALL = ("--layers", "1", "--hidden", "16", "--heads", "2", "--intermediate", "32", "--length", "64", "--batch", "256")
RUN = (
    *SMALL,
    "--steps",
    "20",
    "--frequent",
    "8",
    "--negatives",
    "16",
    "--top",
    "4",
    "--evaluate",
    "200",
    "--held",
    "0.2",
)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return save_model(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Answers that count on from a word, so that the next word can be learned."""
    rows = [
        {"user": f"w{3 + i % 50}", "assistant": " ".join(f"w{3 + (i + j) % 60}" for j in range(5 + i % 20))}
        for i in range(120)
    ]
    return write_rows(tmp_path_factory.mktemp("data") / "data.jsonl", rows)


@pytest.fixture
def texts(data):
    return read_conversations([data], tokenizer(), 0.2)


def train(model, data, out, *more, place=("--device", "cpu")):
    fixed = ("--data", data, "--out", out, "--model", model, *place, "--dtype", "fp32", *RUN, *more)
    try:
        return main(list(map(str, fixed)))
    except SystemExit as stop:
        return stop.code


def test_training_teaches_and_writes_a_stock_model_with_its_card(model, data, tmp_path):
    assert (
        train(model, data, tmp_path / "nano", "--teacher-tokens", "300", "--general-data", data, "--finish", "0.2") == 0
    )
    card = json.loads((tmp_path / "nano" / "card.json").read_text())
    assert len({file.stat().st_mode for file in (tmp_path / "nano").iterdir()}) == 1  # whoever reads one reads all
    assert card["looks"][-1]["loss"] < card["looks"][0]["loss"] - 0.3
    assert card["data"][0]["sha256"] == hashlib.sha256(data.read_bytes()).hexdigest()
    assert card["trained"]["teacher_tokens"] >= 300
    trained = card["trained"]
    assert trained["batches_own"] + trained["batches_general"] == 16
    assert trained["batches_general"] > 0
    assert trained["batches_taught"] == 4
    assert card["held_back"]["tokens"] >= 200
    assert set(card["files"]) == {"config.json", "generation_config.json", "model.safetensors"}
    assert not (tmp_path / ".nano.work").exists()
    stored = load_file(tmp_path / "nano" / "model.safetensors")
    assert stored["model.embed_tokens.weight"].dtype == torch.float8_e4m3fn
    for dtype in (torch.bfloat16, torch.float32):
        loaded = AutoModelForCausalLM.from_pretrained(tmp_path / "nano", dtype=dtype)
        table = loaded.get_input_embeddings().weight
        assert torch.equal(table, stored["model.embed_tokens.weight"].to(dtype))
        assert table.data_ptr() == loaded.get_output_embeddings().weight.data_ptr()


@pytest.mark.parametrize("on_disk", [{"model.embed_tokens": "disk"}, {"lm_head": "disk"}])
def test_a_target_that_is_on_disk_in_part_gives_the_same_weights(model, data, tmp_path, on_disk):
    (tmp_path / "map.json").write_text(json.dumps({"": "cpu", **on_disk}))
    place = ("--device-map", tmp_path / "map.json", "--offload-folder", tmp_path / "offload")
    more = ("--steps", "3", "--teacher-tokens", "50")
    assert train(model, data, tmp_path / "whole", *more) == 0
    assert train(model, data, tmp_path / "spread", *more, place=place) == 0
    whole, spread = (tmp_path / name / "model.safetensors" for name in ("whole", "spread"))
    assert whole.read_bytes() == spread.read_bytes()


@contextmanager
def stopped_at(stop, monkeypatch):
    """Training is interrupted at this step, after a checkpoint of each step before it."""
    step = trainer.Trainer.step

    def interrupted(self, number):
        if number == stop:
            raise KeyboardInterrupt
        return step(self, number)

    with monkeypatch.context() as patched:
        patched.setattr(trainer, "PAUSE", -1.0)
        patched.setattr(trainer.Trainer, "step", interrupted)
        yield


@pytest.mark.parametrize("stops", [1, 7, 19])
def test_a_stopped_run_ends_with_the_weights_of_a_whole_one(model, data, tmp_path, monkeypatch, stops):
    more = ("--teacher-tokens", "300", "--general-data", data, "--finish", "0.2")
    assert train(model, data, tmp_path / "whole", *more) == 0
    with stopped_at(stops, monkeypatch):
        assert train(model, data, tmp_path / "out", *more) == 130
    assert not (tmp_path / "out").exists()
    (tmp_path / ".out.work" / "state.safetensors.new").write_bytes(b"torn")
    assert train(model, data, tmp_path / "out", *more) == 0
    assert (tmp_path / "out" / "model.safetensors").read_bytes() == (
        tmp_path / "whole" / "model.safetensors"
    ).read_bytes()


@pytest.mark.parametrize("name", ["data.safetensors", "state.safetensors", "teacher/part-00000.safetensors"])
@pytest.mark.parametrize("place", ["facts", "name", "numbers", "end"])
def test_damaged_work_is_named_and_made_anew_without_that_file(model, data, tmp_path, monkeypatch, capsys, name, place):
    """Training went on from other weights without a word, or ended with a traceback."""
    more = ("--teacher-tokens", "300", "--finish", "0.4", "--steps", "5")
    with stopped_at(4, monkeypatch):
        assert train(model, data, tmp_path / "out", *more) == 130
    file = tmp_path / ".out.work" / name
    content = file.read_bytes()
    header = int.from_bytes(content[:8], "little")
    if place == "end":
        file.write_bytes(content[:-1])
    else:
        flip(file, {"facts": 8 + content[8:].index(b":{") + 4, "name": header - 60, "numbers": header + 40}[place], 2)
    assert train(model, data, tmp_path / "out", *more) == 2
    said = capsys.readouterr().err.splitlines()[-1]
    assert said.endswith(f"{file} is damaged; remove it, and the same command makes it anew")
    file.unlink()
    assert train(model, data, tmp_path / "out", *more) == 0


@pytest.mark.parametrize("size", [1_000, 16_000])
def test_a_full_disk_is_named_and_the_same_command_goes_on(model, data, tmp_path, capsys, size):
    """At the tokens of the data, and at the weights."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        code = train(model, data, tmp_path / "out", "--teacher-tokens", "0")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    said = capsys.readouterr().err.splitlines()[-1]
    assert code == 2 and "out: the work stopped (" in said and "the same command goes on" in said
    assert not (tmp_path / "out").exists() and not list((tmp_path / ".out.work").rglob("*.new"))
    assert train(model, data, tmp_path / "out", "--teacher-tokens", "0") == 0


def test_with_too_few_rows_nothing_is_left_that_more_rows_would_be_refused_for(model, data, tmp_path, capsys):
    few = write_rows(tmp_path / "few.jsonl", [{"user": "w3", "assistant": "w4 w5"}])
    assert train(model, few, tmp_path / "out") == 2
    assert "too little to hold some back" in capsys.readouterr().err
    assert train(model, data, tmp_path / "out", "--steps", "1") == 0


def test_after_rows_that_are_wrong_mended_ones_are_taken(model, data, tmp_path, capsys):
    """The work folder of the first command, which held no work, was in the way of the second one."""
    rows = write_rows(tmp_path / "wrong.jsonl", [{"question": "w3"}])
    assert train(model, rows, tmp_path / "out") == 2
    assert "data: wrong.jsonl line 1 has none of the fields" in capsys.readouterr().err.replace(f"{tmp_path}/", "")
    assert train(model, data, tmp_path / "out", "--steps", "1") == 0


def test_after_settings_that_do_not_fit_others_are_taken(model, data, tmp_path, capsys):
    """Nobody had trained yet, but its work folder was in the way of the command that the message asked for."""
    assert train(model, data, tmp_path / "first", "--steps", "1") == 0
    boost = ("--boost", tmp_path / "first", "--steps", "1")
    for wrong, problem in (("24", "boost: its shape differs"), ("64", "hidden: 64 is wider than")):
        assert train(model, data, tmp_path / "out", *(boost if wrong == "24" else ()), "--hidden", wrong) == 2
        assert problem in capsys.readouterr().err
        assert [path.name for path in tmp_path.iterdir()] == ["first"]
    assert train(model, data, tmp_path / "out", *boost) == 0


def test_weights_that_are_no_numbers_any_more_are_told_and_not_kept(model, data, tmp_path, capsys, monkeypatch):
    """They were trained to the end, saved and published, a draft model that no target takes."""
    step = trainer.Trainer.step

    def diverging(self, number):
        loss = step(self, number)
        if self._rates["matrices"] == 1.0 and number == 3:
            next(self.model.parameters()).data[0] = float("nan")
        return loss

    monkeypatch.setattr(trainer.Trainer, "step", diverging)
    for pause in (60.0, 0.0):  # seen by the loss, and before the weights are saved
        monkeypatch.setattr(trainer, "PAUSE", pause)
        assert train(model, data, tmp_path / "out", "--matrix-rate", "1") == 2
        assert "matrix-rate: at step" in capsys.readouterr().err.splitlines()[-1]
    assert not (tmp_path / "out").exists()
    assert train(model, data, tmp_path / "out") == 0


def test_a_target_that_gives_no_numbers_is_told_before_the_work(data, tmp_path, capsys):
    broken = make("llama", 0, max_position_embeddings=256)
    broken.lm_head.weight.data[7] = float("nan")
    broken.save_pretrained(tmp_path / "broken")
    tokenizer().save_pretrained(tmp_path / "broken")
    assert train(tmp_path / "broken", data, tmp_path / "out", "--teacher-tokens", "300") == 2
    assert "holds NaN or infinity in lm_head.weight" in capsys.readouterr().err.splitlines()[-1]
    assert [path.name for path in tmp_path.iterdir()] == ["broken"]


def test_a_draft_model_that_another_process_finished_meanwhile_is_told_before_the_work(
    model, data, tmp_path, monkeypatch, capsys
):
    hold = run.hold_workdir

    def late(*given):
        with monkeypatch.context() as patch:
            patch.setattr(run, "hold_workdir", hold)
            assert train(model, data, tmp_path / "out", "--steps", "1") == 0
        return hold(*given)

    monkeypatch.setattr(run, "hold_workdir", late)
    assert train(model, data, tmp_path / "out", "--steps", "1") == 2
    assert "out is there already; name another folder" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("clears", [False, True])
def test_what_a_run_killed_after_its_end_left_goes_with_the_next(model, data, tmp_path, monkeypatch, clears):
    def killed(folder):
        if clears:
            workdir.clear(folder)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(run, "remove", killed)
        assert train(model, data, tmp_path / "out", "--steps", "1") == 130
    assert sorted(path.name for path in tmp_path.iterdir()) == [".out.work", "out"]
    assert train(model, data, tmp_path / "out", "--steps", "2") == 2
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_first_draft_model_that_is_damaged_is_named(model, data, tmp_path, capsys):
    (tmp_path / "first").mkdir()
    for name in ("config.json", "model.safetensors"):
        (tmp_path / "first" / name).write_text("x")
    assert train(model, data, tmp_path / "out", "--boost", tmp_path / "first") == 2
    assert "spectra.train: boost: cannot load " in capsys.readouterr().err


def test_work_of_other_settings_is_left_alone(model, data, tmp_path, monkeypatch, capsys):
    with monkeypatch.context() as patched:
        patched.setattr(trainer.Trainer, "step", lambda self, number: (_ for _ in ()).throw(KeyboardInterrupt))
        assert train(model, data, tmp_path / "out") == 130
    save_model(tmp_path / "other", 1)
    for other in (("--seed", "1"), ("--model", tmp_path / "other")):
        assert train(model, data, tmp_path / "out", *other) == 2
        assert "holds unfinished work with other settings" in capsys.readouterr().err


def test_the_second_model_learns_what_the_first_misses(model, data, tmp_path):
    assert train(model, data, tmp_path / "first") == 0
    assert train(model, data, tmp_path / "second", "--boost", tmp_path / "first", "--solved", "0") == 0
    card = json.loads((tmp_path / "second" / "card.json").read_text())
    assert card["boosts"] == "first"
    assert card["held_back"]["any_top1"] >= card["held_back"]["top1"]


def test_positions_that_the_first_model_gets_right_weigh_less(texts, tmp_path):
    first = make("llama", tie_word_embeddings=True)
    settings = TrainSettings(steps=1, batch=256, length=64, frequent=VOCABULARY, top=1, solved=0.25)
    one = trainer.Trainer(
        make("llama", 1, tie_word_embeddings=True), settings, texts, None, pytest.fail, first, tmp_path / "s"
    )
    rows = texts.rows(64, held=False)[:8]
    _, following = answer_states(first, texts, rows, 64)
    lesson = one._targets(texts, rows, following, None)
    right = answer_logits(first, texts, rows, 64).argmax(1) == following
    assert (lesson.weights[right] == 0.25).float().mean() > 0.9  # products in bf16 turn a near tie now and then
    assert (lesson.weights[~right] == 1).float().mean() > 0.9
    assert set(lesson.weights.tolist()) <= {0.25, 1.0}


def test_what_is_held_back_goes_by_the_prompt(data, tmp_path):
    other = write_rows(tmp_path / "other.jsonl", [{"user": f"w{3 + i}", "assistant": "w9 w9"} for i in range(50)])
    one, two = (read_conversations([file], tokenizer(), 0.2) for file in (data, other))
    assert 0 < two.held.sum() < 25
    assert [bool(one.held[i]) for i in range(50)] == two.held.tolist()
    without = read_conversations([data], tokenizer(), 0.2, frozenset({digest("w3"), digest("w4")}))
    assert len(without) == len(one) - 6
    assert one.tokens[: one.answers[0]].tolist() == tokenizer()("user w3 model")["input_ids"]


def test_an_epoch_holds_each_conversation_once_and_batches_fit(texts):
    rows = texts.rows(64, held=False)
    batches = Batches(texts, rows, 256, 64, seed=3)
    seen, number = [], 0
    while len(seen) < 2 * len(rows):
        assert padded(texts, batches[number], 64).size <= 256
        seen += batches[number].tolist()
        number += 1
    assert sorted(seen[: len(rows)]) == sorted(seen[len(rows) :]) == rows.tolist()
    assert seen[: len(rows)] != seen[len(rows) :]
    again = Batches(texts, rows, 256, 64, seed=3)
    assert again[number - 1].tolist() == batches[number - 1].tolist()
    assert batches[0].tolist() == again[0].tolist()


def test_the_teacher_says_what_the_target_says_and_is_asked_once(texts, tmp_path):
    target, rows = make("llama"), texts.rows(64, held=False)
    asked = {"length": 64, "top": 3, "data": "x", "progress": lambda count: None}
    ask_teacher(tmp_path, lambda: target, texts, rows, tokens=500, **asked)
    taught = ask_teacher(tmp_path, lambda: pytest.fail("asked again"), texts, rows, tokens=500, **asked)
    assert taught.tokens >= 500
    row = int(np.flatnonzero(taught.begins > 0)[0])
    ids, shares = taught.of(row, 4)
    expected = answer_logits(target, texts, np.array([row]), 64)[:4].softmax(1).topk(3, 1)
    assert torch.equal(ids.long(), expected.indices)
    assert torch.allclose(shares.float(), expected.values, atol=1e-3)
    with pytest.raises(SpectraError, match=r"teacher: .* was made from other data"):
        ask_teacher(tmp_path, lambda: target, texts, rows, tokens=500, **{**asked, "data": "y"})


def test_agreement_of_a_model_with_itself_is_whole(texts):
    one, other = make("llama"), make("llama", 1)
    rows, settings = texts.rows(64, held=True), TrainSettings(batch=256, length=64)
    same = agreement([one], one, texts, rows, settings)
    assert same["overlap"] == pytest.approx(1, abs=1e-3)
    assert same["top1"] == 1.0
    assert same["loss"] == same["target_loss"]
    far = agreement([one, other], one, texts, rows, settings)
    assert far["overlap"] < 0.9
    assert far["top1"] < far["top5"] < 1
    assert far["any_top1"] == 1.0


BAD = {
    "data: nowhere.jsonl is not there": ("--data", "nowhere.jsonl"),
    "heads: 16 does not divide into 3 heads": ("--heads", "3"),
    "hidden: 17 is odd": ("--hidden", "17"),
    "batch: 32 tokens do not hold one conversation of 64": ("--batch", "32"),
    "steps: 0 is out of range": ("--steps", "0"),
    "boost: nowhere is no model folder": ("--boost", "nowhere"),
    "'x' is not a whole number": ("--seed", "x"),
    "hidden: 64 is wider than the target's 48": ("--hidden", "64"),
    "out: cannot write": ("--out", "/dev/null/nano"),
}


@pytest.mark.parametrize("problem", BAD)
def test_bad_input_ends_with_one_line(model, data, tmp_path, capsys, problem):
    assert train(model, data, tmp_path / "nano", *BAD[problem]) == 2
    err = capsys.readouterr().err
    assert problem in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ('{"user": "w3"}', "line 1 has none of the fields"),
        ('{"text": "w3"}', "no answer to a prompt"),
        ("{", "line 1 is not"),
    ],
)
def test_data_that_is_none_is_named(model, tmp_path, capsys, row, problem):
    (tmp_path / "bad.jsonl").write_text(row + "\n")
    assert train(model, tmp_path / "bad.jsonl", tmp_path / "nano") == 2
    assert problem in capsys.readouterr().err
