"""`bench batch`: batches of every size on the same prompts, texts compared with those of each prompt alone."""

import json
import os
import subprocess
import sys
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from types import SimpleNamespace

import pytest
from benched import loaded
from words import save_model

from spectra.bench import batches
from spectra.bench.batches import PromptGroup, groups_of, markdown, run_groups
from spectra.bench.run.answers import AnswerOptions
from spectra.bench.run.rows import read_rows
from spectra.bench.tasks import Prompt
from spectra.cli.bench import main
from spectra.errors import SpectraError
from spectra.metrics import distinct4
from spectra.service.loading import ModelOptions
from spectra.target.distributed import Distributed

PROMPTS = tuple(Prompt("gsm8k", (text,)) for text in ("w5 w6 w7 w5 w6", "w9", "w3 w4 w3 w4", "w8 w8"))
ROOT = Path(__file__).parents[2]
ANSWERS = AnswerOptions(max_new_tokens=12)
METHODS = ["spectra-core", "hf-generate"]


def run(out, answers=ANSWERS, sizes=(2, 4), methods=METHODS, models=None, **others):
    models = models or dict.fromkeys(("autoregressive", *methods), loaded())
    return run_groups(models, [PromptGroup(PROMPTS)], methods, sizes, out, answers, **others)


def test_rows_of_every_size_and_no_text_is_another(tmp_path):
    rows = run(tmp_path)
    cells = [(row["batch"], row["method"]) for row in rows]
    assert cells == [(size, method) for size in (1, 2, 4) for method in ("autoregressive", *METHODS)]
    assert {(row["identical"], row["sequences"]) for row in rows} == {(4, 4)}
    assert len({row["new_tokens"] for row in rows}) == 1
    assert all(row["seconds"] > 0 for row in rows)
    assert "output" in rows[0] and "output" not in rows[3]
    assert [row["prefill_seconds"] is None for row in rows] == [False, False, True] * 3
    table = markdown(rows).splitlines()
    assert len(table) == 2 + 9
    distinct = fmean(map(distinct4, rows[0]["output"]))
    assert table[2].startswith("| 1 | autoregressive | ")
    assert all(line.endswith(f" | 4 of 4 | {distinct:.2f} |") for line in table[2:])
    assert table[2].endswith(f" | 1.00 | 1.00 | 4 of 4 | {distinct:.2f} |")


def read_settings(out):
    return json.loads((out / "settings.json").read_text())


def row_of(batch, method, seconds, reading=1.0, **others):
    return {"id": "a", "batch": batch, "method": method, "repeat": 0, "new_tokens": 60, "seconds": seconds,
            "prefill_seconds": reading, "identical": 4, "sequences": 4, **others}  # fmt: skip


def test_the_table_has_rates_with_and_without_the_prompts_and_pairs():
    rows = [row_of(1, "autoregressive", 6.0), row_of(4, "autoregressive", 3.0), row_of(4, "hf-generate", 30.0, None)]
    rows += [row_of(4, "spectra", 2.0, distinct4=0.5), row_of(4, "spectra", 4.0, repeat=1, distinct4=1.0)]
    rows += [row_of(4, "autoregressive", 6.0, repeat=1)]
    assert markdown(rows[:1] + rows[2:] + rows[1:2]) == markdown(rows)  # measured again
    assert markdown(rows).splitlines()[2:] == [
        "| 1 | autoregressive | 10.0 | 12.0 | 1.00 | 1.00 | 4 of 4 |  |",
        "| 4 | autoregressive | 13.3 | 17.1 | 1.33 | 1.00 | 8 of 8 |  |",
        "| 4 | hf-generate | 2.0 |  | 0.20 | 0.10 | 4 of 4 |  |",
        "| 4 | spectra | 20.0 | 30.0 | 2.00 | 1.50 | 8 of 8 | 0.75 |",
    ]
    side_by_side = [row_of(1, "autoregressive", 6.0, process=0), row_of(1, "autoregressive", 4.0, id="b", process=1)]
    assert markdown(side_by_side).splitlines()[2].startswith("| 1 | autoregressive | 20.0 |")


