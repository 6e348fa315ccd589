"""A build from corpus to store: what is kept, what the card says, and that the same input gives the same bytes."""

import json
from pathlib import Path

import numpy as np
import pytest
from stores import build, index_hashes, rows, write_rows
from words import save_model

from spectra.datastore.build import finish, score
from spectra.datastore.card import card_sha256, read_card
from spectra.datastore.sources import digest, read_sources
from spectra.datastore.store import Store
from spectra.io.hashes import file_sha256


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return save_model(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    loop = {"source": "a", "user": "loop", "assistant": "w5 w6 w7 w8 " * 12}
    short = {"source": "a", "user": "short", "assistant": "w5 w6"}
    some = rows(40)
    near = {"source": "a", "user": "near", "assistant": f"{some[30]['assistant']} w9"}
    again = {"source": "b", "user": "again", "assistant": some[7]["assistant"].upper().replace(" ", "  ")}
    return write_rows(tmp_path_factory.mktemp("corpus") / "rows.jsonl", [*some, loop, short, near, again, some[3]])


@pytest.fixture(scope="module")
def store(model, corpus, tmp_path_factory):
    out = tmp_path_factory.mktemp("stores") / "first"
    assert build(corpus, out, model, "--keep", "25", "--licence", "none needed") == 0
    return out


def test_the_kept_texts_are_those_of_lowest_perplexity(store, model, corpus, tmp_path):
    texts = np.load(store / "texts.npy")
    assert len(texts) == 25
    assert list(texts["perplexity"]) == sorted(texts["perplexity"])
    assert build(corpus, tmp_path / "all", model) == 0
    everything = np.load(tmp_path / "all" / "texts.npy")
    assert len(everything) > 40  # long ones were cut into windows
    assert (texts["hash"] == everything["hash"][:25]).all()
    assert np.allclose(texts["perplexity"], everything["perplexity"][:25])


def test_duplicates_short_and_repetitive_texts_are_dropped(store):
    dropped = read_card(store)["dropped"]
    assert dropped["repetitive"] == 1
    assert dropped["duplicate"] >= 2
    assert dropped["similar"] >= 1
    assert dropped["short"] >= 1
    assert (dropped["bad"], dropped["filtered"]) == (0, 0)


def test_the_card_says_what_the_store_is(store, corpus, model):
    card = read_card(store)
    assert (card["name"], card["model"], card["licence"], card["refined"]) == ("first", "tiny", "none needed", True)
    assert card["corpus"] == [{"name": "rows.jsonl", "bytes": corpus.stat().st_size, "sha256": file_sha256(corpus)}]
    assert card["kept"]["texts"] == 25
    assert card["kept"]["tokens"] == len(np.load(store / "corpus.npy"))
    assert sum(card["perplexity"]["kept"]) == 25
    assert sum(card["perplexity"]["scored"]) == card["seen"]["texts"] - sum(card["dropped"].values())
    assert card["perplexity"]["cutoff"] == pytest.approx(np.load(store / "texts.npy")["perplexity"][-1])
    assert card["index"]["order"] == 8
    assert card["sha256"] == card_sha256(card)
    assert "--corpus rows.jsonl --out first --model tiny" in card["command"]
    assert str(corpus.parent) not in json.dumps(card)


def test_the_card_names_every_file(store):
    card = read_card(store)
    assert {path.name for path in store.iterdir()} == {*card["files"], "card.json"}
    assert all(file_sha256(store / name) == facts["sha256"] for name, facts in card["files"].items())
    assert card["bytes"] == sum(facts["bytes"] for facts in card["files"].values())


def test_prompts_of_kept_texts_are_listed_as_hashes(store):
    sources = read_sources(store)
    prompts = {digest(f" PROMPT  0 {i}").hex() for i in range(40)}
    assert len(sources & prompts) > 10
    assert sources <= prompts | {digest(one).hex() for one in ("near", "again")}
    assert read_card(store)["sources"] == len(sources)


def test_the_store_answers(store):
    tokens = np.load(store / "corpus.npy").tolist()
    nodes = Store.open(store).continuations(tokens[:4], 8)
    assert nodes[0].token == tokens[4]
    assert nodes[0].parent == -1


def test_an_answer_opens_as_the_template_says(store):
    assert Store.open(store).continuations([1], 8), "the end of the generation prompt is a context"


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="the system does not tell what is mapped")
def test_no_work_file_is_mapped(model, corpus, tmp_path, monkeypatch):
    """Pages of a map count as memory, so the peak would grow with the corpus."""
    seen = []
    for module, name in ((score, "perplexities"), (finish, "build_index")):
        real = getattr(module, name)

        def look(*arguments, real=real, **named):
            seen.append(Path("/proc/self/maps").read_text())
            return real(*arguments, **named)

        monkeypatch.setattr(module, name, look)
    assert build(corpus, tmp_path / "store", model, "--keep", "25") == 0
    assert len(seen) > 2
    assert not any("tokens.bin" in maps or "candidates.bin" in maps for maps in seen)


