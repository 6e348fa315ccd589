"""Commands that count over prompts: what they refuse to mix, prompts of two tasks, prompts that do not fit."""

import json

import pytest
from tiny import make
from words import tokenizer

from spectra.bench.report.merge import merge
from spectra.bench.run import peers
from spectra.bench.run.answers import Turn
from spectra.bench.run.rows import read_rows
from spectra.cli.bench import main


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A model, two draft models and a text that two tasks hold; xsum holds one that is too long."""
    place = tmp_path_factory.mktemp("models")
    for name, seed in (("tiny", 0), ("small", 4), ("smaller", 5)):
        make("llama", seed, max_position_embeddings=200).save_pretrained(place / name)
    tokenizer().save_pretrained(place / "tiny")
    (place / "gsm8k_test.jsonl").write_text('{"question": "w5 w6"}\n')
    (place / "mt_bench_question.jsonl").write_text('{"turns": ["w5 w6"]}\n')
    (place / "cnndm.jsonl").write_text('{"article": "w5 w6", "highlights": "w9 w12"}\n')
    rows = [{"document": text, "summary": "w9"} for text in ("w7 " * 200, "w5")]
    (place / "xsum.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return place


@pytest.fixture
def bench(place, tmp_path, capsys):
    """Run a command; (exit code, stdout, stderr)."""

    def run(command, *more):
        common = ["--model", str(place / "tiny"), "--data", str(place), "--device", "cpu", "--max-new-tokens", "4"]
        code = main([command, *common, "--out", str(tmp_path / "out"), *more])
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


FP32 = ("--dtype", "fp32", "--step", "eager")
COMMANDS = {
    "run": (*FP32, "--methods", "anpd"),
    "exactness": (*FP32, "--methods", "anpd", "--temperatures", "0"),
    "rouge": (*FP32, "--methods", "anpd", "--temperatures", "0"),
    "half-precision": ("--method", "anpd"),
}


class TestExactness:
    def test_each_comparison_counts_once(self, bench, tmp_path):
        arguments = ("exactness", *FP32, "--tasks", "gsm8k,mt-bench", "--temperatures", "0")
        for _ in range(2):
            code, out, _ = bench(*arguments, "--methods", "anpd,anpd")
            assert code == 0 and out.splitlines() == ["anpd, temperature 0, fast: 2 of 2 identical"]
        rows = read_rows(tmp_path / "out" / "exactness.jsonl")
        assert [row["task"] for row in rows] == ["gsm8k", "mt-bench"]
        code, out, _ = bench(*arguments, "--methods", "prompt-lookup", "--limit", "1")
        assert code == 0 and out.splitlines() == ["prompt-lookup, temperature 0, fast: 2 of 2 identical"]

    def test_formats_of_weights_are_compared(self, bench, tmp_path):
        arguments = (
            "exactness",
            "--dtype",
            "bf16",
            "--tasks",
            "gsm8k",
            "--methods",
            "anpd",
            "--temperatures",
            "2",
            "--max-new-tokens",
            "99",
        )
        for weights, out in (("bf16", "same"), ("q4", "other")):
            code, out, err = bench(*arguments, "--plain-weights", weights, "--out", str(tmp_path / out))
            said = f"anpd, temperature 2, exact: {int(weights == 'bf16')} of 1 identical"
            assert code == 0 and out.splitlines() == [f"{said} to plain decoding with weights {weights}"], err
        assert read_rows(tmp_path / "other" / "exactness.jsonl")[0]["plain_weights"] == "q4"
        assert bench(*arguments, "--plain-weights", "q1")[2].startswith("spectra.bench: plain-weights: 'q1' is unknown")

    @pytest.mark.parametrize(
        ("more", "said"), [(("--numerics", "exact"), "numerics fast, this run has exact"), (("--seed", "1"), "seed 0")]
    )
    def test_rows_of_other_settings_are_not_counted(self, bench, more, said):
        arguments = ("exactness", *FP32, "--tasks", "gsm8k", "--methods", "anpd", "--numerics", "fast")
        assert bench(*arguments)[0] == 0
        code, out, err = bench(*arguments, *more)
        assert (code, out) == (2, "")
        assert "spectra.bench: out: " in err and said in err


@pytest.mark.parametrize(
    "arguments",
    [
        ("rouge", *FP32, "--methods", "draft-model", "--temperatures", "0"),
        ("half-precision", "--tasks", "gsm8k", "--method", "draft-model"),
    ],
    ids=["rouge", "half-precision"],
)
def test_a_run_with_another_draft_model_is_refused(bench, place, arguments):
    assert bench(*arguments, "--draft", str(place / "small"))[0] == 0
    code, _, err = bench(*arguments, "--draft", str(place / "smaller"))
    assert code == 2
    assert "holds rows with drafts ['small'], this run has ['smaller']" in err


@pytest.mark.parametrize("command", ["run", "exactness", "rouge"])
def test_a_folder_begun_without_draft_models_takes_methods_that_use_them(bench, place, tmp_path, command):
    arguments = (*COMMANDS[command], "--tasks", "cnndm")
    drafted = (*arguments, "--methods", "draft-model", "--draft", str(place / "small"))
    for more in (arguments, drafted, arguments):
        assert bench(command, *more)[0] == 0
    file = {"run": "rows.jsonl"}.get(command, f"{command}.jsonl")
    rows = read_rows(tmp_path / "out" / file)
    plain = [] if command == "exactness" else ["autoregressive"]
    assert [row["method"] for row in rows] == [*plain, "anpd", "draft-model"]
    if command == "run":
        assert rows[2]["drafts"] == ["small"]
        assert len(merge([tmp_path / "out"])) == 1
    code, _, err = bench(command, *drafted[:-1], str(place / "smaller"))
    assert code == 2 and "holds rows with drafts ['small'], this run has ['smaller']" in err


@pytest.mark.parametrize("command", COMMANDS)
def test_a_prompt_that_does_not_fit_is_left_out(bench, command):
    code, out, err = bench(command, *COMMANDS[command], "--tasks", "xsum")
    assert code == 0
    assert err.count("is left out: prompt: ") == 1
    assert "2/2 prompts" in err
    if command == "exactness":
        assert out == "anpd, temperature 0, fast: 1 of 1 identical\n"


@pytest.mark.parametrize("command", COMMANDS)
def test_no_prompt_that_fits_is_an_error(bench, command):
    code, out, err = bench(command, *COMMANDS[command], "--tasks", "xsum", "--limit", "1")
    assert (code, out) == (2, "")
    assert err.splitlines()[-1].startswith("spectra.bench: max_new_tokens: no prompt and answer fit")


def test_half_precision_asks_stock_transformers_only_what_fits(bench, monkeypatch):
    asked = []

    def run_peer(target, name, prompt, **options):
        asked.append(len(prompt))
        return Turn([3], 0.1, [])

    monkeypatch.setattr(peers, "run_peer", run_peer)
    assert bench("half-precision", "--method", "anpd", "--tasks", "xsum")[0] == 0
    assert len(asked) == 2 and max(asked) < 196


def test_half_precision_offers_neither_numerics_nor_a_seed(bench, capsys):
    code, _, err = bench("half-precision", "--numerics", "fast")
    assert (code, err.count("\n")) == (2, 1)
    assert err.startswith("spectra.bench: numerics: this command counts in fast and in exact ones")
    for option in ("--numerics", "--seed"):
        with pytest.raises(SystemExit):
            bench("half-precision", "--help")
        assert option not in capsys.readouterr().out
    with pytest.raises(SystemExit):
        bench("half-precision", "--seed", "1")
    assert "unrecognized arguments: --seed" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["run", "exactness", "rouge"])
def test_nothing_to_measure_is_an_error(bench, command, capsys):
    for field in ("methods", "tasks"):
        with pytest.raises(SystemExit) as ended:
            bench(command, f"--{field}", "")
        said = capsys.readouterr().err
        assert (ended.value.code, said.count("\n")) == (2, 1)
        assert f"argument --{field}: there is none" in said


def test_half_precision_of_a_method_without_its_datastore_says_how_to_build_one(bench):
    code, _, err = bench("half-precision", "--method", "rest", "--tasks", "gsm8k")
    assert code == 2
    last = err.splitlines()[-1]
    assert last.startswith("spectra.bench: datastore: no unrefined datastore fits tiny")
    assert "python -m spectra.datastore build" in last


def test_a_text_of_its_own_is_not_compared_with_plain_decoding(bench, place, tmp_path):
    code, out, _ = bench("rouge", *FP32, "--methods", "rrs", "--temperatures", "0,1", "--draft", str(place / "small"))
    assert code == 0
    same = {(row["method"], row["temperature"]): row["same"] for row in read_rows(tmp_path / "out" / "rouge.jsonl")}
    assert same["rrs", 1.0] is None and same["rrs", 0.0] is same["autoregressive", 1.0] is True
    assert next(line for line in out.splitlines() if line.startswith("| 1 | rrs |")).endswith("| 4 |  |")


def test_acceptance_keeps_the_tasks_apart(bench, place, tmp_path):
    more = ("--draft", str(place / "small"), "--temperatures", "0", "--tasks", "gsm8k,mt-bench")
    for _ in range(2):
        assert bench("acceptance", *FP32, *more)[0] == 0
        assert len(read_rows(tmp_path / "out" / "acceptance.jsonl")) == 2
    what = "--draft small --model tiny --dtype fp32 --data DIR --tasks gsm8k,mt-bench --max-new-tokens 4"
    sampled = "--temperatures 0 --top-k 0 --top-p 1 --seed 0"
    command = f"    python -m spectra.bench acceptance {what} {sampled} --out DIR\n"
    assert command in (tmp_path / "out" / "acceptance.md").read_text()
