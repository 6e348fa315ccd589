"""Recordings: replayed drafters do what they do on the model; profiles and step times; files that are no recording."""

import json

import pytest
import torch
from benched import loaded, tiny_target
from drafting import decode_by
from tiny import COST, model_of

from spectra.bench.replay import TOP, RecordedAnswer, ReplayTarget, RightOnly, read_recording
from spectra.bench.steps import read_cost
from spectra.budget.policy import AdaptiveBudget
from spectra.budget.step_cost import StepCost
from spectra.cli.bench import main
from spectra.drafters.prompt_lookup import PromptLookup
from spectra.errors import SpectraError
from spectra.guess import Guess, Source
from spectra.method import Method
from spectra.service.loading import ModelOptions
from spectra.settings import Limits, Sampling
from spectra.target.shapes import SHAPES
from spectra.tree import TokenTree
from spectra.verify.noise import Noise

TOKENS = 24
FREE_OF_GUESSED_TEXT = ["anpd", "prompt-lookup", "suffix-automaton", "autoregressive"]
"""Methods that learn from committed text only, so that a recording knows all they would see."""


@pytest.fixture
def folder(tmp_path):
    rows = [{"question": text, "answer": ""} for text in ("w5 w6 w7 w5 w6", "w9 w8 w9 w8", "w1 w2")]
    (tmp_path / "gsm8k_test.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return tmp_path


@pytest.fixture
def recorded(folder, monkeypatch):
    monkeypatch.setattr(ModelOptions, "load", lambda options: loaded())
    out = folder / "recording.jsonl"
    assert main(["record", "--data", str(folder), "--max-new-tokens", str(TOKENS), "--out", str(out)]) == 0
    return out


def test_a_recording_holds_answers_and_what_was_likely(recorded):
    header, answers = read_recording(recorded)
    target = tiny_target()
    assert header.cost == COST
    assert len(answers) == 3
    for answer in answers:
        steps = list(decode_by(target, answer.prompt, "autoregressive", limits=Limits(TOKENS, target.eos)))
        assert answer.answer == tuple(token for step in steps for token in step.tokens)
        assert [top[0] for top in answer.top] == list(answer.answer)
        assert {len(top) for top in answer.top} == {TOP}


@pytest.mark.parametrize("method", FREE_OF_GUESSED_TEXT)
def test_a_replay_takes_the_steps_that_the_model_takes(recorded, method):
    target = tiny_target()
    for answer in read_recording(recorded)[1]:
        replay = ReplayTarget(COST, target.eos, recorded=answer)
        limits = Limits(len(answer.answer))
        ours, real = ([s.tokens for s in decode_by(t, answer.prompt, method, limits=limits)] for t in (replay, target))
        assert ours == real


def test_a_replay_knows_the_noise_of_sampled_answers(folder, monkeypatch):
    monkeypatch.setattr(ModelOptions, "load", lambda options: loaded())
    out, target, sampling = folder / "sampled.jsonl", tiny_target(), Sampling(1.3, seed=9)
    options = ["--max-new-tokens", str(TOKENS), "--temperature", "1.3", "--seed", "9", "--out", str(out)]
    assert main(["record", "--data", str(folder), *options]) == 0
    header, answers = read_recording(out)
    assert header.sampling == sampling
    noise = Noise(9, header.vocabulary, torch.device("cpu"))
    for answer in answers:
        replay = ReplayTarget(COST, target.eos, sampling=sampling, noise=noise, recorded=answer)
        limits, both = Limits(len(answer.answer)), []
        for one in (replay, target):
            method = Method("copies", [PromptLookup()], AdaptiveBudget(COST, 16, temperature=1.3), 16)
            steps = decode_by(one, answer.prompt, method, sampling=sampling, limits=limits)
            both.append([(step.tokens, step.tree.probability) for step in steps])
        assert both[0] == both[1]


def test_a_replay_costs_what_the_table_says():
    cost = StepCost(((1, 1.0), (3, 5.0)))
    target = ReplayTarget(cost, recorded=RecordedAnswer("t", "i", (5, 6, 5), (6, 5, 6, 5)))
    steps = list(decode_by(target, (5, 6, 5), "prompt-lookup", limits=Limits(4)))
    assert target.session.seconds == sum(cost.seconds(len(step.tree)) for step in steps)
    assert target.session.queries == sum(len(step.tree) for step in steps)


def test_the_command_prints_a_row_a_method(recorded, capsys):
    assert main(["replay", str(recorded), "--methods", "anpd,spectra,token-recycling"]) == 0
    rows = [line.split("|")[1].strip() for line in capsys.readouterr().out.splitlines()]
    assert rows[2:] == ["anpd", "spectra", "token-recycling"]


@pytest.mark.all_cases
def test_a_draft_model_is_asked_for_real(recorded, tmp_path, capsys):
    model_of("llama").save_pretrained(tmp_path / "same")
    assert main(["replay", str(recorded), "--methods", "spectra,spectra-draft", "--draft", str(tmp_path / "same")]) == 0
    without, advised = (float(line.split("|")[2]) for line in capsys.readouterr().out.splitlines()[2:])
    assert advised > without


def test_a_recording_that_does_not_say_what_fits_its_model_takes_no_draft_model(recorded, tmp_path, capsys):
    lines = recorded.read_text().splitlines()
    lines[0] = json.dumps({**json.loads(lines[0]), "vocabulary": 0})
    recorded.write_text("\n".join(lines))
    assert main(["replay", str(recorded), "--methods", "spectra-draft"]) == 2
    assert capsys.readouterr().err.startswith("spectra.bench: draft: the recording does not say")


def test_another_devices_table_changes_the_prediction(recorded, tmp_path, capsys):
    table = tmp_path / "cost.json"
    table.write_text("[[1, 1.0], [2, 50.0]]")
    assert main(["replay", str(recorded), "--methods", "prompt-lookup", "--cost", str(table)]) == 0
    assert float(capsys.readouterr().out.splitlines()[-1].split("|")[-3]) < 1


def test_no_choice_of_the_same_guesses_is_faster_than_the_right_ones_alone(recorded, capsys):
    assert main(["replay", str(recorded), "--methods", "autoregressive,anpd,spectra,token-recycling"]) == 0
    rows = [line.split("|")[-3:-1] for line in capsys.readouterr().out.splitlines()[2:]]
    assert float(rows[0][1]) == 1
    assert all(float(predicted) <= float(at_most) for predicted, at_most in rows)


def test_right_guesses_are_found_along_the_answer():
    tree = TokenTree(9)
    for guess in ((1, 2, 8), (1, 3), (4,)):
        tree.insert(Guess(guess, Source.FORWARD))
    budget = RightOnly([7, 1, 2, 5])
    assert budget.choose(tree).tokens == [9]
    budget.observe(tree, [7])
    assert budget.choose(tree).tokens == [9, 1, 2]


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (0, "{}"),
        (0, "no json"),
        (1, "[1]"),
        (2, '{"task": "t"}'),
        (0, '{"format": "spectra-trace", "version": 1}'),
        (1, '{"task": "t", "id": "i", "prompt": [5], "answer": [], "top": []}'),
    ],
)
def test_a_file_that_is_no_recording_is_named_with_its_line(recorded, line, text, capsys):
    lines = recorded.read_text().splitlines()
    lines[line] = text
    recorded.write_text("\n".join(lines))
    assert main(["replay", str(recorded)]) == 2
    said = capsys.readouterr().err
    assert f"line {line + 1}" in said
    assert len(said.splitlines()) == 1


