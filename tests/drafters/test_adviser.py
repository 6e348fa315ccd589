"""A draft model beside other sources: asked where they know little and while it pays, and the text stays the same."""

from types import SimpleNamespace

import numpy as np
import pytest
from drafting import TextStore, decode_by
from tiny import FREE, model_of, target_of

from spectra import Limits, Sampling
from spectra.drafters.adviser import GRADES, Adviser, grade
from spectra.guess import Source
from spectra.method import Outcome
from spectra.methods.presets import make_method
from spectra.methods.resources import Resources
from spectra.target.draft_model import DraftModel
from spectra.target.execution_plan import ExecutionPlan
from spectra.tree import ROOT, TokenTree

PROBABILITIES = np.array([0.05, 0.4, 0.3, 0.2, 0.05])


class Asked:
    """`Draft` and `DraftAnswer` in one, that says the same everywhere and notes where it was asked."""

    name = "asked"

    def __init__(self, fits=True):
        self.fits, self.nodes = fits, []

    def start(self, sampling):
        return self

    def follow(self, tokens, ahead):
        return self.fits

    def probabilities(self, tree, nodes):
        self.nodes += nodes
        return [PROBABILITIES for _ in nodes]


class FixedJudge:
    """A judge that has one chance for what the draft model says and one for the rest."""

    def __init__(self, draft=0.2, other=0.9):
        self.chances = draft, other

    def chance(self, tree, node):
        return self.chances[tree.sources[node] != (Source.DRAFT,)]


def advised(tree, *, step=1.0, draft=None, judge=None, **settings):
    draft = draft or Asked()
    adviser = Adviser(draft, Sampling(), judge or FixedJudge(), step, tokens=2, **settings)
    adviser.begin([1])
    adviser.grow(tree, [1])
    return draft.nodes


def test_it_offers_the_likeliest_and_what_the_noise_favours():
    tree = TokenTree(9)
    assert advised(tree, depth=1) == [ROOT]
    assert set(tree.tokens[1:]) == {1, 2}
    tree = TokenTree(9, noise=lambda depth: [1e-6, 1.0, 1.0, 1.0, 1.0])
    advised(tree, depth=1)
    assert set(tree.tokens[1:]) == {0, 1, 2}


def test_the_noise_is_that_of_the_position_of_the_guess():
    favoured = {1: 0, 2: 4}
    tree = TokenTree(9, noise=lambda depth: [1e-6 if token == favoured.get(depth) else 1.0 for token in range(5)])
    advised(tree, depth=1)
    assert set(tree.tokens[1:]) == {0, 1, 2}


def test_it_asks_after_the_node_of_which_the_least_is_known():
    tree = TokenTree(9)
    likely = tree.add(ROOT, 3, Source.BACKWARD)
    assert advised(tree, depth=2)[0] == likely


def test_it_stops_where_its_time_is_not_worth_it():
    assert advised(TokenTree(9), step=0.0) == []
    tree = TokenTree(9)
    tree.add(ROOT, 3, Source.BACKWARD)
    assert advised(tree, judge=FixedJudge(other=1.0), depth=1) == []


