"""The datastore commands: what they print, and one line naming the fix for every bad input."""

import json
import re
import shutil
import types
from pathlib import Path

import numpy as np
import pytest
from stores import build, index_hashes, rows, words, write_rows
from words import letters, save_model

from spectra.cli.datastore import main
from spectra.datastore.build import score
from spectra.datastore.card import read_card, seal
from spectra.datastore.layout import BLOCKS, COUNTS, SIZES, SUCCESSORS, TOTALS, TRIE
from spectra.datastore.sources import digest, read_sources
from spectra.datastore.store import Store
from spectra.errors import SpectraError


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return save_model(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return write_rows(tmp_path_factory.mktemp("corpus") / "rows.jsonl", rows(30))


@pytest.fixture(scope="module")
def store(model, corpus, tmp_path_factory):
    out = tmp_path_factory.mktemp("stores") / "small"
    assert build(corpus, out, model, "--keep", "20") == 0
    return out


@pytest.fixture
def copy(store, tmp_path):
    return shutil.copytree(store, tmp_path / "small")


@pytest.fixture
def run(capsys):
    def call(*arguments):
        """(exit code, stdout, stderr)."""
        capsys.readouterr()
        try:
            code = main([str(one) for one in arguments])
        except SystemExit as stop:
            code = stop.code
        return code, *capsys.readouterr()

    return call


def test_inspect_tells_what_a_store_is(run, store):
    code, out, err = run("inspect", store)
    assert (code, err) == (0, "")
    assert "small: lowest perplexity, for tiny" in out
    assert "20 of" in out
    assert "rows.jsonl" in out
    assert "built by python -m spectra.datastore build" in out
    assert "#" in out
    assert json.loads(run("inspect", store, "--json")[1]) == read_card(store)


def test_query_shows_continuations_with_counts(run, store, model):
    tokens = np.load(store / "corpus.npy").tolist()
    text = " ".join(f"w{token}" for token in tokens[:4])
    code, out, _ = run("query", store, text, "--model", model, "--top", "3")
    assert code == 0
    assert 1 <= len(out.splitlines()) <= 3
    assert f"'w{tokens[4]}" in out
    assert "1/1 after" in out
    code, out, err = run("query", store, "unheard", "--model", model)
    assert (code, out) == (0, "")
    assert "knows nothing" in err
    refused = "spectra.datastore: text: it is empty; give what comes before\n"
    assert run("query", store, "", "--model", model) == (2, "", refused)


def test_verify_a_whole_store(run, store, model):
    assert run("verify", store) == (0, f"{store} is whole\n", "")
    assert run("verify", store, "--model", model)[0] == 0


def test_another_tokenizer_is_refused_naming_both(run, store, tmp_path):
    letters().save_pretrained(tmp_path / "letters")
    for command in (("verify", store), ("query", store, "x")):
        code, _, err = run(*command, "--model", tmp_path / "letters")
        assert code == (1 if command[0] == "verify" else 2)
        assert "tiny" in err
        assert "letters" in err
        assert err.count("\n") == 1


FILES = ("corpus.npy", "sources.npy", "texts.npy", TRIE, BLOCKS, SIZES, TOTALS, SUCCESSORS, COUNTS)


@pytest.mark.parametrize("name", FILES)
def test_a_changed_byte_is_found_by_verify(run, copy, name):
    data = bytearray((copy / name).read_bytes())
    data[-3] ^= 1
    (copy / name).write_bytes(data)
    code, out, err = run("verify", copy)
    assert (code, out) == (1, "")
    assert f"{name} was altered" in err


def test_a_damaged_trie_of_a_large_store_never_opens(copy, monkeypatch):
    """One could end the process, without a word."""
    monkeypatch.setattr("spectra.datastore.card.CHECKED_BYTES", 0)
    Store.open(copy)
    for name in (COUNTS, TRIE):
        data = bytearray((copy / name).read_bytes())
        data[-3] ^= 1
        (copy / name).write_bytes(data)
    with pytest.raises(SpectraError, match=rf"^datastore: .*{TRIE} was altered"):
        Store.open(copy)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("harm", ["cut", "gone"])
def test_a_short_or_missing_file_never_opens(run, copy, name, harm):
    if harm == "gone":
        (copy / name).unlink()
    else:
        (copy / name).write_bytes((copy / name).read_bytes()[:-1])
    with pytest.raises(SpectraError, match=rf"^datastore: .*{name}"):
        Store.open(copy)
    assert run("verify", copy)[0] == 1


CARDS = {
    "gone": None,
    "empty": "",
    "not json": "{",
    "a list": "[]",
    "another format": '{"format": "x"}',
}


@pytest.mark.parametrize("case", CARDS)
def test_a_damaged_card_never_opens(run, copy, case):
    (copy / "card.json").unlink()
    if CARDS[case] is not None:
        (copy / "card.json").write_text(CARDS[case])
    for command in (("inspect", copy), ("query", copy, "x")):
        code, _, err = run(*command)
        assert code == 2
        assert err.startswith("spectra.datastore: datastore: ")
    assert run("verify", copy)[0] == 1


@pytest.mark.parametrize("change", [{"kept": {"texts": 1, "tokens": 1}}, {"sha256": "0"}, {"new": 1}])
def test_an_altered_card_never_opens(copy, change):
    card = read_card(copy) | change
    (copy / "card.json").write_text(json.dumps(card))
    with pytest.raises(SpectraError, match="was altered"):
        read_card(copy)


def test_another_version_is_refused(copy):
    (copy / "card.json").write_text(json.dumps(seal(read_card(copy) | {"version": 2})))
    with pytest.raises(SpectraError, match="has version 2, this program reads 1"):
        read_card(copy)


def test_a_sealed_lie_about_the_index_is_found(run, copy):
    card = read_card(copy)
    lie = card | {"index": card["index"] | {"contexts": 3}}
    (copy / "card.json").write_text(json.dumps(seal(lie)))
    assert run("verify", copy)[0] == 1


def test_add_scores_only_what_is_new(run, store, corpus, model, tmp_path, monkeypatch):
    more = write_rows(tmp_path / "more.jsonl", [*rows(10, seed=7), *rows(30)[:5]])
    scored = []
    real = score.perplexities
    monkeypatch.setattr(score, "perplexities", lambda m, texts, c: scored.extend(texts) or real(m, texts, c))
    arguments = ("--corpus", more, "--model", model, "--dtype", "fp32", "--device", "cpu")
    assert run("add", store, *arguments, "--out", tmp_path / "grown")[0] == 0
    card, old = read_card(tmp_path / "grown"), read_card(store)
    assert 10 <= len(scored) < 30
    assert card["kept"]["texts"] == 20
    assert card["base"]["sha256"] == old["sha256"]
    assert [place["name"] for place in card["corpus"]] == ["rows.jsonl", "more.jsonl"]
    assert card["seen"]["texts"] > old["seen"]["texts"]
    assert sum(card["perplexity"]["scored"]) == sum(old["perplexity"]["scored"]) + len(scored)
    assert card["perplexity"]["cutoff"] <= old["perplexity"]["cutoff"]
    assert read_sources(store) <= read_sources(tmp_path / "grown")

    both = write_rows(tmp_path / "both.jsonl", [*rows(30), *rows(10, seed=7)])
    assert build(both, tmp_path / "once", model, "--keep", "20") == 0
    merged, once = (np.load(tmp_path / name / "texts.npy") for name in ("grown", "once"))
    assert set(merged["hash"]) == set(once["hash"])
    assert index_hashes(tmp_path / "grown")["contexts.marisa"] == index_hashes(tmp_path / "once")["contexts.marisa"]


def test_add_can_keep_more_and_score_a_sample(run, store, model, tmp_path):
    more = write_rows(tmp_path / "more.jsonl", rows(30, seed=9))
    arguments = ("--corpus", more, "--model", model, "--dtype", "fp32", "--device", "cpu", "--out", tmp_path / "grown")
    kept = read_card(store)["kept"]["tokens"]
    assert run("add", store, *arguments, "--keep-tokens", str(kept + 300), "--score-tokens", "500")[0] == 0
    card = read_card(tmp_path / "grown")
    assert card["kept"]["tokens"] == kept + 300
    assert (card["settings"]["keep"], card["settings"]["keep_tokens"]) == (None, kept + 300)
    assert card["dropped"]["unscored"] > 0


def test_speed_tells_lookups_and_trees_apart(run, store):
    code, out, _ = run("speed", store, "--queries", "50")
    index, opened, query, tree = out.splitlines()
    assert code == 0
    assert f"{read_card(store)['index']['ngrams']:,} n-grams counted" in index
    assert re.search(r"open .* ms, .* MB resident", opened)
    times = [re.search(r"p50 (\d+) us, p95 (\d+) us of 50 hits, (.*)", line) for line in (query, tree)]
    assert [found[3] for found in times] == ["one lookup each", "16 nodes each"]
    assert all(int(found[1]) <= int(found[2]) for found in times)
    assert run("speed", store, "--queries", "0")[0] == 2


def test_add_in_place_replaces_the_store(run, copy, model, tmp_path):
    before = index_hashes(copy)
    more = write_rows(tmp_path / "more.jsonl", rows(20, seed=8))
    arguments = ("--corpus", more, "--model", model, "--dtype", "fp32", "--device", "cpu")
    assert run("add", copy, *arguments, "--in-place")[0] == 0
    assert index_hashes(copy) != before
    assert run("verify", copy)[0] == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["more.jsonl", "small"]


def test_add_needs_the_same_model_and_a_refined_store(run, store, corpus, model, tmp_path):
    other = save_model(tmp_path / "other", seed=1)
    code, _, err = run("add", store, "--corpus", corpus, "--model", other, "--out", tmp_path / "x")
    assert code == 2
    assert "was scored by tiny, not by other" in err
    assert build(corpus, tmp_path / "plain", model, "--no-refine") == 0
    code, _, err = run("add", tmp_path / "plain", "--corpus", corpus, "--model", model, "--out", tmp_path / "x")
    assert code == 2
    assert "is not refined" in err


def test_an_unrefined_sample_is_as_large_as_its_store(run, store, corpus, model, tmp_path):
    fixed = ("--model", model, "--out", tmp_path / "sample", "--random-sample-like", store)
    assert run("build", "--corpus", corpus, *fixed)[0] == 0
    sample, original = read_card(tmp_path / "sample"), read_card(store)
    assert sample["refined"] is False
    assert sample["kept"]["tokens"] == original["kept"]["tokens"]
    assert sample["settings"]["window"] == original["settings"]["window"]
    for option, value in (("keep", 3), ("window", 33), ("score-tokens", 50), ("min-distinct", 0.25)):
        code, _, err = run("build", "--corpus", corpus, *fixed, "--force", f"--{option}", value)
        assert code == 2 and f"{option}: a random sample is made by the settings of {store}; leave it out" in err
    other = write_rows(tmp_path / "other.jsonl", rows(3))
    code, _, err = run("build", "--corpus", other, *fixed, "--force")
    assert code == 2
    assert "is not what" in err


def test_a_recipe_is_a_build_from_the_hub(run, model, tmp_path, monkeypatch):
    import sys

    data = [{"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": words(30, i)}]}
            for i in range(6)]  # fmt: skip
    monkeypatch.setitem(sys.modules, "datasets", types.SimpleNamespace(load_dataset=lambda *_, **__: iter(data)))
    monkeypatch.setattr(
        "huggingface_hub.HfApi.dataset_info", lambda *_, **__: types.SimpleNamespace(sha="abc", siblings=None)
    )
    fixed = ("--model", model, "--dtype", "fp32", "--device", "cpu", "--window", "64")
    assert run("recipe", "ultrachat", "--out", tmp_path / "chat", *fixed)[0] == 0
    card = read_card(tmp_path / "chat")
    assert card["settings"]["keep"] == 100_000
    assert card["corpus"] == [{"name": "hf:HuggingFaceH4/ultrachat_200k:train_sft", "revision": "abc"}]
    assert card["kept"]["texts"] == 6
    assert read_sources(tmp_path / "chat") == {digest("q").hex()}