def test_everything_is_measured_again_in_turn(tmp_path):
    rows = run(tmp_path, sizes=(4,), methods=["spectra-core"], repeats=2)
    cells = [(row["repeat"], row["batch"], row["method"]) for row in rows]
    one = [(size, method) for size in (1, 4) for method in ("autoregressive", "spectra-core")]
    assert cells == [(repeat, *cell) for repeat in (0, 1) for cell in one]
    assert {row["identical"] for row in rows} == {4}
    assert [("output" in row) for row in rows] == [True] + [False] * 7


def test_methods_of_a_size_take_turns_each_on_a_model_of_its_own(tmp_path, monkeypatch):
    """What disturbs the machine for some seconds made one method of a size faster than the other by a tenth."""
    plain, drafting, order, decode_many = loaded(), loaded(), [], batches.decode_many

    def noted(target, requests, *, at_once):
        for found in decode_many(target, requests, at_once=at_once):
            order.append((target is drafting.target, at_once))
            yield found

    monkeypatch.setattr(batches, "decode_many", noted)
    rows = run(tmp_path, models={"autoregressive": plain, "spectra-core": drafting}, sizes=(2,))
    assert [(row["batch"], row["method"], row["identical"]) for row in rows] == [
        (size, method, 4) for size in (1, 2) for method in ("autoregressive", *METHODS)
    ]
    turns = [drafts for drafts, size in order if size == 2]
    changes = sum(one != other for one, other in pairwise(turns))
    assert changes > len(turns) / 4
    assert read_settings(tmp_path)["in_turns"] == ["autoregressive", "spectra-core"]
    with pytest.raises(SpectraError, match="out: "):
        run(tmp_path, sizes=(2,))
    with pytest.raises(SpectraError, match="out: "):  # the rows that are there were in turns with others
        run(tmp_path, models={"autoregressive": plain, "spectra-core": drafting, "anpd": loaded()}, sizes=(2,))


def test_stock_generate_named_first_parts_no_turns(tmp_path, monkeypatch):
    """The report said that the methods took turns, and each of them was alone."""
    models, turns, answer = {"autoregressive": loaded(), "spectra-core": loaded()}, [], batches._BatchTiming._answer

    def noted(timing, methods, prompts, size, most):
        if most == ANSWERS.max_new_tokens:
            turns.append((size, *methods))
        return answer(timing, methods, prompts, size, most)

    monkeypatch.setattr(batches._BatchTiming, "_answer", noted)
    run(tmp_path, models=models, methods=["hf-generate", "spectra-core"], sizes=(2,))
    assert turns == [
        (size, *methods) for size in (1, 2) for methods in (("autoregressive", "spectra-core"), ("hf-generate",))
    ]


@pytest.mark.parametrize("method", ["autoregressive", "hf-generate"])
def test_there_are_no_turns_where_one_method_has_a_model(place, tmp_path, capsys, method):
    assert main(command(place, tmp_path, "--methods", method, "--in-turns")) == 0
    assert "in turns" not in capsys.readouterr().out
    assert "in_turns" not in read_settings(tmp_path)


def test_a_prompt_that_does_not_fit_ends_the_turns_of_all(place, tmp_path, capsys):
    lines = (place / "gsm8k_test.jsonl").read_text().splitlines(keepends=True)
    lines[1] = '{"question": "' + "w5 " * 300 + '"}\n'
    (tmp_path / "gsm8k_test.jsonl").write_text("".join(lines))
    assert main(command(place, tmp_path / "out", "--data", str(tmp_path), "--in-turns")) == 0
    said = capsys.readouterr().out
    assert "The methods of a size in turns, pass by pass." in said and said.count("4 of 4") == 4


def test_prompts_are_cut_into_whole_groups():
    assert [group.prompts for group in groups_of(PROMPTS, 2)] == [PROMPTS[:2], PROMPTS[2:]]
    assert [group.prompts for group in groups_of(PROMPTS, 3)] == [PROMPTS[:3]]
    with pytest.raises(SpectraError, match="batch: 4 prompts do not fill"):
        groups_of(PROMPTS, 5)


