"""Where stock `generate` and its prompt lookup differ: the place is found, and its logits are those of the passes."""

import json

import pytest
from tiny import make
from words import tokenizer

from spectra.bench.divergence import divergence, exact_logits, stock_answer
from spectra.bench.run.answers import turn_ids
from spectra.bench.tasks import Prompt
from spectra.cli.bench import main
from spectra.errors import SpectraError
from spectra.service.loading import ModelOptions

TEXT = "w5 w6 w5 w6 w7 w5 w6"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("models") / "tiny"
    make("llama", 0, max_position_embeddings=200).save_pretrained(place)
    tokenizer().save_pretrained(place)
    return place


@pytest.fixture(scope="module")
def model(folder):
    return ModelOptions(model=str(folder), device="cpu", dtype="bf16", numerics="exact", step="eager").load()


def test_a_stock_answer_has_the_logits_of_its_tokens_and_where_its_passes_begin(model):
    ids = turn_ids(model.target.tokenizer, Prompt("", (TEXT,)))
    for name in ("hf-generate", "hf-prompt-lookup"):
        answer = stock_answer(model.target, name, ids, 12)
        assert [int(row.argmax()) for row in answer.logits] == answer.tokens
        assert answer.passes[0] == (0, len(ids))
        assert (len(answer.passes) == 12) == (name == "hf-generate") or max(n for _, n in answer.passes[1:]) == 1
        assert all(first <= len(ids) + len(answer.tokens) for first, _ in answer.passes)


def test_the_same_bits_alone_and_inside_a_wide_step(model):
    alone, wide = exact_logits(model, list(range(5, 45)), 11)
    assert (alone == wide).all() and len(alone) == 64


def test_the_place_has_both_logits_of_both_answers(model):
    def answer(target, name, ids, count):
        found = stock_answer(target, "hf-generate", ids, count)
        if name == "hf-prompt-lookup":
            row = found.logits[7]
            second = int(row.topk(2).indices[1])
            found.tokens[7:] = [second] * (count - 7)
            found.logits[7] = row.index_fill(0, row.topk(1).indices, -1.0)
            found.passes = [(0, len(ids)), (len(ids), 20)]
        return found

    found = divergence(model, TEXT, 12, answer)
    assert found["index"] == 7 and found["stock"]["rows"] == 20
    assert len({token["id"] for token in found["tokens"]}) == 2
    (a, b), (c, d) = found["stock"]["alone"], found["stock"]["wide"]
    assert a > b and c < d and b == d
    assert found["exact"]["equal"] and found["exact"]["alone"] == found["exact"]["wide"]
    assert found["exact"]["differs"] is None and found["exact"]["tokens"] == 12


def test_answers_that_agree_are_refused(model):
    def answer(target, _, ids, count):
        return stock_answer(target, "hf-generate", ids, count)

    with pytest.raises(SpectraError, match="write the same"):
        divergence(model, TEXT, 5, answer)


def test_the_command_writes_what_the_page_reads_or_says_that_there_is_nothing(folder, tmp_path, capsys):
    from visual.wire.divergence_file import read_divergence

    out = tmp_path / "divergence.json"
    where = ["--model", str(folder), "--device", "cpu", "--numerics", "exact", "--step", "eager"]
    code = main(["divergence", TEXT, *where, "--max-new-tokens", "24", "--out", str(out)])
    said = capsys.readouterr()
    assert (code == 0) == out.exists()
    if code:
        assert "prompt: stock generate and its prompt lookup write the same" in said.err
    else:
        shown = read_divergence(out)
        assert (
            shown
            and shown["exact"]["alone"] == shown["exact"]["wide"]
            and json.loads(out.read_text())["prompt"] == TEXT
        )
    assert main(["divergence", " ", "--out", str(out)]) == 2
    assert "prompt: it is blank" in capsys.readouterr().err