BAD = {
    "corpus: nowhere.jsonl is not there": ("--corpus", "nowhere.jsonl"),
    "keep: 0 is out of range": ("--keep", "0"),
    "keep-tokens: -3 is out of range": ("--keep-tokens", "-3"),
    "'x' is not a whole number": ("--keep", "x"),
    "window: 1 is out of range": ("--window", "1"),
    "min-tokens: 99 is out of range": ("--min-tokens", "99"),
    "min-distinct: 1.5 is out of range": ("--min-distinct", "1.5"),
    "header: 'x' is unknown": ("--header", "x"),
    "where: 'x' is not FIELD=VALUE": ("--where", "x"),
    "order: 0 is out of range": ("--order", "0"),
    "score-tokens: 0 is out of range": ("--score-tokens", "0"),
    "score-tokens: a random sample is not scored": ("--no-refine", "--score-tokens", "100"),
    "seed: -1 is out of range": ("--seed", "-1"),
    "corpus: no text of it is left of 0 (30 filtered)": ("--where", "source=z"),
    "window: 1001 tokens do not fit the context of 256": ("--window", "1000", "--batch-tokens", "9"),
    "device: 'moon' is not available": ("--device", "moon"),
    "dtype: 'fp8' is unknown": ("--dtype", "fp8"),
    "random_sample_like: nowhere is not there": ("--random-sample-like", "nowhere"),
    "exclude: nowhere cannot be read": ("--exclude", "nowhere"),
    "exclude: /dev/null/x cannot be read": ("--exclude", "/dev/null/x"),
}