def test_a_stopped_run_goes_on(tmp_path):
    rows = run(tmp_path)
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(file.read_text().splitlines(keepends=True)[:4]))
    again = run(tmp_path)
    assert [row["seconds"] for row in again[:4]] == [row["seconds"] for row in rows[:4]]
    assert {row["identical"] for row in again} == {4}
    assert len(read_rows(file)) == 9
    with pytest.raises(SpectraError, match="out: "):
        run(tmp_path, AnswerOptions(max_new_tokens=9))


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    place = tmp_path_factory.mktemp("models")
    save_model(place / "tiny", longest=200)
    lines = "".join(f'{{"question": "w{number} w6 w5 w6"}}\n' for number in range(5, 11))
    (place / "gsm8k_test.jsonl").write_text(lines)
    return place


def command(place, out, *options):
    return ["batch", "--data", str(place), "--model", str(place / "tiny"), "--device", "cpu", "--max-new-tokens", "8",
            "--methods", "spectra-core", "--batch", "2", "--out", str(out), *options]  # fmt: skip


class OneByOne(Distributed):
    """Processes that are not there at the same time."""

    def anywhere(self, here):
        return here


def as_process(number, processes, device=None):
    """What `distributed` gives to one of several."""

    @contextmanager
    def distributed(asked):
        yield OneByOne(SimpleNamespace(device=device or asked, process_index=number, num_processes=processes))

    return distributed


def test_processes_share_the_prompts_and_the_first_reports(place, tmp_path, monkeypatch, capsys):
    for number in (1, 0):
        monkeypatch.setattr(batches, "distributed", as_process(number, 2))
        assert main(command(place, tmp_path)) == 0
    rows = [read_rows(tmp_path / f"process-{number}-of-2" / "rows.jsonl") for number in (0, 1)]
    assert [len({row["id"] for row in some}) for some in rows] == [2, 1]
    assert not {row["id"] for row in rows[0]} & {row["id"] for row in rows[1]}
    assert {row["identical"] for some in rows for row in some} == {2}
    said = capsys.readouterr().out
    assert said == (tmp_path / "report.md").read_text()
    assert "2 processes side by side" in said and said.count("6 of 6") == 4
    monkeypatch.setattr(batches, "distributed", as_process(0, 4))
    assert main(command(place, tmp_path / "four")) == 2
    assert "limit: 4 processes are more than groups of prompts (3); give more" in capsys.readouterr().err


def test_all_models_of_a_process_are_on_its_device(place, tmp_path, monkeypatch):
    """Those of the turns were all on the first one, whatever the process."""
    devices, load = [], ModelOptions.load

    def noted(options):
        devices.append(options.device)
        return load(replace(options, device="cpu"))

    monkeypatch.setattr(batches, "distributed", as_process(0, 2, "cuda:1"))
    monkeypatch.setattr(ModelOptions, "load", noted)
    assert main(command(place, tmp_path, "--in-turns")) == 0
    assert devices == ["cuda:1", "cuda:1"]