@pytest.mark.parametrize(
    "changes",
    [
        {"cost": [[2, 1.0], [1, 1.0]]},
        {"cost": 5},
        {"cost": []},
        {"facts": None},
        {"eos": None},
        {"tokenizer_sha256": 0},
    ],
)
def test_a_damaged_header_is_named(recorded, changes, capsys):
    lines = recorded.read_text().splitlines()
    header = json.loads(lines[0]) | changes
    lines[0] = json.dumps({name: value for name, value in header.items() if value != 0})
    recorded.write_text("\n".join(lines))
    assert main(["replay", str(recorded)]) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"spectra.bench: recording: {recorded} line 1 is not a recording's")
    assert err.count("\n") == 1 and "Error" not in err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--methods", "anpd,rest"], "datastore: no unrefined datastore fits"),
        (["--methods", "anpd,draft-model"], "methods: draft-model drafts with a model"),
        (["--methods", "anpd,spectra-draft"], "draft: no draft model fits"),
        (["--draft", "/nowhere/at/all"], "draft: '/nowhere/at/all' is not there"),
        (["--nodes", "0"], "nodes: 0 is out of range"),
    ],
)
def test_a_replay_prints_nothing_before_all_methods_are_known_to_run(recorded, arguments, said, capsys):
    capsys.readouterr()
    assert main(["replay", str(recorded), *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"spectra.bench: {said}")


@pytest.mark.parametrize("command", [["replay", "recording"], ["profile"]])
@pytest.mark.parametrize("methods", ["", ","])
def test_no_method_is_an_error(command, methods, capsys):
    with pytest.raises(SystemExit) as ended:
        main([*command, "--methods", methods])
    said = capsys.readouterr()
    assert (ended.value.code, said.out, said.err.count("\n")) == (2, "", 1)
    assert "argument --methods: there is none" in said.err


def test_a_profile_prints_nothing_before_all_methods_are_known_to_run(monkeypatch, capsys):
    monkeypatch.setattr(ModelOptions, "load", lambda options: loaded())
    assert main(["profile", "--methods", "anpd,rest"]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("spectra.bench: datastore: no unrefined")


def test_a_recording_that_cannot_be_written_is_refused_first(folder, monkeypatch, capsys):
    monkeypatch.setattr(ModelOptions, "load", lambda options: pytest.fail("it was answered first"))
    for out in (folder, folder / "missing" / "a.jsonl"):
        assert main(["record", "--data", str(folder), "--out", str(out)]) == 2
        assert capsys.readouterr().err.startswith("spectra.bench: out: cannot write")


def test_a_prompt_that_does_not_fit_is_not_recorded(folder, monkeypatch, capsys):
    monkeypatch.setattr(ModelOptions, "load", lambda options: loaded(max_position_embeddings=28))
    out = folder / "recording.jsonl"
    assert main(["record", "--data", str(folder), "--max-new-tokens", str(TOKENS), "--out", str(out)]) == 0
    assert [len(answer.prompt) for answer in read_recording(out)[1]] == [4]
    assert capsys.readouterr().err.count("is left out: prompt: ") == 2


@pytest.mark.parametrize(("command", "resumes"), [("run", True), ("record", False)])
def test_only_commands_that_go_on_say_so_when_stopped(folder, monkeypatch, capsys, command, resumes):
    def stop(options):
        raise KeyboardInterrupt

    monkeypatch.setattr(ModelOptions, "load", stop)
    assert main([command, "--data", str(folder), "--out", str(folder / "out")]) == 130
    assert ("goes on from here" in capsys.readouterr().err) == resumes


def test_missing_and_empty_files_and_bad_tables(recorded, tmp_path, capsys):
    header = recorded.read_text().splitlines()[0]
    recorded.write_text(header)
    assert main(["replay", str(recorded)]) == 2
    assert main(["replay", str(tmp_path / "none")]) == 2
    for text in ("[[2, 1.0], [1, 1.0]]", "{}", "[1]", "[]", "[[1, -1]]", "[[1, NaN]]", "[[0, 1]]", "[[Infinity, 1]]"):
        (tmp_path / "cost").write_text(text)
        with pytest.raises(SpectraError, match="cost"):
            read_cost(tmp_path / "cost")


def test_profile_and_latency_print_tables(monkeypatch, capsys):
    monkeypatch.setattr(ModelOptions, "load", lambda options: loaded())
    assert main(["profile", "--prompt", "w5 w6 w5 w6", "--max-new-tokens", "12"]) == 0
    out = capsys.readouterr().out
    assert "| autoregressive | " in out
    shares = [float(cell.split(", ")[1].rstrip("% ")) for cell in out.splitlines()[3].split("|")[4:-1]]
    assert sum(shares) == pytest.approx(100, abs=0.3)
    assert main(["latency", "--contexts", "8,32", "--queries", "1,4"]) == 0
    assert "| 32 | " in capsys.readouterr().out


def test_latency_writes_what_it_prints(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(ModelOptions, "load", lambda options: loaded())
    common = ["latency", "--contexts", "8", "--out"]
    assert main([*common, str(tmp_path / "table.md"), "--queries", "1,2,1500"]) == 0
    said = capsys.readouterr().out
    assert (tmp_path / "table.md").read_text() == said
    assert "| context | q=1 | q=2 |" in said and "Milliseconds of a pass" in said and "Left out: q=1500; " in said
    assert main([*common, str(tmp_path / "table.md"), "--queries", "1500"]) == 2
    assert "queries: 1500 does not fit a step of this model; give" in capsys.readouterr().err
    monkeypatch.setattr(ModelOptions, "load", lambda options: pytest.fail("it was measured first"))
    assert main([*common, str(tmp_path)]) == 2
    assert capsys.readouterr().err.startswith("spectra.bench: out: cannot write")


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        (["latency", "--contexts", "0"], "contexts"),
        (["latency", "--queries", "a"], "queries"),
        (["latency", "--contexts", "100000"], "contexts"),
        (["profile", "--methods", "none"], "methods"),
        (["replay", "x", "--methods", "none"], "methods"),
    ],
)
def test_bad_input_is_named(arguments, field, monkeypatch, capsys):
    monkeypatch.setattr(ModelOptions, "load", lambda options: loaded())
    assert main(arguments) == 2
    assert f"spectra.bench: {field}: " in capsys.readouterr().err


def test_a_shape_is_timed_with_random_weights(monkeypatch, capsys):
    small = {"hidden_size": 48, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 3,
             "num_key_value_heads": 1, "vocab_size": 64}  # fmt: skip
    monkeypatch.setitem(SHAPES, "small", small)
    arguments = ["--dtype", "fp32", "--device", "cpu", "--contexts", "8", "--queries", "1,2"]
    assert main(["latency", "--shape", "small", *arguments]) == 0
    assert "small (random weights)" in capsys.readouterr().out
    assert main(["latency", "--shape", "large", *arguments]) == 2
    assert "shape: 'large' is unknown" in capsys.readouterr().err