def test_the_same_input_gives_the_same_files(store, corpus, model, tmp_path):
    assert build(corpus, tmp_path / "first", model, "--keep", "25", "--licence", "other") == 0
    assert index_hashes(tmp_path / "first") == index_hashes(store)


def test_kept_tokens_are_exact(model, corpus, tmp_path):
    assert build(corpus, tmp_path / "cut", model, "--keep-tokens", "500") == 0
    card = read_card(tmp_path / "cut")
    assert card["kept"]["tokens"] == 500 == len(np.load(tmp_path / "cut" / "corpus.npy"))


def test_an_unrefined_store_is_a_random_sample_that_needs_no_scores(model, corpus, tmp_path):
    for name, seed in (("one", "1"), ("same", "1"), ("other", "2")):
        assert build(corpus, tmp_path / name, model, "--no-refine", "--keep-tokens", "500", "--seed", seed) == 0
    one, same, other = (index_hashes(tmp_path / name)["corpus.npy"] for name in ("one", "same", "other"))
    assert one == same != other
    card = read_card(tmp_path / "one")
    assert (card["refined"], card["kept"]["tokens"], card["perplexity"]["cutoff"]) == (False, 500, None)
    assert np.isnan(np.load(tmp_path / "one" / "texts.npy")["perplexity"]).all()


def test_prompts_can_be_excluded(model, corpus, store, tmp_path):
    hashes = [digest(f"prompt 0 {i}").hex() for i in (1, 2, 3, 99)]
    (tmp_path / "list").write_text("\n".join(hashes))
    assert build(corpus, tmp_path / "some", model, "--no-refine", "--exclude", str(tmp_path / "list")) == 0
    card = read_card(tmp_path / "some")
    assert card["dropped"]["excluded"] == 4, "one of them comes twice"
    assert not read_sources(tmp_path / "some") & set(hashes)
    assert card["exclude"] != read_card(store)["exclude"]


def test_a_sample_can_be_scored_in_place_of_everything(model, corpus, tmp_path):
    assert build(corpus, tmp_path / "some", model, "--score-tokens", "600") == 0
    card = read_card(tmp_path / "some")
    assert 600 <= card["kept"]["tokens"] < 664
    assert sum(card["perplexity"]["scored"]) == card["kept"]["texts"]
    assert card["seen"]["texts"] - sum(card["dropped"].values()) == card["kept"]["texts"]


def test_rows_can_be_chosen_by_a_field(model, corpus, tmp_path):
    assert build(corpus, tmp_path / "some", model, "--where", "source=b", "--no-refine") == 0
    card = read_card(tmp_path / "some")
    assert card["dropped"]["filtered"] == 23
    odd = {digest(f"Prompt 0 {i}").hex() for i in range(1, 40, 2)} | {digest("again").hex()}
    assert read_sources(tmp_path / "some") <= odd
