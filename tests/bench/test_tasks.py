"""Task files in their published formats: what becomes of a row, limits, and files that are damaged."""

import gzip
import json

import pytest

from spectra.bench.tasks import TASKS, Prompt, load_prompts
from spectra.errors import SpectraError


def lines(*rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


@pytest.fixture
def folder(tmp_path):
    """One file a task, as published."""
    question = {"question_id": 1, "category": "writing", "turns": ["Write.", "Again."]}
    other = {"question_id": 2, "category": "qa", "turns": ["Who?"]}
    (tmp_path / "mt_bench_question.jsonl").write_text(lines(question))
    (tmp_path / "spec_bench_question.jsonl").write_text(lines(question, other))
    (tmp_path / "gsm8k_test.jsonl").write_text(lines({"question": "1 + 1?", "answer": "#### 2"}))
    (tmp_path / "mbpp_test.jsonl").write_text(
        lines({"text": "Add.", "code": ""}, {"prompt": "Subtract.", "task_id": 2})
    )
    (tmp_path / "HumanEval.jsonl.gz").write_bytes(gzip.compress(lines({"prompt": "def f():\n"}).encode()))
    classes = [{"task_id": "ClassEval_0", "class_name": "A", "skeleton": "class A:\n    ...\n", "solution_code": ""}]
    (tmp_path / "ClassEval_data.json").write_text(json.dumps(classes, indent=2))
    (tmp_path / "cnndm_40.jsonl").write_text(lines({"id": 1, "article": "News.", "highlights": "N."}))
    (tmp_path / "xsum.jsonl").write_text(lines({"id": "1", "document": "More news.", "summary": "M."}))
    return tmp_path


def test_every_task_is_read(folder):
    turns = {(prompt.task, prompt.category): prompt.turns for prompt in load_prompts(None, folder)}
    assert turns == {
        ("mt-bench", "writing"): ("Write.", "Again."),
        ("spec-bench", "mt_bench"): ("Write.", "Again."),
        ("spec-bench", "qa"): ("Who?",),
        ("gsm8k", ""): ("1 + 1?",),
        ("mbpp", ""): ("Subtract.",),
        ("humaneval", ""): ("Complete this Python function.\n\ndef f():",),
        ("classeval", ""): ("Complete the Python class A.\n\nclass A:\n    ...",),
        ("cnndm", ""): ("Summarize this article in a few sentences.\n\nNews.",),
        ("xsum", ""): ("Summarize this article in one sentence.\n\nMore news.",),
    }
    assert {prompt.task for prompt in load_prompts(None, folder)} == set(TASKS)
    assert [prompt.text for prompt in load_prompts(["mbpp"], folder)] == ["Add.", "Subtract."]


def test_files_in_name_order_and_equal_prompts_once(tmp_path):
    (tmp_path / "gsm8k_test_b.jsonl").write_text(lines({"question": "three"}, {"question": " one "}))
    (tmp_path / "gsm8k_test_a.jsonl").write_text(lines({"question": "one"}, {"question": "two"}) + "\n")
    assert [prompt.text for prompt in load_prompts(["gsm8k", "gsm8k"], tmp_path)] == ["one", "two", "three"]


def test_a_limit_counts_per_task_and_goes_round_the_categories(tmp_path):
    rows = [{"category": c, "turns": [f"{c}{i}"]} for c in "abc" for i in range(3)]
    (tmp_path / "mt_bench_question.jsonl").write_text(lines(*rows))
    (tmp_path / "gsm8k_test.jsonl").write_text(lines(*({"question": f"q{i}"} for i in range(9))))
    texts = [prompt.text for prompt in load_prompts(["mt-bench", "gsm8k"], tmp_path, 4)]
    assert texts == ["a0", "b0", "c0", "a1", "q0", "q1", "q2", "q3"]


def test_the_id_is_of_the_whole_prompt():
    assert Prompt("gsm8k", ("Hi",)).id == "3639efcd08ab"
    assert len({Prompt("mt-bench", turns).id for turns in (("a",), ("a", "b"), ("a", "c"))}) == 3


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("gsm8k_test.jsonl", '{"question": "a"}\n\n{"question": \n', "gsm8k_test.jsonl line 3 is not JSON"),
        ("gsm8k_test.jsonl", '{"question": "a"}\n{"answer": "b"}\n', "gsm8k_test.jsonl line 2 is not a gsm8k row"),
        ("gsm8k_test.jsonl", '["question"]\n', "line 1 is not a gsm8k row"),
        ("gsm8k_test.jsonl", '{"question": " "}\n', "line 1 holds a blank prompt"),
        ("gsm8k_test.jsonl", '{"question": 7}\n', "line 1 is not a gsm8k row"),
        ("mt_bench_question.jsonl", '{"turns": "one"}\n', "line 1 is not a mt-bench row"),
        ("ClassEval_data.json", '[\n{"class_name": "A",\n]\n', "ClassEval_data.json line 3 is not JSON"),
        ("ClassEval_data.json", "{}", "not a JSON list"),
        ("ClassEval_data.json", '[{"class_name": "A"}]', "ClassEval_data.json entry 1 is not a classeval row"),
        ("HumanEval.jsonl.gz", "not zipped", "HumanEval.jsonl.gz line 1 cannot be read"),
        (
            "gsm8k_test.jsonl",
            '{"question": "a"}\n{"question": "\\ud800"}\n',
            "gsm8k_test.jsonl line 2 is not valid Unicode",
        ),
        ("gsm8k_test.jsonl", "\n\n", r"gsm8k_test\*.jsonl in .* holds no gsm8k prompt"),
        ("ClassEval_data.json", "[]", "ClassEval_data.json in .* holds no classeval prompt"),
    ],
)
def test_a_damaged_file_is_named_with_its_line(tmp_path, name, content, said):
    (tmp_path / name).write_text(content)
    with pytest.raises(SpectraError, match="^data: .*" + said):
        load_prompts(None, tmp_path)