def test_reading_the_prompt_is_no_part_of_a_questions_time(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr("spectra.drafters.adviser.time", SimpleNamespace(perf_counter=lambda: clock[0]))

    class Reads(Asked):
        def follow(self, tokens, ahead):
            clock[0] += 0.1 if len(tokens) > 1 else 50.0
            return True

    draft = Reads()
    adviser = Adviser(draft, Sampling(), FixedJudge(), 1.0, tokens=2, depth=1)
    adviser.begin([1])
    for tokens in ([1], [1, 2], [1, 2, 3]):
        adviser.grow(TokenTree(9), tokens)
    assert draft.nodes == [ROOT] * 3


class Timed(Asked):
    """One whose questions take some seconds of a clock that stands still otherwise."""

    def __init__(self, monkeypatch, seconds):
        super().__init__()
        self.now, self.seconds = 0.0, seconds
        clock = SimpleNamespace(perf_counter=lambda: self.now)
        monkeypatch.setattr("spectra.drafters.adviser.time", clock)

    def probabilities(self, tree, nodes):
        self.now += self.seconds
        return super().probabilities(tree, nodes)


@pytest.mark.parametrize(("seconds", "asked"), [(0.2, 2), (0.25, 1)])
def test_the_first_question_tells_what_the_next_will_take(monkeypatch, seconds, asked):
    """It is worth 0.3 plain steps of a second at first, 0.9/4 after one whose outcome is not known, 0.9/5 after two."""
    draft = Timed(monkeypatch, seconds)
    adviser = Adviser(draft, Sampling(), FixedJudge(), 1.0, tokens=2, depth=1)
    adviser.begin([1])
    for _ in range(3):
        adviser.grow(TokenTree(9), [1])
    assert len(draft.nodes) == asked


def test_questions_that_bring_nothing_are_worth_less(monkeypatch):
    draft = Timed(monkeypatch, 0.1)
    adviser = Adviser(draft, Sampling(), FixedJudge(), 1.0, tokens=2, depth=1)
    adviser.begin([1])
    for _ in range(30):
        tree = TokenTree(9)
        adviser.grow(tree, [1])
        adviser.observe([1], Outcome(tree, [], [1], lambda ticket: None))
    assert 3 < len(draft.nodes) < 15


def test_a_row_that_another_source_offered_first_costs_it_nothing():
    draft, tree = Asked(), TokenTree(9)
    adviser = Adviser(draft, Sampling(), FixedJudge(), 1.0, row=10.0, tokens=2, depth=1)
    adviser.begin([1])
    tree.add(tree.add(ROOT, 3, Source.BACKWARD), 4, Source.FORWARD)
    tree.add(ROOT, 3, Source.DRAFT)
    adviser.observe([1], Outcome(tree, [], [1], lambda ticket: None))
    adviser.grow(TokenTree(9), [1])
    assert draft.nodes == [ROOT]


@pytest.mark.parametrize("right", [True, False])
def test_it_rests_while_its_guesses_cost_more_than_they_bring(right):
    draft = Asked()
    adviser = Adviser(draft, Sampling(), FixedJudge(), 1.0, row=0.4, tokens=2, depth=1)
    adviser.begin([1])
    asked = []
    for _ in range(100):
        tree = TokenTree(9)
        adviser.grow(tree, [1])
        asked.append(len(tree) > 1)
        path = [1] if right and asked[-1] else []
        adviser.observe([1], Outcome(tree, path, [1], lambda ticket: None))
    assert asked[0]
    if right:
        assert all(asked)
    else:
        assert asked.index(False) < 4
        assert True in asked[asked.index(False) :]  # it is tried again


def test_a_text_that_it_cannot_hold_gets_nothing():
    tree = TokenTree(9)
    assert advised(tree, draft=Asked(fits=False)) == []
    assert len(tree) == 1


def test_a_banned_token_is_left_out():
    tree = TokenTree(9)
    advised(tree, depth=1, banned={1})
    assert tree.tokens[1:] == [2]


def test_grades_fall_with_the_probability():
    assert [grade(low) for low in GRADES] == list(range(len(GRADES)))
    assert grade(0.0) == len(GRADES)


@pytest.mark.parametrize("temperature", [0.0, 0.7, pytest.param(1.3, marks=pytest.mark.all_cases)])
def test_a_target_that_advises_itself_takes_few_passes_for_the_same_text(temperature):
    model = model_of("llama")
    target = target_of(model, ExecutionPlan(cost=FREE))
    sampling, resources = Sampling(temperature=temperature, seed=3), Resources(drafts=[DraftModel(target_of(model))])
    runs = {}
    for name in ("autoregressive", "spectra", "spectra-draft"):
        method = make_method(name, target, resources, sampling=sampling)
        runs[name] = list(decode_by(target, [3, 4, 5], method, sampling=sampling, limits=Limits(40)))
    texts = {name: [token for step in steps for token in step.tokens] for name, steps in runs.items()}
    assert texts["spectra-draft"] == texts["spectra"] == texts["autoregressive"]
    assert len(runs["spectra-draft"]) < len(runs["spectra"])
    assert Source.DRAFT in {source for step in runs["spectra-draft"] for source in step.sources}


def test_it_comes_after_the_stores():
    drafters = make_method(
        "spectra-draft", target_of(model_of("llama")), Resources([TextStore([1, 2, 3])], [Asked()])
    ).drafters
    assert isinstance(drafters[-1], Adviser)
