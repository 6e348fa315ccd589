"""A draft model beside other sources: asked where they know little and while it pays, and the text stays the same."""

import weakref
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


def test_it_asks_after_its_own_guesses_too_as_deep_as_they_are_likely_enough():
    """Chances multiply down a path: after a guess of 0.4 there is less to know than after one of 0.9."""
    for depth, asked in ((1, [()]), (2, [(), (1,), (2,)]), (3, [(), (1,), (1, 1), (1, 2), (2,), (2, 1), (2, 2)])):
        tree = TokenTree(9)
        nodes = advised(tree, depth=depth, judge=FixedJudge(draft=0.4))
        assert sorted(tuple(tree.path_tokens(node)) for node in nodes) == asked
    tree = TokenTree(9)
    likely = tree.add(ROOT, 3, Source.BACKWARD)
    other = tree.add(ROOT, 4, Source.RETRIEVAL)
    under = tree.add(other, 4, Source.RETRIEVAL)
    chances = {likely: 0.3, other: 0.6, under: 0.9}
    judge = SimpleNamespace(chance=lambda tree, node: chances.get(node, 0.01))
    nodes = advised(tree, depth=3, judge=judge)
    assert nodes[:3] == [under, likely, ROOT]  # 0.54, 0.3, 0.1; 0.06 after the other one


def test_what_cannot_be_accepted_or_is_too_deep_is_not_asked_about():
    tree = TokenTree(9)
    row = tree.add(ROOT, 3, Source.POOL, eligible=False)
    tree.add(row, 3, Source.POOL, eligible=False)
    node = ROOT
    for token in (5, 6, 7):
        node = tree.add(node, token, Source.BACKWARD)
    asked = advised(tree, depth=2)
    assert ROOT in asked and not [node for node in asked if not tree.eligible[node] or tree.depths[node] >= 2]


def test_a_guess_that_another_source_has_is_not_weighed_twice():
    """They were asked about before the root was, where the draft model offers them again."""
    tree = TokenTree(9)
    tree.add(ROOT, 1, Source.BACKWARD)
    tree.add(ROOT, 2, Source.BACKWARD)
    assert advised(tree, depth=2, judge=FixedJudge(other=0.45)) == [1, 2, ROOT]
    assert tree.sources[1] == tree.sources[2] == (Source.BACKWARD, Source.DRAFT)


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


def test_one_slow_question_is_a_tenth_of_what_the_next_is_expected_to_take(monkeypatch):
    """0.14 after 0.1 and 0.5: one that is worth 0.9/5 of a second is asked, though it took longer last time."""
    draft = Timed(monkeypatch, 0.1)
    adviser = Adviser(draft, Sampling(), FixedJudge(), 1.0, tokens=2, depth=1)
    adviser.begin([1])
    for seconds in (0.1, 0.5, 0.1):
        draft.seconds = seconds
        adviser.grow(TokenTree(9), [1])
    assert len(draft.nodes) == 3


def test_taking_over_the_text_is_part_of_a_questions_time_and_done_once_a_step(monkeypatch):
    class Follows(Timed):
        calls = 0

        def follow(self, tokens, ahead):
            self.calls += 1
            self.now += 3.0
            return True

    draft = Follows(monkeypatch, 0.0)
    adviser = Adviser(draft, Sampling(), FixedJudge(draft=0.4), 1.0, tokens=2, depth=2)
    adviser.begin([1])
    adviser.grow(TokenTree(9), [1])
    assert len(draft.nodes) == 3 and draft.calls == 1  # the first time it reads the prompt
    for _ in range(2):
        adviser.grow(TokenTree(9), [1, 2])
    assert len(draft.nodes) == 4 and draft.calls == 2


def test_what_it_asked_is_let_go_when_the_answer_is_complete():
    class Answers(Asked):
        def start(self, sampling):
            self.answer = Asked()
            return self.answer

    draft = Answers()
    adviser = Adviser(draft, Sampling(), FixedJudge(), 1.0)
    adviser.begin([1])
    answer = weakref.ref(draft.answer)
    del draft.answer
    assert answer() is not None
    adviser.end([1, 2])
    assert answer() is None


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
