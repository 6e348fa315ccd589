"""Drafters of many requests at once, as vLLM calls them: told apart by their text, bounded, fast, never in the way."""

import itertools
import logging
import random
from types import SimpleNamespace

import numpy as np
import pytest
from scripted import OWN, SYSTEM, Engine, request

from spectra.errors import SpectraError
from spectra.guess import Source
from spectra.serving.batch import ServedBatch
from spectra.serving.chains import GuessedChain, best_chain, share
from spectra.serving.requests import Requests
from spectra.serving.settings import ServingSettings
from spectra.serving.step_cost import LearnedStepCost
from spectra.serving.vllm import Proposer, drafters_of, end_tokens
from spectra.tree import TokenTree


class Counting:
    """Makes drafters, and counts how often it was asked."""

    def __init__(self) -> None:
        self.made = 0
        self.inner = drafters_of(None, frozenset())

    def __call__(self):
        self.made += 1
        return self.inner()


def batch(make=None, *, most=64, tokens=100_000, context=4096, longest=256):
    make = make or drafters_of(None, frozenset())
    return ServedBatch(Requests(make, max_requests=most, tokens=tokens, context=context), max_tokens=6, longest=longest)


def lone_config(additional=None, k=6):
    model = SimpleNamespace(
        max_model_len=256,
        hf_config=SimpleNamespace(eos_token_id=2),
        try_get_generation_config=lambda: {"eos_token_id": [2, 5]},
    )
    speculative = SimpleNamespace(num_speculative_tokens=k)
    return SimpleNamespace(additional_config=additional or {}, model_config=model, speculative_config=speculative)


def test_no_state_crosses_requests():
    """200 requests with the same first 40 tokens, moved, cancelled and preempted, in too little memory for all."""
    make = Counting()
    tested = batch(make, most=16, tokens=2000)
    dice = random.Random(3)
    engine = Engine(tested.propose, size=8)
    engine.waiting = [request(number, dice, dice.randrange(1, 120)) for number in range(200)]
    while engine.waiting or engine.rows:
        engine.step(preempt=0.05, cancel=0.02)
        assert len(tested.requests) <= 16
        assert tested.requests.held <= 2000
    assert engine.preempted > 20 and 100 < len(engine.done) < 200
    assert all(len(served.answer) >= served.length for served in engine.done)
    for served, draft in engine.drafts:
        own = range(OWN * (served.number + 1), OWN * (served.number + 2))
        assert all(token in own or token in SYSTEM for token in draft), (served.number, draft)
    assert engine.accepted > 1000
    assert make.made < 200 + 2 * engine.preempted


def test_a_request_is_found_again_wherever_its_row_is():
    make = Counting()
    dice = random.Random(1)
    engine = Engine(batch(make).propose, size=8)
    engine.waiting = [request(number, dice, 60) for number in range(8)]
    while engine.waiting or engine.rows:
        engine.step(preempt=0.1)
    assert engine.preempted > 3
    assert make.made == 8


def test_samples_of_one_prompt_are_told_apart_as_soon_as_they_differ():
    make = Counting()
    tested = batch(make)
    prompt = SYSTEM + SYSTEM
    texts = [[*prompt, 1], [*prompt, 1], [*prompt, 1]]
    ids = np.zeros((3, 256), np.int32)

    def call(new):
        for row, (text, token) in enumerate(zip(texts, new, strict=True)):
            text.append(token)
            ids[row, : len(text)] = text
        return tested.propose([[token] for token in new], [len(text) for text in texts], ids)

    call([50, 50, 50])
    for step in range(6):
        call([60 + step, 70 + step, 80 + step])
    drafts = call([60, 70, 80])
    assert make.made == 3
    assert [draft[0] for draft in drafts] == [61, 71, 81]


def test_a_full_memory_serves_who_came_first_and_does_not_churn():
    make = Counting()
    tested = batch(make, tokens=300)
    dice = random.Random(5)
    engine = Engine(tested.propose, size=8)
    engine.waiting = [request(number, dice, 100) for number in range(8)]
    while engine.waiting or engine.rows:
        engine.step()
        assert tested.requests.held <= 300
    assert engine.accepted > 50
    assert make.made < 30


