"""Options that change nothing beside the others are told in a line each."""

import pytest
import stores
from tiny import make
from words import save_model

from spectra.cli.main import main

PROMPT = "w5 w6 w7 w5 w6 w7"


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with a tiny model, a draft model and a store that fit it."""
    place = tmp_path_factory.mktemp("unused")
    save_model(place / "model", longest=400)
    make("llama", 5, max_position_embeddings=400).save_pretrained(place / "draft")
    corpus = stores.write_rows(place / "corpus.jsonl", stores.rows(8))
    assert stores.build(corpus, place / "store", place / "model") == 0
    return place


@pytest.fixture
def told(place, caplog):
    def call(*arguments, command="generate"):
        """What is said besides the report."""
        caplog.clear()
        model = ("--model", str(place / "model"), "--dtype", "fp32", "--max-new-tokens", "8")
        assert main([command, PROMPT, *model, *map(str, arguments)]) == 0
        return [one for one in caplog.messages if "no datastore fits" not in one]

    return call


def test_a_draft_model_that_the_method_does_not_ask(told, place, tmp_path):
    draft = ("--draft", place / "draft")
    line = "spectra asks no draft model: --draft changes nothing; choose another method, or leave it out"
    assert told(*draft) == [line]
    assert told(*draft, "--out", tmp_path / "race.json", command="race") == [line]
    assert told(*draft, "--method", "spectra-draft") == told() == []


def test_a_datastore_that_the_method_does_not_read(told, place, tmp_path):
    store = ("--datastore", place / "store")
    line = "prompt-lookup reads no datastore: --datastore changes nothing; choose another method, or leave it out"
    assert told(*store, "--method", "prompt-lookup") == [line]
    race = ("--method", "prompt-lookup", "--out", tmp_path / "race.json")
    assert told(*store, *race, command="race") == [line]
    for read in (("spectra",), ("spectra-core", "--retrieval"), ("spectra-core", "--no-retrieval")):
        assert told(*store, "--method", *read) == []


def test_an_explained_trace_that_is_not_written(told, tmp_path):
    (line,) = told("--explain")
    assert line == "--explain tells the trace more, and none is written: add --trace PATH, or leave it out"
    assert told("--explain", "--trace", tmp_path / "trace.json") == []


def test_settings_of_draws_at_temperature_0(told):
    drawing = ("--top-k", 5, "--seed", 3)
    (line,) = told(*drawing)
    assert line == "temperature 0 is greedy: --seed, --top-k change nothing; set --temperature, or leave them out"
    assert told(*drawing, "--temperature", 0.5) == told("--repetition-penalty", 1.2) == []