@pytest.mark.parametrize("problem", BAD)
def test_bad_input_ends_with_one_line(model, corpus, tmp_path, capsys, problem):
    capsys.readouterr()
    assert build(corpus, tmp_path / "store", model, *BAD[problem]) == 2
    out, err = capsys.readouterr()
    assert problem in err
    assert (out, err.count("\n")) == ("", 1)
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("--weights", "int8", "weights: int8 takes a GPU here, and the device is cpu; leave it out"),
        ("--device-map", "MAP", "device_map: device 'cuda:9' is not available; name those that are here"),
    ],
)
def test_what_this_machine_lacks_is_told_before_the_corpus_is_read(
    model, corpus, tmp_path, monkeypatch, capsys, option, value, said
):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setattr("spectra.datastore.build.build.read", lambda *_: pytest.fail("it was read first"))
    (tmp_path / "map.json").write_text('{"": "cuda:9"}')
    capsys.readouterr()
    value = str(tmp_path / "map.json") if value == "MAP" else value
    out = ("--out", str(tmp_path / "store"))
    assert main(["build", "--corpus", str(corpus), *out, "--model", str(model), option, value]) == 2
    assert capsys.readouterr().err == f"spectra.datastore: {said}\n"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "no text of it is left of 0 (it is empty)"),
        ('{"text": "w5 w6"}\n', "no text of it is left of 1 (1 short)"),
        ('{"text": "w5"}\n{"text"\n', "bad.jsonl line 2 is not a JSON object"),
    ],
)
def test_a_corpus_that_gives_nothing(model, tmp_path, capsys, text, problem):
    (tmp_path / "bad.jsonl").write_text(text)
    assert build(tmp_path / "bad.jsonl", tmp_path / "store", model) == 2
    assert problem in capsys.readouterr().err
    write_rows(tmp_path / "bad.jsonl", rows(5))
    assert build(tmp_path / "bad.jsonl", tmp_path / "store", model) == 0, "once mended, it builds"


