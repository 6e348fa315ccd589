"""What a trace tells of dictionaries and datastores: what the drafters held, found and learned, and only when asked."""

import json

import numpy as np
import pytest
from drafting import TextStore, decode_by
from stores import build, rows, write_rows
from tiny import model_of, target_of
from words import save_model

from spectra import Limits
from spectra.datastore.store import Store
from spectra.drafters.continuations import hits
from spectra.drafters.core import CoreSettings, SpectraCore
from spectra.guess import Source
from spectra.inside import Hit, Inside, Learned
from spectra.methods.presets import make_method
from spectra.methods.resources import Resources
from spectra.trace import StepTrace
from spectra.tree import TokenTree

PROMPT = [*range(20), *range(20)]
RESOURCES = Resources([TextStore(range(64))])
MODEL = 1
"""The word with which the template of `words.py` opens an answer."""


@pytest.fixture(scope="module")
def target():
    return target_of(model_of("llama"))


def steps_of(target, name, *, explain=True, tokens=40):
    method = make_method(name, target, RESOURCES)
    return list(decode_by(target, PROMPT, method, limits=Limits(tokens), explain=explain)), method


@pytest.mark.parametrize("name", ["spectra-paper", "spectra", "spectra-core", "lookahead"])
def test_asking_changes_no_step(target, name):
    explained, _ = steps_of(target, name)
    plain, _ = steps_of(target, name, explain=False)
    assert [(s.tokens, s.tree, s.path) for s in explained] == [(s.tokens, s.tree, s.path) for s in plain]
    assert all(step.inside is None for step in plain)
    assert all((step.inside is None) == (name == "lookahead") for step in explained)
    for step in explained:
        assert StepTrace.from_dict(json.loads(json.dumps(step.to_dict()))) == step


@pytest.mark.parametrize("name", ["spectra-paper-core", "spectra-core"])
def test_what_was_learned_is_what_the_dictionaries_hold(target, name):
    """The dictionaries, built again from the trace alone, answer as the next step says they did."""
    steps, method = steps_of(target, name)
    settings = next(each for each in method.drafters if isinstance(each, SpectraCore)).settings
    again = SpectraCore(CoreSettings(order=settings.order, capacity=settings.capacity, chain=settings.chain))
    if settings.text:
        first = SpectraCore(settings)
        first.begin(PROMPT)
        again.inherit(first)
    tokens = list(PROMPT)
    for step in steps:
        looked = again.look(tokens)
        assert (step.inside.forward, step.inside.backward) == (looked.forward, looked.backward)
        for one in step.inside.learned:
            for start in one.forward:
                again.forward.put(one.tokens[start], one.tokens[start + 1 :])
            for start in one.backward:
                again.backward.put(one.tokens[start:-1], one.tokens[-1])
        tokens += step.tokens
    assert sum(len(step.inside.learned) for step in steps) > 20
    assert any(step.inside.forward for step in steps) and any(step.inside.backward for step in steps)


def test_pool_rows_name_their_place_and_draw(target):
    steps, _ = steps_of(target, "spectra-paper-core")
    for step in steps[:-4]:
        rows = [one for one in step.inside.learned if one.origin == "pool"]
        assert [one.place for one in rows] == list(range(15)) and len(step.inside.refined) == 15
        pool = [token for token, may in zip(step.tree.tokens, step.tree.eligible, strict=True) if not may]
        assert [token for one in rows for token in one.tokens[:-1]] == pool
    assert 0 < sum(sum(step.inside.refined) for step in steps) < 15 * len(steps)


def test_a_step_at_which_no_drafter_is_asked_drew_nothing():
    core = SpectraCore(CoreSettings())
    core.begin(PROMPT)
    drawn = []
    for asks in (True, False):
        core.look(PROMPT)
        if asks:
            core.grow(TokenTree(PROMPT[-1]), PROMPT)
        drawn.append(len(core.taught().refined))
    assert drawn == [15, 0]