def test_old_requests_go_first():
    tested = batch(most=2).requests
    rows = np.arange(300, dtype=np.int32).reshape(3, 100)
    for row in rows:
        tested.begin_call()
        tested.begin_call()
        tested.keep(row, 50, tested.take(row, 40))
    assert len(tested) == 2
    made = Counting()
    tested._make = made
    assert tested.take(rows[1], 50) is not None and tested.take(rows[2], 50) is not None
    assert made.made == 0
    tested.take(rows[0], 50)
    assert made.made == 1


def test_a_request_is_found_again_after_steps_without_a_call():
    make = Counting()
    tested = batch(make)
    rows = np.array([[3, 1, 2, 9, 1, 2, 9, 1, 2, 9, 1], [3, 5, 6, 7, 5, 6, 7, 5, 6, 7, 5]], np.int32)
    tested.propose([[1], [5]], [5, 5], rows)
    drafts = tested.propose([[5], [1]], [11, 11], rows[::-1].copy())
    assert make.made == 2
    assert [draft[0] for draft in drafts] == [6, 2]
    assert [request.tokens for request in tested._asked] == rows[::-1].tolist()


def test_only_the_end_of_a_long_prompt_is_read():
    tested = batch(context=32).requests
    row = np.arange(200, dtype=np.int32)
    assert tested.take(row, 150).tokens == list(range(118, 150))


def test_nothing_is_guessed_past_the_longest_text():
    tested = batch(longest=100)
    ids = np.array([[1, 2, 3, 4, 5] * 20], np.int32)
    assert tested.propose([[5]], [95], ids)[0] == [1, 2, 3, 4]
    assert tested.propose([[1, 2, 3, 4]], [99], ids) == [[]]
    assert tested.propose([[5]], [100], ids) == [[]]
    assert batch().propose([], [], ids) == []


def test_rows_that_read_their_prompt_are_left_alone():
    tested = batch()
    ids = np.array([[1, 2, 3, 1, 2, 3, 1, 2], [4] * 8], np.int32)
    assert tested.propose([[], [4]], [5, 8], ids)[0] == []
    assert len(tested.requests) == 1


def test_the_best_chain_is_the_one_that_most_tokens_are_expected_of():
    dice = random.Random(0)
    for _ in range(200):
        tree, chances = TokenTree(0), [1.0]
        for _ in range(dice.randrange(1, 12)):
            parent = dice.randrange(len(tree))
            before = len(tree)
            tree.add(parent, dice.randrange(100), Source.FORWARD, eligible=dice.random() < 0.9)
            if len(tree) > before:
                chances.append(chances[parent] * dice.random() if tree.eligible[-1] else 0.0)
        most = dice.randrange(0, 5)
        paths = [tree.path(node) for node in range(len(tree))]
        usable = [path for path in paths if len(path) <= most and all(tree.eligible[node] for node in path)]
        best = max(sum(chances[node] for node in path) for path in usable)
        chain = best_chain(tree, chances, most)
        assert sum(chain.chances) == pytest.approx(best)
        assert list(chain.tokens) in [tree.path_tokens(path[-1]) if path else [] for path in usable]


def test_lengths_are_those_of_most_tokens_a_second():
    dice = random.Random(1)
    for _ in range(100):
        chains = []
        for _ in range(dice.randrange(1, 4)):
            chances = sorted((dice.random() for _ in range(dice.randrange(4))), reverse=True)
            chains.append(GuessedChain(tuple(range(len(chances))), tuple(chances)))
        slope = dice.choice([0.0, 0.05, 0.3, 1.0])

        def rate(lengths, chains=chains, slope=slope):
            gain = sum(sum(chain.chances[:n]) for chain, n in zip(chains, lengths, strict=True))
            return (len(chains) + gain) / (1 + slope * (len(chains) + sum(lengths) - 1))

        options = itertools.product(*(range(len(chain.tokens) + 1) for chain in chains))
        chosen = share(chains, lambda q, slope=slope: 1 + slope * (q - 1), len(chains))
        assert rate(chosen) == pytest.approx(max(rate(lengths) for lengths in options))