def test_groups_that_another_process_had_before_count_once(place, tmp_path, monkeypatch, capsys):
    lines = (place / "gsm8k_test.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "gsm8k_test.jsonl").write_text("".join(lines[4:] + lines[:4]))
    for processes, data in ((2, place), (3, place), (2, tmp_path)):
        for number in reversed(range(processes)):
            monkeypatch.setattr(batches, "distributed", as_process(number, processes))
            assert main(command(place, tmp_path / "out", "--data", str(data))) == 0
        assert capsys.readouterr().out.count("6 of 6") == 4, (processes, data)


def test_a_process_whose_prompts_do_not_fit_leaves_the_report_to_the_others(place, tmp_path, monkeypatch, capsys):
    """It ended with an error, and the one that waited for it in a traceback."""
    lines = (place / "gsm8k_test.jsonl").read_text().splitlines(keepends=True)
    for long, status in ((range(2, 4), 0), (range(6), 2)):
        some = [f'{{"question": "{f"w{at} " * 300}"}}\n' if at in long else line for at, line in enumerate(lines)]
        (tmp_path / "gsm8k_test.jsonl").write_text("".join(some))
        found = []
        for number in (1, 0):
            monkeypatch.setattr(batches, "distributed", as_process(number, 2))
            found.append(main(command(place, tmp_path / str(status), "--data", str(tmp_path))))
        assert found == [0, status]
        said = capsys.readouterr()
        assert ("4 prompts, 2 in a queue; 2 fill no group" in said.out) == (not status)
        assert ("max_new_tokens: no prompt and answer fit" in said.err) == bool(status)


def test_where_one_process_fails_all_end_in_one_line():
    class Others(OneByOne):
        def anywhere(self, here):
            return True

    for one, error in ((OneByOne, ValueError), (Others, ValueError), (Others, None), (OneByOne, None)):
        processes = one(SimpleNamespace(process_index=0, num_processes=2))
        expected = error or (SpectraError if one is Others else None)
        with pytest.raises(expected) if expected else nullcontext(), processes.all_of_it():
            if error:
                raise error


def test_methods_that_took_turns_are_all_measured_again_where_one_is_missing(tmp_path, monkeypatch):
    """The one that was missing answered alone, and the report said that it took turns."""
    models = {method: loaded() for method in ("autoregressive", "spectra-core")}
    rows = run(tmp_path, sizes=(2,), methods=["spectra-core"], models=models)
    file = tmp_path / "rows.jsonl"
    lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join(line for line in lines if '"spectra-core", "batch": 2' not in line))
    answered, answer = [], batches._BatchTiming._answer

    def noted(self, methods, *rest):
        answered.append(methods)
        return answer(self, methods, *rest)

    monkeypatch.setattr(batches._BatchTiming, "_answer", noted)
    again = run(tmp_path, sizes=(2,), methods=["spectra-core"], models=models)
    assert answered[-1] == ["autoregressive", "spectra-core"]
    assert [(row["batch"], row["method"]) for row in again] == [(row["batch"], row["method"]) for row in rows]
    assert [row["seconds"] == old["seconds"] for row, old in zip(again, rows, strict=True)] == [
        True,
        True,
        False,
        False,
    ]
    assert len(read_rows(file)) == len(lines) + 1  # plain decoding's, again
    assert len(batches._rows_of([tmp_path], [PromptGroup(PROMPTS)])) == len(lines)


def test_prompts_wait_in_a_line_longer_than_a_batch(place, tmp_path, capsys):
    assert main(command(place, tmp_path, "--group", "6")) == 0
    rows = read_rows(tmp_path / "rows.jsonl")
    assert [(row["batch"], row["sequences"], row["identical"]) for row in rows] == [
        (size, 6, 6) for size in (1, 1, 2, 2)
    ]
    said = capsys.readouterr()
    assert said.out.count("6 of 6") == 4 and "\n6 prompts, 6 in a queue.\n" in said.out
    assert "6/6 prompts" in said.err
    assert main(command(place, tmp_path / "short", "--group", "1")) == 2
    assert "group: 1 is out of range" in capsys.readouterr().err
    assert main(command(place, tmp_path / "long", "--group", "7")) == 2
    assert "batch: 6 prompts do not fill a group of 7; give more prompts" in capsys.readouterr().err


def test_prompts_that_fill_no_group_or_do_not_fit_are_counted(place, tmp_path, capsys):
    """A batch of 4 measured 4 of 6 prompts without a word."""
    assert main(command(place, tmp_path / "few", "--batch", "4")) == 0
    said = capsys.readouterr()
    assert "\n4 prompts, 4 in a queue; 2 fill no group of 4 or do not fit.\n" in said.out
    assert "4/4 prompts" in said.err
    lines = (place / "gsm8k_test.jsonl").read_text().splitlines(keepends=True)
    lines[1] = '{"question": "' + "w5 " * 300 + '"}\n'
    (tmp_path / "gsm8k_test.jsonl").write_text("".join(lines))
    assert main(command(place, tmp_path / "long", "--data", str(tmp_path))) == 0
    assert "\n4 prompts, 2 in a queue; 2 fill no group of 2 or do not fit.\n" in capsys.readouterr().out


@pytest.mark.all_cases
def test_under_accelerate_launch(place, tmp_path):
    launch = ("-m", "accelerate.commands.launch", "--multi_gpu", "--num_processes", "2", "--num_machines", "1",
              "--mixed_precision", "no", "--dynamo_backend", "no", "--main_process_port", "0")  # fmt: skip
    done = subprocess.run(
        [sys.executable, *launch, "-m", "spectra.bench", *command(place, tmp_path)],
        cwd=ROOT, capture_output=True, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("6 of 6") == 4
