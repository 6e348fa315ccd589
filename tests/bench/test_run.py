"""Benchmark runs: rows of two turns, resuming without a lost or doubled row, settings that do not mix."""

import json
from dataclasses import replace

import pytest
import torch
from benched import loaded
from tiny import make, model_of, target_of
from words import tokenizer

from spectra.bench.run.answers import AnswerOptions, Turn, answer_turns, turn_ids
from spectra.bench.run.rows import ROWS, SETTINGS, read_rows
from spectra.bench.run.runner import PromptProgress, clock
from spectra.bench.tasks import Prompt
from spectra.bench.timing import run_methods
from spectra.errors import SpectraError
from spectra.target.draft_model import DraftModel

SAME = ("w5 w6",)
PROMPTS = [Prompt("mt-bench", ("w5 w6 w7 w5 w6", "w9 w8"), "qa"), Prompt("gsm8k", SAME), Prompt("xsum", SAME)]
METHODS = ["anpd", "token-recycling", "hf-generate"]
ANSWERS = AnswerOptions(max_new_tokens=12)


def plain_tokens(ids):
    return Turn([len(ids)], 0.5, [])


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
            return Turn([60], 2.0, [])

        assert answer_turns(tokenizer(), prompt, other, plain).tokens == [60, 60]
        assert seen == [[0, 5, 1], [0, 5, 0, 3, 0, 9, 1]]