def test_chains_are_shorter_in_a_larger_batch_and_empty_when_nothing_promises():
    chain = GuessedChain((1, 2, 3, 4), (0.9, 0.7, 0.4, 0.2))

    def seconds(queries):
        return 1 + 0.05 * (queries - 1)

    lengths = [share([chain] * rows, seconds, rows)[0] for rows in (1, 4, 16, 64)]
    assert lengths == sorted(lengths, reverse=True)
    assert lengths[0] == 4 and lengths[-1] < 3
    assert share([GuessedChain((1,), (0.01,))] * 3, seconds, 3) == [0, 0, 0]
    assert share([], seconds, 0) == []


def test_pace_learns_what_a_query_token_costs():
    step_cost, dice = LearnedStepCost(), random.Random(0)
    assert step_cost.seconds(1) == 1.0
    for _ in range(300):
        queries = dice.randrange(1, 20)
        step_cost.observe(queries, (0.020 + 0.001 * queries) * dice.uniform(0.9, 1.1))
    assert step_cost.seconds(1) == pytest.approx(0.021, rel=0.1)
    assert step_cost.seconds(20) == pytest.approx(0.040, rel=0.1)


def test_one_interrupted_step_hardly_counts():
    step_cost = LearnedStepCost()
    for queries in range(1, 30):
        step_cost.observe(queries, 0.02)
    step_cost.observe(5, 60.0)
    assert step_cost.seconds(5) < 0.03


def test_pace_leaves_out_steps_that_did_something_else():
    times = iter([0.0, 0.1, 1.0, 1.1, 9.0, 9.1, 9.5, 9.6])
    tested = batch()
    tested._clock = lambda: next(times)
    ids = np.array([[1, 2, 9, 1, 2, 9, 1, 2], [3, 4, 5, 6, 7, 8, 9, 9]], np.int32)
    tested.propose([[9]], [6], ids)
    tested.propose([[1]], [7], ids)  # 0.9 s for one request that was there before
    assert tested.step_cost.seconds(1) <= 0.9
    before = tested.step_cost.seconds(1)
    tested.propose([[2], [9]], [8, 8], ids)  # 7.9 s, but another one came
    assert tested.step_cost.seconds(1) == before


def test_an_error_drafts_nothing_and_is_logged_once(caplog):
    proposer = Proposer(lone_config())
    ids = np.array([[1, 2, 3, 1, 2, 3, 1, 2]], np.int32)
    good = proposer.propose([[2]], [8], ids)
    assert good[0][0] == 3
    with caplog.at_level(logging.INFO, "vllm.spectra"):
        assert proposer.propose([[2], [1]], [8], ids) == [[], []]
        assert proposer.propose([[2], [1]], [8], ids) == [[], []]
    assert len(caplog.records) == 1 and caplog.records[0].exc_info
    assert proposer.propose([[2]], [8], ids, slot_mappings=None) == good


def test_the_proposer_takes_what_vllm_gives():
    proposer = Proposer(lone_config({"spectra": {"requests": 3, "tokens": 500}, "other": 1}, k=2))
    assert (proposer.batch.max_tokens, proposer.batch.longest, proposer.batch.requests.max_requests) == (2, 256, 3)
    assert proposer.load_model(object()) is None
    assert end_tokens(lone_config().model_config) == {2, 5}
    ids = np.array([[1, 4, 3, 1, 4, 3, 1, 4]], np.int32)
    assert proposer.propose([[4]], np.array([8]), ids) == [[3, 1]]
    ended = np.array([[1, 4, 5, 1, 4, 5, 1, 4]], np.int32)
    assert proposer.propose([[4]], np.array([8]), ended) == [[]]  # 5 ends an answer


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"spectra": {"order": 5}}, "order"),
        ({"spectra": {"tokens": 0}}, "tokens"),
        ({"spectra": {"requests": "many"}}, "requests"),
        ({"spectra": {"stores": "datastores/chat", "tokenizer": "x"}}, "stores"),
        ({"spectra": {"stores": ["datastores/chat"]}}, "tokenizer"),
        ({"spectra": [1]}, "spectra"),
    ],
)
def test_bad_settings_are_named(settings, field):
    with pytest.raises(SpectraError) as error:
        ServingSettings.of(settings)
    assert error.value.field == field


def test_settings_go_through_vllm_and_back():
    settings = ServingSettings(stores=("a", "b"), tokenizer="x", tokens=5)
    assert ServingSettings.of(settings.to_dict()) == settings
    assert ServingSettings.of(None) == ServingSettings.of({}) == ServingSettings()