def test_a_byte_that_is_not_utf8_is_named_with_its_own_line(tmp_path):
    good = lines({"question": "a"}).encode()
    (tmp_path / "gsm8k_test.jsonl").write_bytes(good * 4 + b'{"question": "caf\xe9"}\n')
    with pytest.raises(SpectraError, match=r"^data: gsm8k_test.jsonl line 5 cannot be read"):
        load_prompts(None, tmp_path)


def test_a_damaged_archive_is_named(tmp_path):
    whole = bytearray(gzip.compress(lines({"prompt": "def f():\n"}).encode() * 40))
    whole[14:24] = b"\xff" * 10
    (tmp_path / "HumanEval.jsonl.gz").write_bytes(whole)
    with pytest.raises(SpectraError, match=r"^data: HumanEval.jsonl.gz line \d+ cannot be read \(Error -3"):
        load_prompts(None, tmp_path)


def test_a_byte_order_mark_and_other_line_ends_are_read(tmp_path):
    text = "\ufeff" + lines({"question": "one"}, {"question": "two"}).replace("\n", "\r\n")
    (tmp_path / "gsm8k_test.jsonl").write_bytes(text.encode())
    (tmp_path / "ClassEval_data.json").write_text('\ufeff[\n{"class_name": "A", "skeleton": "s"}\n]')
    assert [prompt.text for prompt in load_prompts(["gsm8k"], tmp_path)] == ["one", "two"]
    assert len(load_prompts(["classeval"], tmp_path)) == 1


def test_what_is_not_there_is_named(tmp_path):
    with pytest.raises(SpectraError, match=r"^data: no gsm8k_test\*\.jsonl in"):
        load_prompts(["gsm8k"], tmp_path)
    with pytest.raises(SpectraError, match=r"^data: no task's file"):
        load_prompts(None, tmp_path)
    with pytest.raises(SpectraError, match=r"^tasks: 'gsm' is unknown"):
        load_prompts(["gsm"], tmp_path)
    with pytest.raises(SpectraError, match=r"^tasks: there is none"):
        load_prompts([], tmp_path)
    with pytest.raises(SpectraError, match=r"^limit: 0 is out of range"):
        load_prompts(None, tmp_path, 0)