def test_hits_are_those_of_the_store(target):
    steps, _ = steps_of(target, "spectra-paper")
    tokens, store = list(PROMPT), RESOURCES.stores[0]
    for step in steps:
        answer = store.successors(tokens)
        assert [(hit.token, hit.times) for hit in step.inside.hits] == answer.pairs[:8]
        assert all(
            (hit.match, hit.seen, hit.store, hit.texts) == (answer.match, answer.seen, "text", 1)
            for hit in step.inside.hits
        )
        if Source.RETRIEVAL in {source for row in step.tree.sources for source in row}:
            assert step.inside.hits
        tokens += step.tokens


def test_a_store_tells_which_texts_hold_a_run_of_tokens(tmp_path):
    model = save_model(tmp_path / "model")
    assert build(write_rows(tmp_path / "corpus.jsonl", rows(12)), tmp_path / "store", model) == 0
    store = Store.open(tmp_path / "store")
    corpus, places = np.load(store.folder / "corpus.npy").tolist(), np.load(store.folder / "texts.npy")
    texts = [corpus[row["start"] : row["start"] + row["length"]] for row in places]
    across = corpus[len(texts[0]) - 1 : len(texts[0]) + 1]
    for run in (texts[0][2:5], texts[3][-2:], texts[1][:1], across, [9, 9, 9, 9, 9]):
        holders = [i for i, text in enumerate(texts) if any(text[at : at + len(run)] == run for at in range(len(text)))]
        kept = store.texts_with(run)
        assert kept.texts == len(holders)
        assert kept.times == sum(text[at : at + len(run)] == run for text in texts for at in range(len(text)))
        lowest = min((float(places["perplexity"][i]) for i in holders), default=None)
        assert kept.perplexity == (None if lowest is None else round(lowest, 4))
    begun = hits([store], [7, MODEL])
    assert {hit.token for hit in begun} <= {text[0] for text in texts} and begun
    assert all((hit.match, hit.texts, hit.perplexity) == (1, None, None) for hit in begun)
    (store.folder / "corpus.npy").unlink()
    assert store.texts_with([1, 2]) is None


def test_a_damaged_inside_is_refused():
    whole = Inside(((1, 2),), ((1, 3),), (True,), (Learned("pool", 0, (1, 2, 3), (0,), (1,)),), (Hit(5, 2, 1, 4),))
    assert Inside.from_dict(json.loads(json.dumps(whole.to_dict()))) == whole
    assert whole.tokens == {1, 2, 3, 5}
    data = whole.to_dict()
    for damaged in (
        {**data, "forward": [["x"]]},
        {**data, "backward": [[1]]},
        {**data, "learned": [{**data["learned"][0], "forward": [2]}]},
        {**data, "hits": [{"token": 1}]},
        {**data, "hits": [{**data["hits"][0], "token": 2**53 + 1}]},  # JavaScript would show another
        {},
    ):
        with pytest.raises((KeyError, TypeError, ValueError)):
            Inside.from_dict(damaged)


def test_texts_are_not_told_where_some_of_the_runs_begin_in_an_opening(tmp_path):
    model = save_model(tmp_path / "model")
    texts = [row["assistant"] for row in rows(12)]
    texts[5] += f" model {texts[0].split()[0]} model w3"  # the word that opens an answer, before what begins one too
    corpus = write_rows(
        tmp_path / "corpus.jsonl", [{"user": f"Say {i}", "assistant": each} for i, each in enumerate(texts)]
    )
    assert build(corpus, tmp_path / "store", model) == 0
    found = {hit.token: hit for hit in hits([Store.open(tmp_path / "store")], [7, MODEL])}
    opening, inside = found[int(texts[0].split()[0][1:])], found[3]
    assert (opening.times, opening.texts, opening.perplexity) == (2, None, None)
    assert (inside.times, inside.texts) == (1, 1) and inside.perplexity
