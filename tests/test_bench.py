"""Benchmarks: rows of two turns, resuming without a lost or doubled row, settings that do not mix, tables by hand."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from tiny import COST, make, model_of
from words import tokenizer

from spectra import Sampling
from spectra.bench.__main__ import main
from spectra.bench.answer import answer_turns, turn_ids
from spectra.bench.charts import acceptance_by_source, mean_cumulative, tau_by_method, write_figures
from spectra.bench.merge import merge, report
from spectra.bench.progress import Progress, clock
from spectra.bench.report import markdown
from spectra.bench.rows import ROWS, SETTINGS, read_rows
from spectra.bench.runner import Job, run_methods
from spectra.bench.tasks import Prompt
from spectra.errors import SpectraError
from spectra.target.huggingface import HuggingFaceTarget
from spectra.target.plan import Plan

SAME = ("w5 w6",)
PROMPTS = [Prompt("mt-bench", ("w5 w6 w7 w5 w6", "w9 w8"), "qa"), Prompt("gsm8k", SAME), Prompt("xsum", SAME)]
METHODS = ["anpd", "token-recycling", "hf-generate"]
JOB = Job(Sampling(), max_new_tokens=12)


def tiny_target(chat=True, **changes):
    model = make("llama", **changes) if changes else model_of("llama")
    return HuggingFaceTarget(model, tokenizer(chat), name="tiny", plan=Plan(cost=COST))


def plain_tokens(ids):
    return [len(ids)], 0.5, []


class TestTurns:
    def test_a_later_turn_continues_what_plain_decoding_answered(self):
        prompt = Prompt("mt-bench", ("w5", "w9", "w3"))
        ids = turn_ids(tokenizer(), prompt, [[7], [4]])
        assert ids == [0, 5, 0, 7, 0, 9, 0, 4, 0, 3, 1]  # the template of these tests calls everybody user
        assert turn_ids(tokenizer(), prompt, []) == [0, 5, 1]
        assert turn_ids(tokenizer(chat=False), prompt, [[7]]) == [5, 7, 9]

    def test_seconds_and_outputs_of_the_turns_are_one_answer(self):
        prompt = Prompt("mt-bench", ("w5", "w9"))
        plain = answer_turns(tokenizer(), prompt, plain_tokens)
        assert plain.outputs == [[3], [7]]
        assert plain.seconds == 1.0
        seen = []

        def other(ids):
            seen.append(ids)
            return [60], 2.0, []

        assert answer_turns(tokenizer(), prompt, other, plain).tokens == [60, 60]
        assert seen == [[0, 5, 1], [0, 5, 0, 3, 0, 9, 1]]


class TestRun:
    @pytest.fixture(scope="class")
    def ran(self, tmp_path_factory):
        out = tmp_path_factory.mktemp("run")
        return out, run_methods(tiny_target(), PROMPTS, METHODS, out, JOB, repeats=2)

    def test_one_row_a_prompt_method_and_repeat_with_every_field(self, ran):
        out, rows = ran
        assert read_rows(out / ROWS) == rows
        order = [(row["task"], row["repeat"], row["method"]) for row in rows]
        methods = ["autoregressive", *METHODS]
        assert order == [(p.task, r, m) for p in PROMPTS for r in range(2) for m in methods]
        fields = "task id category method repeat temperature top_p seed max_new_tokens new_tokens seconds mac_tp tau"
        more = "steps identical distinct4 sources model dtype numerics device versions offered acceptance step_tokens"
        for row in rows:
            assert set(f"{fields} {more}".split()) <= set(row)
            assert set(row["versions"]) == {"spectra", "torch", "transformers", "python"}
            peer = row["method"].startswith("hf")
            assert [row[name] is None for name in ("tau", "mac_tp", "steps", "step_tokens")] == [peer] * 4
            assert row["seconds"] > 0
            assert row["identical"] is True
            assert row["turns"] == (2 if row["task"] == "mt-bench" else 1)
            assert row["new_tokens"] == 12 * row["turns"]
            if row["steps"]:
                assert sum(row["step_tokens"]) == row["new_tokens"] == sum(row["sources"].values())
                assert len(row["step_tokens"]) == row["steps"]

    def test_a_finished_run_runs_nothing_again(self, ran, capsys):
        out, rows = ran
        before = (out / ROWS).read_bytes()
        assert run_methods(tiny_target(), PROMPTS, METHODS, out, JOB, repeats=2) == rows
        assert (out / ROWS).read_bytes() == before
        assert "left" not in capsys.readouterr().err

    def test_a_run_that_was_killed_goes_on_without_a_lost_or_doubled_row(self, ran, tmp_path):
        whole = (ran[0] / ROWS).read_text()
        (tmp_path / SETTINGS).write_text((ran[0] / SETTINGS).read_text())
        (tmp_path / ROWS).write_text(whole[: whole.index("\n", len(whole) // 3) + 40])  # in the middle of a row
        kept = len(read_rows(tmp_path / ROWS))
        assert kept == whole[: len(whole) // 3].count("\n") + 1
        rows = run_methods(tiny_target(), PROMPTS, METHODS, tmp_path, JOB, repeats=2)
        again = [json.loads(line) for line in (tmp_path / ROWS).read_text().splitlines()]
        assert again == rows
        assert again[:kept] == ran[1][:kept]
        keys = [(row["task"], row["method"], row["repeat"]) for row in rows]
        assert keys == [(row["task"], row["method"], row["repeat"]) for row in ran[1]]
        assert all(row["identical"] for row in rows)

    @pytest.mark.parametrize(
        ("job", "said"),
        [
            (replace(JOB, sampling=Sampling(temperature=0.5)), "temperature 0.0, this run has 0.5"),
            (replace(JOB, sampling=Sampling(seed=3)), "seed 0, this run has 3"),
            (replace(JOB, max_new_tokens=9), "max_new_tokens 12, this run has 9"),
            (replace(JOB, nodes=4), "nodes None, this run has 4"),
        ],
    )
    def test_rows_of_other_settings_are_not_mixed(self, ran, job, said):
        before = (ran[0] / ROWS).read_bytes()
        with pytest.raises(SpectraError, match=f"^out: .* holds rows with {said}; give another folder"):
            run_methods(tiny_target(), PROMPTS, METHODS, ran[0], job)
        assert (ran[0] / ROWS).read_bytes() == before

    def test_a_folder_that_cannot_be_gone_on_with_is_refused(self, ran, tmp_path):
        (tmp_path / ROWS).write_text('{"id": 1}\n')
        with pytest.raises(SpectraError, match=r"^out: .* holds rows without settings.json"):
            run_methods(tiny_target(), PROMPTS, METHODS, tmp_path, JOB)
        (tmp_path / SETTINGS).write_text("{")
        with pytest.raises(SpectraError, match=r"^out: .*settings.json is damaged"):
            run_methods(tiny_target(), PROMPTS, METHODS, tmp_path, JOB)
        (tmp_path / SETTINGS).write_text((ran[0] / SETTINGS).read_text())
        (tmp_path / ROWS).write_text('{"id": 1}\n{"id": \n{"id": 2}\n')
        with pytest.raises(SpectraError, match=r"^out: .*rows.jsonl line 2 is damaged"):
            run_methods(tiny_target(), PROMPTS, METHODS, tmp_path, JOB)
        (tmp_path / "file").write_text("")
        with pytest.raises(SpectraError, match=r"^out: cannot make .*file"):
            run_methods(tiny_target(), PROMPTS, METHODS, tmp_path / "file", JOB)

    def test_a_sampled_peer_is_not_compared(self, tmp_path):
        job = replace(JOB, sampling=Sampling(temperature=0.9, seed=2))
        rows = run_methods(tiny_target(), PROMPTS[1:2], METHODS, tmp_path, job)
        assert [row["identical"] for row in rows] == [True, True, True, None]
        assert rows[-1]["first_difference"] is None

    def test_a_prompt_that_does_not_fit_is_left_out_with_a_note(self, tmp_path, capsys):
        target = tiny_target(max_position_embeddings=40)
        prompts = [Prompt("xsum", ("w5 " * 60,)), Prompt("mt-bench", ("w5", "w7 " * 30)), *PROMPTS[1:]]
        rows = run_methods(target, prompts, METHODS, tmp_path, JOB)
        assert [row["task"] for row in rows] == ["gsm8k"] * 4 + ["xsum"] * 4
        said = capsys.readouterr().err
        assert said.count("is left out: prompt: ") == 2
        assert prompts[0].id in said
        assert "4/4 prompts" in said

    def test_assisted_generation_writes_what_plain_decoding_writes(self, tmp_path):
        job = replace(JOB, assistant=make("llama", 1))
        rows = run_methods(tiny_target(tie_word_embeddings=False), PROMPTS[1:2], ["hf-assisted"], tmp_path, job)
        assert [row["identical"] for row in rows] == [True, True]


def row(method, task="a", prompt="x", *, seconds=1.0, tokens=10, steps=None, repeat=0, processor="cpu", **changes):
    measured = {"steps": steps, "tau": tokens / steps, "mac_tp": tokens / seconds * 2, "queries": 3.0} if steps else {}
    return {
        "task": task, "id": prompt, "category": "", "method": method, "repeat": repeat, "seconds": seconds,
        "new_tokens": tokens, "steps": None, "tau": None, "mac_tp": None, "queries": None, "identical": True,
        "distinct4": 0.5,
        "sources": {"model": steps or 0, "ngram": tokens - (steps or 0)}, "offered": {"ngram": 8},
        "acceptance": {"ngram": 0.25}, "step_tokens": [1, 2], "processor": processor,
    } | measured | changes  # fmt: skip


ROWS_BY_HAND = [
    row("autoregressive", steps=10),
    row("anpd", seconds=0.5, steps=5),
    row("hf-generate", seconds=0.8, identical=False),
    row("autoregressive", "b", "y", steps=10, seconds=2.0),
    row("anpd", "b", "y", steps=4, seconds=9.0),
    row("anpd", "b", "y", steps=4, seconds=1.0, repeat=1),
    row("anpd", "b", "y", steps=4, seconds=0.5, repeat=2),
]


class TestTables:
    def test_layouts_of_the_paper(self):
        text = markdown(ROWS_BY_HAND).splitlines()
        assert "| method | a speedup | a tau | b speedup | b tau | all speedup | all tau |" in text
        assert "| autoregressive | 1.00 | 1.00 | 1.00 | 1.00 | 1.00 | 1.00 |" in text
        assert "| anpd | 2.00 | 2.00 | 2.00 | 2.50 | 2.00 | 2.22 |" in text  # b: the medians, 1 s and 20 tokens/s
        assert "| hf-generate |  |  |  |  |  |  |" in text
        assert "| anpd | 40.0 | 20.0 | 2.00 | 20.0 | 10.0 | 2.00 | 30.0 | 13.3 | 2.00 |" in text
        assert "| hf-generate |  | 12.5 | 1.25 |  |  |  |  | 12.5 | 1.88 |" in text

    def test_all_that_is_known_of_a_task(self):
        text = markdown(ROWS_BY_HAND)
        assert "## b (1 prompts)" in text
        anpd = "| anpd | 20.0 | 1.60 | 2.00 | 2.00 | 2.00 | 3.0 | 40.0 | 1 of 1 | 0.50 | model 50%, ngram 50% |"
        assert anpd in text.splitlines()
        assert "| hf-generate | 12.5 | 1.00 | 1.25 | 1.25 |  |  |  | 0 of 1 | 0.50 |  |" in text.splitlines()
        uncompared = markdown([row("autoregressive", steps=9), row("hf-generate", identical=None)])
        assert "| hf-generate | 10.0 | 1.00 | 1.00 | 1.00 |  |  |  |  | 0.50 |  |" in uncompared.splitlines()

    def test_categories_of_a_task(self):
        kinds = [("q", "x"), ("q", "y"), ("r", "z")]
        rows = [row("autoregressive", prompt=prompt, category=kind, steps=10) for kind, prompt in kinds]
        rows += [row("anpd", prompt=prompt, category=kind, steps=5, seconds=0.5) for kind, prompt in kinds]
        assert "| anpd | 2.00 | 2.00 | 2.00 | 2.00 | 2.00 | 2.00 |" in (text := markdown(rows).splitlines())
        assert "| method | q speedup | q tau | r speedup | r tau | all speedup | all tau |" in text
        assert "by category" not in markdown(rows[:2])

    def test_runs_of_two_devices_side_by_side(self, tmp_path):
        for name in ("one", "two"):
            (tmp_path / name).mkdir()
            rows = [row("autoregressive", steps=9, processor=name), row("anpd", seconds=0.25, steps=5, processor=name)]
            (tmp_path / name / ROWS).write_text("".join(json.dumps(r) + "\n" for r in rows))
        sections = merge([tmp_path / "one", tmp_path / "two"])
        assert list(sections) == ["one", "two"]
        text = report(sections).splitlines()
        assert "| method | one speedup | one tau | two speedup | two tau |" in text
        assert "| anpd | 4.00 | 2.00 | 4.00 | 2.00 |" in text
        assert "# two" in text
        with pytest.raises(SpectraError, match=r"^folders: .*one and .*one hold the same rows"):
            merge([tmp_path / "one", tmp_path / "one"])
        with pytest.raises(SpectraError, match=r"^folders: no rows in"):
            merge([tmp_path])


class TestFigures:
    def test_tokens_against_steps(self):
        assert mean_cumulative([[1, 1], [3, 1, 2, 1]]) == [0.0, 2.0, 3.0, 4.0, 4.5]

    def test_acceptance_is_of_all_offers_together(self):
        rows = [row("anpd"), row("anpd", prompt="y", offered={"ngram": 2}, acceptance={"ngram": 1.0})]
        rows.append(row("hf-generate", offered=None, acceptance=None))
        figure = acceptance_by_source(rows)
        assert [(bar["name"], bar["x"], bar["y"]) for bar in figure["data"]] == [("anpd", ["ngram"], [0.4])]

    def test_tau_of_all_tasks_and_of_each(self):
        bars = tau_by_method(ROWS_BY_HAND)["data"]
        assert [bar["name"] for bar in bars] == ["all", "a", "b"]
        assert bars[2]["x"] == ["autoregressive", "anpd"]
        assert bars[2]["y"] == [1.0, 2.5]

    def test_files(self, tmp_path):
        drawn = acceptance_by_source([row("anpd")])
        write_figures(tmp_path / "new", {"a": drawn, "empty": {"data": [], "layout": {}}})
        assert json.loads((tmp_path / "new" / "a.json").read_text()) == drawn
        assert "ngram" in (tmp_path / "new" / "a.html").read_text()
        assert not list(tmp_path.glob("new/empty*"))


class TestProgress:
    def test_time_left_counts_what_was_run(self, capsys, monkeypatch):
        now = iter([100.0, 110.0, 130.0])
        monkeypatch.setattr("spectra.bench.progress.time.monotonic", lambda: next(now))
        progress = Progress(4)
        for ran in (False, True, True, True):
            progress.step(ran=ran)
        said = [text.strip() for text in capsys.readouterr().err.split("\r")[1:]]
        assert said == ["1/4 prompts", "2/4 prompts, 0:20 left", "3/4 prompts, 0:15 left", "4/4 prompts"]

    def test_clock(self):
        assert [clock(s) for s in (0, 59.6, 3599, 3700)] == ["0:00", "1:00", "59:59", "1:01:40"]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """Arguments: a saved tiny model, a folder with tasks, short answers."""
    place = tmp_path_factory.mktemp("models")
    make("llama", max_position_embeddings=400).save_pretrained(place / "tiny")
    tokenizer().save_pretrained(place / "tiny")
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
            (["exactness", "--temperatures", "-1"], "temperature: -1.0 is out of range"),
            (["exactness", "--temperatures", "hot"], "temperatures: 'hot' is not a number"),
            (["sweep", "--vary", "K", "--values", "1"], "vary: spectra-paper-core has no K; give N, W, G, refine"),
            (["sweep", "--vary", "N", "--values", "1"], "values: 1 is out of range; give a whole number from 2 to 16"),
            (["sweep", "--vary", "W", "--values", "two"], "values: 'two' is not a number"),
            (["sweep", "--vary", "W", "--values", ","], "values: there is none"),
            (["sweep", "--vary", "W", "--values", "1", "--method", "no"], "method: 'no' is unknown"),
        ],
    )
    def test_bad_input_is_one_line_before_a_model_is_loaded(self, tiny, tmp_path, capsys, arguments, said):
        model = ["--model", str(tmp_path / "nothing")]
        assert main([*arguments[:1], *tiny, *model, "--out", str(tmp_path / "out"), *arguments[1:]]) == 2
        err = capsys.readouterr().err
        assert err.startswith(f"spectra.bench: {said}")
        assert err.count("\n") == 1
        assert not (tmp_path / "out").exists()

    def test_a_report_does_not_load_torch(self, tmp_path):
        (tmp_path / ROWS).write_text(json.dumps(row("autoregressive", steps=9)) + "\n")
        code = f"import sys; from spectra.bench.__main__ import main; main(['report', {str(tmp_path)!r}])"
        code += "; sys.exit(int('torch' in sys.modules))"
        root = Path(__file__).parent.parent
        assert subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, check=False).returncode == 0

    def test_an_assistant_that_does_not_fit_is_named(self, tiny, tmp_path, capsys):
        make("llama", vocab_size=99).save_pretrained(tmp_path / "other")
        common = ["--out", str(tmp_path / "out"), "--methods", "hf-assisted"]
        assert main(["run", *tiny, *common, "--assistant", str(tmp_path / "other")]) == 2
        assert "assistant: " in (err := capsys.readouterr().err)
        assert "99 tokens, the model 64" in err
        assert main(["run", *tiny, *common, "--assistant", str(tmp_path / "none")]) == 2
        assert "assistant: cannot load" in capsys.readouterr().err