@pytest.mark.parametrize(
    ("dtype", "said"),
    [
        ("bf16", "dtype: the model's logits are not numbers in torch.bfloat16; give --dtype fp32"),
        ("fp32", "model: its logits are not numbers in torch.float32; check its weights or give another model"),
    ],
)
def test_a_model_that_gives_no_numbers_is_named(model, corpus, tmp_path, monkeypatch, capsys, dtype, said):
    """In fp32, too, the fix was said to be fp32."""
    monkeypatch.setattr(score, "perplexities", lambda m, texts, c: np.full(len(texts), np.nan, np.float32))
    assert build(corpus, tmp_path / "store", model, "--dtype", dtype) == 2
    assert capsys.readouterr().err.splitlines()[-1] == f"spectra.datastore: {said}"


def test_interrupted(run, model, corpus, tmp_path, monkeypatch):
    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(score, "perplexities", stop)
    code, _, err = run("build", "--corpus", corpus, "--model", model, "--window", "64", "--out", tmp_path / "x")
    assert code == 130
    assert "goes on from here" in err


def test_a_folder_of_other_things_is_never_replaced(model, corpus, tmp_path, monkeypatch, capsys):
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "letter.txt").write_text("x")
    monkeypatch.chdir(tmp_path / "home")
    for out, problem in ((".", "no datastore"), ("letter.txt", "no datastore"), ("/", "the root folder")):
        assert build(corpus, Path(out), model, "--no-refine", "--force") == 2
        err = capsys.readouterr().err
        assert err.startswith("spectra.datastore: out: ") and problem in err and err.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["home"] and Path("letter.txt").read_text() == "x"


def test_names_that_are_no_unicode_do_not_spoil_a_store(run, model, corpus, tmp_path):
    odd = shutil.copy(corpus, tmp_path / "a\udcff.jsonl")
    out = tmp_path / "store"
    assert build(odd, out, model, "--licence", "\udcff", "--no-refine") == 0
    assert (read_card(out)["corpus"][0]["name"], read_card(out)["licence"]) == ("a?.jsonl", "?")
    assert run("inspect", out)[0] == 0
    code, said, err = run("query", out, "w5\udcff", "--model", model)
    assert (code, said) == (2, "") and err.startswith("spectra.datastore: text: it is not valid Unicode")
