"""Perplexities are those of one text alone, batches do not depend on who scores them, and selection is exact."""

import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from stores import build, index_hashes, rows, write_rows
from tiny import make
from words import save_model

from spectra.datastore.build import score, select
from spectra.datastore.build.score import batches, perplexities
from spectra.datastore.build.settings import BuildSettings
from spectra.datastore.build.workdir import CANDIDATE, SCORE, Workdir, append, scored
from spectra.datastore.card import read_card

ROOT = Path(__file__).parents[3]


def alone(model, text, context):
    """exp(-1/t sum log P), a token at a time."""
    ids = [*context, *text]
    logs = []
    for i in range(max(len(context), 1), len(ids)):
        with torch.no_grad():
            logits = model(torch.tensor([ids[:i]])).logits[0, -1].double()
        logs.append(float(logits.log_softmax(0)[ids[i]]))
    return math.exp(-sum(logs) / len(logs))


@pytest.mark.parametrize("family", ["llama", "gpt2", "qwen2", "gemma3"])
@pytest.mark.parametrize("context", [(), (5, 9, 1)])
def test_perplexity_is_that_of_each_text_alone(family, context, monkeypatch):
    monkeypatch.setattr(score, "ROWS", 7)
    model = make(family)
    draw = np.random.default_rng(1)
    texts = [draw.integers(3, 64, size).astype(np.uint16) for size in (25, 9, 2, 16)]
    found = perplexities(model, texts, context)
    assert found.dtype == np.float32
    assert found == pytest.approx([alone(model, text.tolist(), context) for text in texts], rel=1e-4)


def test_an_impossible_text_has_a_finite_perplexity():
    class Certain(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.zeros(1))

        def forward(self, input_ids, **_):
            logits = torch.full((*input_ids.shape, 10), -1e4)
            logits[..., 0] = 0
            return type("Output", (), {"logits": logits})

    found = perplexities(Certain(), [np.array([0, 0, 0]), np.array([0, 1, 1])])
    assert found[0] == pytest.approx(1)
    assert found[1] > 1e30
    assert np.isfinite(found).all()


@pytest.fixture
def work(tmp_path):
    """Candidates of random lengths and scores, many of them equal."""
    made = Workdir(tmp_path / "store", np.dtype(np.uint16))
    made.folder.mkdir()
    draw = np.random.default_rng(2)
    table = np.zeros(500, CANDIDATE)
    table["length"] = draw.integers(2, 60, 500)
    table["start"] = np.cumsum(table["length"]) - table["length"]
    table["hash"] = [f"{value:016x}".encode() for value in draw.permutation(500) * 7919]
    append(made.candidates, table)
    append(made.tokens, draw.integers(0, 64, int(table["length"].sum())).astype(np.uint16))
    append(made.scores(0), scored(np.arange(500), draw.integers(1, 40, 500)))
    return made


@pytest.mark.parametrize("block", [64, 8192])
def test_batches_hold_every_text_once_within_the_budget(work, monkeypatch, block):
    monkeypatch.setattr(score, "BLOCK", block)
    found = list(batches(work, np.ones(500, bool), 100, 3))
    assert sorted(np.concatenate([batch["row"] for batch in found])) == list(range(500))
    lengths = work.read_candidates(0, 500)["length"]
    for batch in found:
        assert (lengths[batch["row"]] == batch["length"]).all()
        assert len(batch) * (batch["length"].max() + 3) <= 100 or len(batch) == 1
    padding = sum(len(batch) * int(batch["length"].max()) - int(batch["length"].sum()) for batch in found)
    assert padding < 0.15 * lengths.sum()


def test_any_number_of_processes_computes_the_same_numbers(work, monkeypatch):
    model = make("llama")
    scored = []
    real = perplexities
    monkeypatch.setattr(score, "perplexities", lambda m, texts, c: scored.extend(texts) or real(m, texts, c))

    def share(process, processes):
        score.score(
            work, np.ones(500, bool), model, (5, 9), budget=400, process=process, processes=processes, progress=id
        )

    work.scores(0).unlink()
    share(0, 1)
    alone = work.read_scores(500)
    assert not np.isnan(alone).any()
    work.scores(0).unlink()
    share(1, 3)  # one of three, then the rest on two others, as after a restart with fewer
    assert 0 < np.isnan(work.read_scores(500)).sum() < 500
    scored.clear()
    done = 500 - int(np.isnan(work.read_scores(500)).sum())
    share(0, 2)
    share(1, 2)
    assert work.read_scores(500).tobytes() == alone.tobytes()
    assert len(scored) == 500 - done


