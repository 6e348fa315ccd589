"""No benchmark prompt is among the prompts of a shipped datastore: both sides are known by hash."""

import json
from pathlib import Path

import pytest

from spectra.cli.bench import main
from spectra.datastore.build.seed_prompts import SEED_PROMPTS
from spectra.datastore.card import read_card
from spectra.datastore.sources import NONE, digest, read_sources, write_sources

HERE = Path(__file__).parents[2]
BENCH = HERE / "bench_prompts.sha256"
SHIPPED = sorted(path.parent for path in (HERE.parent / "datastores").glob("*/card.json"))


def bench_hashes() -> set[str]:
    return set(BENCH.read_text(encoding="utf-8").split())


def test_the_list_is_there():
    lines = BENCH.read_text(encoding="utf-8").splitlines()
    assert lines == sorted(set(lines))
    assert len(lines) > 700
    assert all(len(line) == 64 for line in lines)
    known = "Write a python function to remove first and last occurrence of a given character from the string."
    assert digest(known).hex() in lines


def test_no_prompt_is_a_benchmark_prompt():
    assert len(set(SEED_PROMPTS)) == len(SEED_PROMPTS) > 20
    assert not {digest(prompt).hex() for prompt in SEED_PROMPTS} & bench_hashes()


@pytest.mark.parametrize("store", SHIPPED, ids=lambda path: path.name)
def test_no_shipped_store_answers_a_benchmark_prompt(store):
    sources = read_sources(store)
    assert len(sources) == read_card(store)["sources"] > 0
    assert not sources & bench_hashes()


def test_prompts_are_hashed_by_a_command(tmp_path, capsys):
    turns = {"turns": ["First  Question", "second question"], "category": "c"}
    (tmp_path / "mt_bench_question.jsonl").write_text(json.dumps(turns))
    (tmp_path / "gsm8k_test_2.jsonl").write_text(json.dumps({"question": "How many?", "answer": "3"}))
    (tmp_path / "cnndm_1.jsonl").write_text(json.dumps({"article": "An article.\n\nIn two parts."}))
    assert main(["prompts", "--data", str(tmp_path)]) == 0
    found = capsys.readouterr().out.split()
    assert found == sorted(found)
    for text in ("first question", "Second question", "how many?", "An article. In two parts."):
        assert digest(text).hex() in found
    assert main(["prompts", "--data", str(tmp_path / "nowhere")]) == 2


def test_sources_are_kept_once_and_read_back(tmp_path):
    some = [digest("a"), digest("b"), digest("A "), NONE]
    assert write_sources(tmp_path, some) == 2
    assert read_sources(tmp_path) == {digest("a").hex(), digest("b").hex()}
    assert write_sources(tmp_path, [NONE]) == 0
    assert read_sources(tmp_path) == set()