class TestRun:
    @pytest.fixture(scope="class")
    def ran(self, tmp_path_factory):
        out, threads = tmp_path_factory.mktemp("run"), torch.get_num_threads()
        torch.set_num_threads(1)  # as in the tests: rows record it
        try:
            return out, run_methods(loaded(), PROMPTS, METHODS, out, ANSWERS, repeats=2)
        finally:
            torch.set_num_threads(threads)

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
        assert run_methods(loaded(), PROMPTS, METHODS, out, ANSWERS, repeats=2) == rows
        assert (out / ROWS).read_bytes() == before
        assert "left" not in capsys.readouterr().err

    def test_a_run_that_was_killed_goes_on_without_a_lost_or_doubled_row(self, ran, tmp_path):
        whole = (ran[0] / ROWS).read_text()
        (tmp_path / SETTINGS).write_text((ran[0] / SETTINGS).read_text())
        (tmp_path / ROWS).write_text(whole[: whole.index("\n", len(whole) // 3) + 40])  # in the middle of a row
        kept = len(read_rows(tmp_path / ROWS))
        assert kept == whole[: len(whole) // 3].count("\n") + 1
        rows = run_methods(loaded(), PROMPTS, METHODS, tmp_path, ANSWERS, repeats=2)
        again = read_rows(tmp_path / ROWS)
        assert again == rows
        assert again[:kept] == ran[1][:kept]
        keys = [(row["task"], row["method"], row["repeat"]) for row in rows]
        assert keys == [(row["task"], row["method"], row["repeat"]) for row in ran[1]]
        assert all(row["identical"] for row in rows)

    @pytest.mark.parametrize(
        ("answers", "said"),
        [
            (replace(ANSWERS, temperature=0.5), "temperature 0.0, this run has 0.5"),
            (replace(ANSWERS, seed=3), "seed 0, this run has 3"),
            (replace(ANSWERS, max_new_tokens=9), "max_new_tokens 12, this run has 9"),
            (replace(ANSWERS, nodes=4), "nodes None, this run has 4"),
        ],
    )
    def test_rows_of_other_settings_are_not_mixed(self, ran, answers, said):
        before = (ran[0] / ROWS).read_bytes()
        with pytest.raises(SpectraError, match=f"^out: .* holds rows with {said}; give another folder"):
            run_methods(loaded(), PROMPTS, METHODS, ran[0], answers)
        assert (ran[0] / ROWS).read_bytes() == before

    def test_a_folder_that_cannot_be_gone_on_with_is_refused(self, ran, tmp_path):
        (tmp_path / ROWS).write_text('{"id": 1}\n')
        with pytest.raises(SpectraError, match=r"^out: .* holds rows without settings.json"):
            run_methods(loaded(), PROMPTS, METHODS, tmp_path, ANSWERS)
        (tmp_path / SETTINGS).write_text("{")
        with pytest.raises(SpectraError, match=r"^out: .*settings.json is damaged"):
            run_methods(loaded(), PROMPTS, METHODS, tmp_path, ANSWERS)
        (tmp_path / SETTINGS).write_text((ran[0] / SETTINGS).read_text())
        (tmp_path / ROWS).write_text('{"task": "a", "id": 1}\n{"id": \n{"id": 2}\n')
        with pytest.raises(SpectraError, match=r"^out: .*rows.jsonl line 2 is damaged"):
            run_methods(loaded(), PROMPTS, METHODS, tmp_path, ANSWERS)
        (tmp_path / "file").write_text("")
        with pytest.raises(SpectraError, match=r"^out: cannot make .*file"):
            run_methods(loaded(), PROMPTS, METHODS, tmp_path / "file", ANSWERS)

    @pytest.mark.parametrize("flip", [b'"ou|tput"', b'"m|ethod"', b'"se|conds"', b'"new_tokens": |', b'"identical": |'])
    def test_a_row_that_was_altered_is_refused(self, ran, tmp_path, flip):
        (tmp_path / SETTINGS).write_text((ran[0] / SETTINGS).read_text())
        before = (ran[0] / ROWS).read_bytes()
        at = before.index(flip.replace(b"|", b"")) + flip.index(b"|")
        (tmp_path / ROWS).write_bytes(before[:at] + bytes([before[at] ^ 1]) + before[at + 1 :])
        with pytest.raises(SpectraError, match=r"^out: .*rows.jsonl line 1 is damaged \("):
            run_methods(loaded(), PROMPTS, METHODS, tmp_path, ANSWERS)

    def test_rows_of_older_versions_have_no_checksum_and_are_gone_on_with(self, ran, tmp_path):
        (tmp_path / SETTINGS).write_text((ran[0] / SETTINGS).read_text())
        rows = read_rows(ran[0] / ROWS)
        (tmp_path / ROWS).write_text("".join(json.dumps(row) + "\n" for row in rows[:-1]))
        again = run_methods(loaded(), PROMPTS, METHODS, tmp_path, ANSWERS, repeats=1)
        assert again[:3] == [row for row in rows if row["repeat"] == 0][:3]

    def test_a_sampled_peer_is_not_compared(self, tmp_path):
        answers = replace(ANSWERS, temperature=0.9, seed=2)
        rows = run_methods(loaded(), PROMPTS[1:2], METHODS, tmp_path, answers)
        assert [row["identical"] for row in rows] == [True, True, True, None]
        assert rows[-1]["first_difference"] is None

    def test_a_method_that_draws_its_own_text_is_not_compared(self, tmp_path):
        model = loaded(drafts=[DraftModel(target_of(model_of("llama", seed=3)))])
        methods = ["draft-model", "specinfer-naive"]
        for temperature, identical in ((0.0, [True, True, True]), (0.9, [True, None, True])):
            answers = replace(ANSWERS, temperature=temperature, seed=2)
            rows = run_methods(model, PROMPTS[1:2], methods, tmp_path / str(temperature), answers)
            assert [row["identical"] for row in rows] == identical
            assert rows[1]["drafts"] == [model.resources.drafts[0].name]
            assert rows[1]["offered"]["draft"] > 0

    def test_a_prompt_that_does_not_fit_is_left_out_with_a_note(self, tmp_path, capsys):
        model = loaded(max_position_embeddings=40)
        prompts = [Prompt("xsum", ("w5 " * 60,)), Prompt("mt-bench", ("w5", "w7 " * 30)), *PROMPTS[1:]]
        rows = run_methods(model, prompts, METHODS, tmp_path, ANSWERS)
        assert [row["task"] for row in rows] == ["gsm8k"] * 4 + ["xsum"] * 4
        said = capsys.readouterr().err
        assert said.count("is left out: prompt: ") == 2
        assert prompts[0].id in said
        assert "4/4 prompts" in said

    def test_assisted_generation_writes_what_plain_decoding_writes(self, tmp_path):
        model, assistant = loaded(tie_word_embeddings=False), make("llama", 1)
        rows = run_methods(model, PROMPTS[1:2], ["hf-assisted"], tmp_path, ANSWERS, assistant=assistant)
        assert [row["identical"] for row in rows] == [True, True]


class TestProgress:
    def test_time_left_counts_what_was_run(self, capsys, monkeypatch):
        now = iter([100.0, 110.0, 130.0])
        monkeypatch.setattr("spectra.bench.run.runner.time.monotonic", lambda: next(now))
        progress = PromptProgress(4)
        for ran in (False, True, True, True):
            progress.step(ran=ran)
        said = [text.strip() for text in capsys.readouterr().err.split("\r")]
        assert said == ["1/4 prompts", "2/4 prompts, 0:20 left", "3/4 prompts, 0:15 left", "4/4 prompts"]

    def test_an_error_takes_the_place_of_the_line(self, capsys):
        """It stood behind it, in the same line."""
        PromptProgress(4).step()
        assert capsys.readouterr().err.endswith("\r")

    def test_clock(self):
        assert [clock(s) for s in (0, 59.6, 3599, 3700)] == ["0:00", "1:00", "59:59", "1:01:40"]