@pytest.mark.parametrize("block", [7, 65536])
def test_a_sample_to_score_is_random_and_as_large_as_asked(work, monkeypatch, block):
    monkeypatch.setattr(select, "BLOCK", block)
    assert select.to_score(work, 500, None, 0).all()
    lengths = work.read_candidates(0, 500)["length"]
    one, same, other = (select.to_score(work, 500, 3000, seed) for seed in (1, 1, 2))
    assert (one == same).all()
    assert (one != other).any()
    assert 3000 <= lengths[one].sum() < 3060
    work.known_scores.write_bytes(np.zeros(100, SCORE).tobytes())
    assert not select.to_score(work, 500, None, 0)[:100].any()
    assert not select.to_score(work, 500, 3000, 0)[:100].any()
    assert 3000 <= lengths[select.to_score(work, 500, 3000, 0)].sum() < 3060


def test_a_torn_record_is_scored_again(work):
    model = make("llama")
    work.scores(0).unlink()
    score.score(work, np.ones(500, bool), model, (), budget=400, progress=id)
    whole = work.scores(0).read_bytes()
    scores = work.read_scores(500)
    work.scores(0).write_bytes(whole[:1000])
    assert np.isnan(work.read_scores(500)).sum() == 500 - 1000 // SCORE.itemsize
    score.score(work, np.ones(500, bool), model, (), budget=400, progress=id)
    assert work.read_scores(500).tobytes() == scores.tobytes()


def brute_force(work, keep, keep_tokens):
    table, scores = work.read_candidates(0, 500), work.read_scores(500)
    ranked = sorted(range(500), key=lambda i: (scores[i], table["hash"][i]))[:keep]
    kept, total = [], 0
    for i in ranked:
        if keep_tokens is not None and total >= keep_tokens:
            break
        kept.append(table["hash"][i])
        total += int(table["length"][i])
    return kept


@pytest.mark.parametrize("block", [7, 100, 65536])
@pytest.mark.parametrize(("keep", "tokens"), [(50, None), (None, 999), (50, 999), (20, 99999), (None, None)])
def test_selection_is_that_of_sorting_everything(work, monkeypatch, block, keep, tokens):
    monkeypatch.setattr(select, "BLOCK", block)
    found = select.select(work, 500, BuildSettings(keep=keep, keep_tokens=tokens))
    assert found.kept["hash"].tolist() == brute_force(work, keep, tokens)
    assert found.histogram.sum() == 500
    if tokens is not None:
        assert found.kept["length"].sum() <= tokens


@pytest.mark.parametrize("block", [7, 65536])
def test_a_random_sample_does_not_depend_on_the_order_of_the_corpus(work, monkeypatch, block):
    monkeypatch.setattr(select, "BLOCK", block)
    settings = BuildSettings(keep=40, refine=False, seed=3)
    first = select.select(work, 500, settings).kept["hash"]
    table = work.read_candidates(0, 500)
    work.candidates.unlink()
    append(work.candidates, table[::-1].copy())
    assert (select.select(work, 500, settings).kept["hash"] == first).all()
    assert not (select.select(work, 500, BuildSettings(keep=40, refine=False, seed=4)).kept["hash"] == first).all()


@pytest.mark.all_cases
def test_two_processes_give_the_same_store_as_one(tmp_path):
    model = save_model(tmp_path / "tiny")
    corpus = write_rows(tmp_path / "rows.jsonl", rows(40))
    assert build(corpus, tmp_path / "one", model, "--keep", "20") == 0
    launch = ("-m", "accelerate.commands.launch", "--multi_gpu", "--num_processes", "2", "--num_machines", "1",
              "--mixed_precision", "no", "--dynamo_backend", "no", "--main_process_port", "0")  # fmt: skip
    fixed = ("--dtype", "fp32", "--device", "cpu", "--window", "64", "--batch-tokens", "300", "--keep", "20")
    done = subprocess.run(
        [sys.executable, *launch, "-m", "spectra.datastore", "build", "--corpus", str(corpus), "--model", str(model),
         "--out", str(tmp_path / "two"), *fixed],
        cwd=ROOT, capture_output=True, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "scoring on 2 processes" in done.stderr
    assert index_hashes(tmp_path / "one") == index_hashes(tmp_path / "two")
    assert read_card(tmp_path / "two")["kept"]["texts"] == 20
