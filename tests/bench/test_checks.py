"""ROUGE of summaries, answers that half precision changes, and tasks from the hub."""

from pathlib import Path

import pytest
import torch
from words import save_model, tokenizer

from spectra.bench import tasks
from spectra.bench.half_precision import compare, markdown
from spectra.bench.rouge import scorer
from spectra.bench.run.rows import read_rows
from spectra.bench.tasks import TASKS, Prompt, load_prompts
from spectra.cli.bench import main
from spectra.errors import SpectraError


def rouge(text, reference):
    return tuple(scorer()(text, reference).values())


class TestRouge:
    def test_by_hand(self):
        """3 of 4 and 3 of 6 words; 1 of 3 and 1 of 5 pairs; 2 words in the same order."""
        one, two, longest = rouge("the cat was here", "Was the cat, in the garden?")
        assert one == pytest.approx(2 * 3 / 10)
        assert two == pytest.approx(2 * 1 / 8)
        assert longest == pytest.approx(2 * 2 / 10)

    def test_bounds(self):
        assert rouge("A b, c d.", "a B c D") == (1.0, 1.0, 1.0)
        assert rouge("a b", "c d") == rouge("", "a") == rouge("a", "") == (0.0, 0.0, 0.0)
        assert rouge("a a a", "a")[0] == pytest.approx(2 / 4)
        assert rouge("a", "a")[1] == 0.0

    def test_words(self):
        """Runs of ASCII letters and digits: other letters part words, as they do in every ROUGE by rouge-score."""
        assert rouge("It's naïve_2day!", "it s na ve 2day") == (1.0, 1.0, 1.0)
        assert rouge("It's naïve", "It's naive")[0] == pytest.approx(2 * 2 / 7)

    def test_the_longest_common_subsequence_against_a_search(self):
        def longest(a, b):
            if not a or not b:
                return 0
            if a[0] == b[0]:
                return 1 + longest(a[1:], b[1:])
            return max(longest(a[1:], b), longest(a, b[1:]))

        for seed in range(30):
            draw = torch.randint(0, 3, (12,), generator=torch.Generator().manual_seed(seed)).tolist()
            a, b = list(map(str, draw[:6])), list(map(str, draw[6:]))
            assert rouge(" ".join(a), " ".join(b))[2] == pytest.approx(2 * longest(a, b) / 12)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    place = tmp_path_factory.mktemp("models")
    save_model(place / "tiny", longest=200)
    lines = ['{"article": "w5 w6", "highlights": "w9 w12 w30"}', '{"article": "w8", "highlights": "w41"}']
    (place / "cnndm.jsonl").write_text("\n".join(lines) + "\n")
    return place


@pytest.fixture
def common(place, tmp_path):
    return [
        "--model", str(place / "tiny"), "--data", str(place), "--device", "cpu", "--max-new-tokens", "12",
        "--out", str(tmp_path / "out"),
    ]  # fmt: skip


def test_rouge_of_methods_by_temperature(common, tmp_path, capsys):
    arguments = ["rouge", *common, "--dtype", "fp32", "--methods", "anpd,spectra-core", "--temperatures", "0,0.9"]
    assert main(arguments) == 0
    text = capsys.readouterr().out
    assert (tmp_path / "out" / "rouge.md").read_text() == text
    rows = read_rows(tmp_path / "out" / "rouge.jsonl")
    assert len(rows) == 2 * 2 * 3
    assert all(row["same"] for row in rows)
    assert len([line for line in text.splitlines() if line.endswith("| 2 of 2 |")]) == 6
    by_method = {line.split(" | ")[1]: line.split(" | ")[2:5] for line in text.splitlines() if line.startswith("| 0.9")}
    assert len(by_method) == 3 and len({tuple(cells) for cells in by_method.values()}) == 1
    assert main(arguments) == 0
    assert read_rows(tmp_path / "out" / "rouge.jsonl") == rows


def test_what_has_no_reference_is_not_scored(common, capsys):
    for more, said in (
        (["--tasks", "gsm8k"], "tasks: only cnndm and xsum"),
        (["--methods", "anpb"], "methods: 'anpb'"),
        (["--methods", "specinfer", "--dtype", "fp32"], "draft: no draft model fits tiny"),
    ):
        assert main(["rouge", *common, *more]) == 2
        assert capsys.readouterr().err.splitlines()[-1].startswith(f"spectra.bench: {said}")


def test_half_precision_of_a_tiny_model(common, tmp_path, capsys):
    assert main(["half-precision", *common, "--method", "spectra-core", "--limit", "1"]) == 0
    text = capsys.readouterr().out
    assert "| spectra-core against plain decoding, 16 bits, exact numerics | 0 | 1 |" in text
    assert len(read_rows(tmp_path / "out" / "half-precision.jsonl")) == 1
    assert main(["half-precision", *common, "--dtype", "fp32"]) == 2
    assert "dtype: 'fp32' is not 16 bits wide" in capsys.readouterr().err


def test_half_precision_counts_what_differs(tmp_path):
    said = {"stock half": [1, 2], "stock whole": [1, 3], "exact plain": [1, 2], "exact method": [1, 2]}
    said |= {"fast plain": [1, 2, 3], "fast method": [1, 2]}
    ways = {name: lambda ids, out=out: out for name, out in said.items()}
    rows = compare(tokenizer(), [Prompt("gsm8k", ("w5",))], ways, {}, tmp_path)
    assert [rows[0][name] for name in ("stock", "half", "fast", "exact")] == [1, None, 2, None]
    counted = [line.split(" | ")[1] for line in markdown(rows, "spectra", "").splitlines() if line.endswith("| 1 |")]
    assert counted == ["1", "0", "1", "0"]


ON_HUB = {
    "gsm8k": [{"question": f"How many {i % 3}?", "answer": "2"} for i in range(9)],
    "mt-bench": [{"prompt": ["One.", "Two."], "category": "writing"}],
    "xsum": [{"document": "A text.", "summary": "It."}],
}


class TestHub:
    @pytest.fixture(autouse=True)
    def rows(self, monkeypatch):
        def rows_of(place):
            task = next(task for task, layout in TASKS.items() if layout.hub == place)
            if task not in ON_HUB:
                raise SpectraError("corpus", f"{place} cannot be read (no route); check the name and the connection")
            for number, row in enumerate(ON_HUB[task], 1):
                yield f"{place} row {number}", row

        monkeypatch.setattr(tasks, "hub_rows", rows_of)

    def test_rows_become_prompts(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        prompts = load_prompts(["gsm8k", "mt-bench", "xsum"], Path("hub"), 2)
        assert [p.turns for p in prompts[:3]] == [("How many 0?",), ("How many 1?",), ("One.", "Two.")]
        assert prompts[-1].reference == "It."

    def test_what_cannot_be_had_is_named(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        for task, said in (("spec-bench", "data: spec-bench is not on the hub"), ("mbpp", "data: hf:google-research")):
            with pytest.raises(SpectraError, match=f"^{said}"):
                load_prompts([task], Path("hub"))

    def test_a_folder_of_that_name_is_a_folder(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        Path("hub").mkdir()
        with pytest.raises(SpectraError, match=r"^data: no task's file in hub"):
            load_prompts(None, Path("hub"))
