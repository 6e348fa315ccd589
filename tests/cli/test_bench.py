"""`python -m spectra.bench`: every subcommand on a tiny model, and one line naming the field for every bad input."""

import json
import re

import pytest
from tiny import make
from words import save_model

from spectra.bench.run.rows import ROWS, read_rows
from spectra.cli.bench import COMMANDS, main


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """Arguments: a saved tiny model, a folder with tasks, short answers."""
    place = tmp_path_factory.mktemp("models")
    save_model(place / "tiny", longest=400)
    (place / "gsm8k_test.jsonl").write_text('{"question": "w5 w6 w5"}\n{"question": "w9"}\n')
    (place / "mt_bench_question.jsonl").write_text('{"category": "qa", "turns": ["w5 w6 w5", "w8"]}\n')
    return [
        "--model", str(place / "tiny"), "--data", str(place), "--dtype", "fp32", "--device", "cpu",
        "--max-new-tokens", "8",
    ]  # fmt: skip


class TestCommands:
    def test_run_then_report(self, tiny, tmp_path, capsys):
        out = ["--out", str(tmp_path / "run")]
        assert main(["run", *tiny, *out, "--methods", "anpd,hf-generate", "--top-p", "0.9"]) == 0
        said = capsys.readouterr()
        assert "## gsm8k (2 prompts)" in said.out
        assert (tmp_path / "run" / "report.md").read_text() + "\n" == said.out
        assert (tmp_path / "run" / "accepted-tokens.json").exists()
        written = ["--out", str(tmp_path / "all.md"), "--charts", str(tmp_path)]
        assert main(["report", str(tmp_path / "run"), *written]) == 0
        assert (tmp_path / "all.md").read_text() in said.out
        assert (tmp_path / "acceptance.html").exists()
        assert main(["run", *tiny, *out, "--methods", "anpd", "--top-p", "0.8"]) == 2
        assert capsys.readouterr().err.startswith("spectra.bench: out: ")

    @pytest.mark.parametrize("command", COMMANDS)
    def test_help_explains_every_option_and_its_default(self, capsys, command):
        with pytest.raises(SystemExit):
            main([command, "--help"])
        options = re.split(r"\n  --", capsys.readouterr().out.partition("options:")[2])[1:]
        texts = {option.split()[0]: " ".join(option.split()) for option in options}
        assert all(len(text.split()) > 3 for text in texts.values())
        length = {"serve": "128", "soak": "192", "paper": "512"}.get(command, "256")
        defaults = {"max-new-tokens": length, "queries": "1,2,4,8,16,32,64,128", "method": "spectra", "pairs": "100"}
        for name in defaults.keys() & texts:
            assert f"(default: {defaults[name]}" in texts[name]
        if command == "sweep":
            assert "any method: nodes, temperature;" in texts["vary"] and "rrsw: depth" in texts["vary"]

    def test_a_run_may_plan_as_if_on_another_device(self, tiny, tmp_path, capsys):
        widths = {}
        for name, table in (("flat", [[1, 1.0], [64, 1.0]]), ("steep", [[1, 1.0], [2, 50.0], [64, 5000.0]])):
            (tmp_path / name).write_text(json.dumps(table))
            given = ["--cost", str(tmp_path / name), "--out", str(tmp_path / f"out-{name}"), "--tasks", "mt-bench"]
            assert main(["run", *tiny, *given, "--methods", "spectra-core", "--max-new-tokens", "30"]) == 0
            rows = {r["method"]: r for r in read_rows(tmp_path / f"out-{name}" / ROWS)}
            assert rows["spectra-core"]["identical"]
            assert rows["spectra-core"]["cost"] == table
            widths[name] = rows["spectra-core"]["queries"]
        assert widths["steep"] == 1 < 5 < widths["flat"]
        capsys.readouterr()
        assert main(["run", *tiny, "--out", str(tmp_path / "x"), "--cost", str(tmp_path / "none")]) == 2
        assert capsys.readouterr().err.startswith("spectra.bench: cost: ")

    @pytest.mark.parametrize(
        ("method", "vary", "values"),
        [("spectra-paper-core", "W", ["0", "3"]), ("anpd", "K", ["2", "4"]), ("lookahead", "nodes", ["5", "20"])],
    )
    def test_sweep(self, tiny, tmp_path, capsys, method, vary, values):
        common = ["--out", str(tmp_path), "--tasks", "gsm8k", "--method", method]
        assert main(["sweep", *tiny, *common, "--vary", vary, "--values", ",".join(values)]) == 0
        lines = (tmp_path / "sweep.md").read_text().splitlines()
        assert lines[0] == f"# {method}, {vary} varied"
        assert [line.split(" | ")[0] for line in lines if line.endswith("2 of 2 |")] == [f"| {v}" for v in values]
        assert {r["method"] for r in read_rows(tmp_path / ROWS)} == {
            "autoregressive",
            *(f"{method} {vary}={v}" for v in values),
        }
        assert (tmp_path / "sweep.json").exists()

    @pytest.mark.parametrize(("method", "vary", "values"), [("draft-model", "K", "1,3"), ("spechub", "depth", "1,2")])
    def test_sweep_of_methods_with_a_draft_model(self, tiny, tmp_path, method, vary, values):
        make("llama", 3).save_pretrained(tmp_path / "small")
        common = [
            "--out",
            str(tmp_path / "out"),
            "--tasks",
            "gsm8k",
            "--limit",
            "1",
            "--draft",
            str(tmp_path / "small"),
        ]
        arguments = ["sweep", *tiny, *common, "--method", method, "--vary", vary, "--values", values]
        assert main([*arguments, "--temperature", "1"]) == 0
        rows = read_rows(tmp_path / "out" / ROWS)
        assert [(row["method"], row["identical"]) for row in rows[1:]] == [
            (f"{method} {vary}={value}", None) for value in values.split(",")
        ]
        assert rows[0]["drafts"] == ["small"]

    def test_sweep_of_temperatures(self, tiny, tmp_path):
        common = ["--out", str(tmp_path), "--tasks", "gsm8k", "--method", "anpd", "--limit", "1"]
        assert main(["sweep", *tiny, *common, "--vary", "temperature", "--values", "0,0.7"]) == 0
        rows = read_rows(tmp_path / "temperature-0.7" / ROWS)
        assert [(r["method"], r["temperature"], r["identical"]) for r in rows] == [
            ("autoregressive", 0.7, True),
            ("anpd", 0.7, True),
        ]

    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            (["run", "--methods", "anpb"], "methods: 'anpb' is unknown"),
            (["run", "--methods", "hf-assisted"], "assistant: hf-assisted needs a draft model; give --assistant"),
            (["run", "--repeats", "0"], "repeats: 0 is out of range"),
            (["run", "--top-p", "0"], "top_p: 0.0 is out of range"),
            (["run", "--nodes", "0"], "nodes: 0 is out of range"),
            (["run", "--max-new-tokens", "0"], "max_new_tokens: 0 is out of range"),
            (["run", "--limit", "0"], "limit: 0 is out of range"),
            (["run", "--tasks", "xsum"], "data: no xsum*.jsonl in"),
            (["exactness", "--methods", "hf-generate"], "methods: 'hf-generate' is unknown"),
            (["exactness", "--methods", "rrs"], "methods: rrs draws a text of its own above temperature 0"),
            (["exactness", "--temperatures", "-1"], "temperature: -1.0 is out of range"),
            (["exactness", "--temperatures", "hot"], "temperatures: 'hot' is not a number"),
            (["sweep", "--vary", "K", "--values", "1"], "vary: spectra-paper-core has no K; give N, W, G, refine"),
            (["sweep", "--vary", "N", "--values", "1"], "values: 1 is out of range; give a whole number from 2 to 16"),
            (["sweep", "--vary", "W", "--values", "two"], "values: 'two' is not a number"),
            (["sweep", "--vary", "W", "--values", "1", "--method", "no"], "method: 'no' is unknown"),
        ],
    )
    def test_bad_input_is_one_line_before_a_model_is_loaded(self, tiny, tmp_path, capsys, arguments, said):
        model = ["--model", "nobody/nothing"]  # loading it would be another error
        assert main([*arguments[:1], *tiny, *model, "--out", str(tmp_path / "out"), *arguments[1:]]) == 2
        err = capsys.readouterr().err
        assert err.startswith(f"spectra.bench: {said}")
        assert err.count("\n") == 1
        assert not (tmp_path / "out").exists()

    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            (["divergence", "hello", "--out", "no/such/folder/x.json"], "out: cannot write no/such/folder/x.json"),
            (["divergence", "\udcff", "--out", "x.json"], "prompt: it is not valid Unicode"),
            (["weights", "--model", " "], "model: it is blank"),
            (["profile", "--prompt", " "], "prompt: it is blank"),
            (["page", "--method", "no"], "method: 'no' is unknown"),
        ],
    )
    def test_one_prompt_s_options_are_checked_before_a_model_is_loaded(self, monkeypatch, capsys, arguments, said):
        for loader in ("service.loading.ModelOptions.load", "target.load.load_network", "bench.gpu.page.served"):
            monkeypatch.setattr(f"spectra.{loader}", lambda *_, **__: pytest.fail("loaded"))
        assert main(arguments) == 2
        err = capsys.readouterr().err
        assert err.startswith(f"spectra.bench: {said}") and err.count("\n") == 1

    @pytest.mark.parametrize("method", ["rest", "lookahead-rest"])
    def test_a_method_without_its_datastore_says_how_to_build_one(self, tiny, tmp_path, capsys, method):
        assert main(["run", *tiny, "--out", str(tmp_path / "out"), "--methods", f"anpd,{method}"]) == 2
        err = capsys.readouterr().err.splitlines()[-1]
        assert err.startswith("spectra.bench: datastore: no unrefined datastore fits tiny")
        assert "python -m spectra.datastore build --corpus FILES --model MODEL --out " in err
        assert not (tmp_path / "out").exists()

    def test_an_assistant_that_does_not_fit_is_named(self, tiny, tmp_path, capsys):
        make("llama", vocab_size=99).save_pretrained(tmp_path / "other")
        common = ["--out", str(tmp_path / "out"), "--methods", "hf-assisted"]
        assert main(["run", *tiny, *common, "--assistant", str(tmp_path / "other")]) == 2
        assert "assistant: " in (err := capsys.readouterr().err)
        assert "99 tokens, the model 64" in err
        assert main(["run", *tiny, *common, "--assistant", str(tmp_path / "none")]) == 2
        assert "is not there, and no hub id; give a model's folder" in (err := capsys.readouterr().err)
        assert err.startswith("spectra.bench: assistant: ")
