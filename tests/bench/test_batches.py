"""`bench batch`: batches of every size on the same prompts, texts compared with those of each prompt alone."""

import pytest
from benched import loaded

from spectra.bench.batches import PromptGroup, markdown, run_groups
from spectra.bench.run.answers import AnswerOptions
from spectra.bench.run.rows import read_rows
from spectra.bench.tasks import Prompt
from spectra.errors import SpectraError

PROMPTS = tuple(Prompt("gsm8k", (text,)) for text in ("w5 w6 w7 w5 w6", "w9", "w3 w4 w3 w4", "w8 w8"))
ANSWERS = AnswerOptions(max_new_tokens=12)
METHODS = ["spectra-core", "hf-generate"]


def run(out, answers=ANSWERS, sizes=(2, 4)):
    return run_groups(loaded(), [PromptGroup(PROMPTS)], METHODS, sizes, out, answers)


def test_rows_of_every_size_and_no_text_is_another(tmp_path):
    rows = run(tmp_path)
    cells = [(row["batch"], row["method"]) for row in rows]
    assert cells == [(size, method) for size in (1, 2, 4) for method in ("autoregressive", *METHODS)]
    assert {(row["identical"], row["sequences"]) for row in rows} == {(4, 4)}
    assert len({row["new_tokens"] for row in rows}) == 1
    assert all(row["seconds"] > 0 for row in rows)
    assert "output" in rows[0] and "output" not in rows[3]
    table = markdown(rows).splitlines()
    assert len(table) == 2 + 9
    assert table[2].startswith("| 1 | autoregressive | ") and table[2].endswith(" | 1.00 | 4 of 4 |")


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
