"""SPECTRA-CORE: both dictionaries, the candidate pool and Algorithm 1's update, against the paper by hand."""

import random
from dataclasses import replace

import pytest
from drafting import decode_by, grown, outcome_of, runs
from tiny import model_of, target_of

from spectra import Limits
from spectra.budget.policy import FixedBudget
from spectra.drafters.core import IMPROVED, CoreSettings, SpectraCore
from spectra.drafters.ngrams import BackwardDictionary, ForwardDictionary
from spectra.drafters.pool import CandidatePool
from spectra.guess import Guess, Source
from spectra.method import Method, Outcome
from spectra.methods.presets import make_method
from spectra.tree import ROOT, TokenTree


class TestForwardDictionary:
    def test_newest_first_and_the_oldest_goes_out(self):
        forward = ForwardDictionary(15)
        for i in range(20):
            forward.put(1, (i,))
        assert forward.get(1) == [(i,) for i in range(19, 4, -1)] and forward.size == 15
        assert forward.get(2) == []

    def test_putting_again_moves_to_the_front_without_a_copy(self):
        forward = ForwardDictionary(3)
        for continuation in ((1,), (2,), (3,), (1,), (4,)):
            forward.put(9, continuation)
        forward.put(8, (1,))
        assert forward.get(9) == [(4,), (1,), (3,)] and forward.size == 4


class TestBackwardDictionary:
    def test_longest_suffix_wins_and_newest_value(self):
        backward = BackwardDictionary(4)
        backward.put((3,), 7)
        backward.put((2, 3), 8)
        backward.put((2, 3), 9)
        assert backward.get([1, 2, 3]) == (9, 2)
        assert backward.get([5, 3]) == (7, 1)
        assert backward.get([2, 5]) is None
        assert backward.get([]) is None

    def test_never_looks_further_back_than_its_order(self):
        backward = BackwardDictionary(3)
        backward.put((1, 2, 3), 4)
        assert backward.get([1, 2, 3]) is None

    def test_token_zero_is_a_value(self):
        backward = BackwardDictionary(3)
        backward.put((1,), 0)
        assert backward.get([1]) == (0, 1)

    def test_entry_limit_drops_the_oldest_written(self):
        backward = BackwardDictionary(3, limit=2)
        backward.put((1,), 1)
        backward.put((2,), 2)
        backward.put((1,), 5)
        backward.put((3,), 3)
        assert backward.get([2]) is None
        assert backward.get([1]) == (5, 1)
        assert len(backward.entries) == 2


class TestCandidatePool:
    def test_rows_start_from_the_prompt(self):
        prompt = [10, 11, 12, 13, 14, 15, 16, 99]
        for start in ("random", "windows"):
            pool = CandidatePool(40, 4, start=start, banned={99})
            pool.begin(prompt)
            assert len(pool.rows) == 40
            for row in pool.rows:
                assert len(row) == 4
                assert set(row) <= set(prompt) - {99}
                assert start == "random" or row == list(range(row[0], row[0] + 4))

    def test_random_rows_are_no_runs_and_windows_begin_anywhere(self):
        rows = {}
        for start in ("random", "windows"):
            pool = CandidatePool(200, 4, start=start)
            pool.begin(range(10, 17))
            rows[start] = pool.rows
        assert {tuple(row) for row in rows["windows"]} == {tuple(range(at, at + 4)) for at in range(10, 14)}
        assert {token for row in rows["random"] for token in row} == set(range(10, 17))
        assert len({tuple(row) for row in rows["random"]}) > 100
        short = CandidatePool(5, 4, start="windows")
        short.begin([1, 2])
        assert short.rows == [[1, 2, 1, 2]] * 5  # one that is shorter than a row is repeated

    def test_the_same_seed_gives_the_same_rows(self):
        pools = [CandidatePool(5, 4, seed=seed) for seed in (1, 1, 2)]
        for pool in pools:
            pool.begin(range(50))
        assert pools[0].rows == pools[1].rows != pools[2].rows

    def test_a_prompt_of_banned_tokens_gives_no_rows(self):
        pool = CandidatePool(5, 4, banned={1})
        pool.begin([1, 1])
        assert pool.rows == []

    @pytest.mark.parametrize("layout", ["rows", "columns"])
    def test_layout(self, layout):
        pool = CandidatePool(3, 2, layout=layout)
        pool.begin([1])
        pool.rows = [[1, 2], [3, 4], [5, 6]]
        tree = TokenTree(9)
        pool.grow(tree, [False, True, False], {7})
        paths = [tree.path_tokens(tree.reads[t][0]) for t in pool.tickets]
        assert paths == ([[1, 2], [3, 4], [5, 6]] if layout == "rows" else [[1, 2], [1, 3, 4], [1, 3, 5, 6]])
        assert [bool(tree.reads[t][1]) for t in pool.tickets] == [False, True, False]
        assert not any(tree.eligible[1:])

    def test_every_row_shifts_once_a_pass_and_waits_where_it_was_not_scored(self):
        pool = CandidatePool(2, 3)
        pool.begin([1])
        pool.rows = [[1, 2, 3], [4, 5, 6]]
        assert pool.advance([7, None]) == [([1, 2, 3, 7], 1)]
        assert pool.rows == [[2, 3, 7], [4, 5, 6]]
        pool.advance([8, 9])
        assert pool.rows == [[3, 7, 8], [5, 6, 9]]
        assert pool.predicted == [2, 1]

    def test_an_end_of_sequence_never_enters_a_row(self):
        pool = CandidatePool(1, 3, banned={0})
        pool.begin([1])
        pool.rows = [[1, 2, 3]]
        assert pool.advance([0])[0][0] == [1, 2, 3, 0]
        assert 0 not in pool.rows[0]
        assert pool.predicted == [0]


class TestAlgorithm:
    def settings(self, **changes):
        return replace(CoreSettings(order=4, rows=1), **changes)

    def learned(self, **changes):
        """The dictionaries after one row 1 2 3 whose next token is 4."""
        core = SpectraCore(self.settings(**changes))
        core.begin([1])
        core.pool.rows = [[1, 2, 3]]
        tree = grown(core, [9])
        core.observe([9, 5], outcome_of(tree, {core.pool.tickets[0]: 4}, [5]))
        return core

    def test_update_of_one_row(self):
        core = self.learned()
        assert {k: list(v) for k, v in core.forward.lists.items()} == {1: [(2, 3, 4)], 2: [(3, 4)], 3: [(4,)]}
        assert dict(core.backward.entries) == {(1, 2, 3): 4, (2, 3): 4, (3,): 4}

    def test_without_sub_ngrams_only_whole_rows_enter(self):
        core = self.learned(subngrams=False)
        assert {k: list(v) for k, v in core.forward.lists.items()} == {1: [(2, 3, 4)]}
        assert dict(core.backward.entries) == {(1, 2, 3): 4}

    def test_only_predicted_waits_until_the_prompts_tokens_are_gone(self):
        assert dict(self.learned(only_predicted=True).backward.entries) == {(3,): 4}

    def test_ngrams_of_the_prompt_and_of_accepted_text(self):
        core = SpectraCore(self.settings(rows=0, text=True), banned={0})
        core.begin([1, 2, 3, 4])
        assert core.backward.get([1, 2, 3]) == (4, 3)
        assert core.forward.get(1) == [(2, 3, 4)]
        core.observe([1, 2, 3, 4, 5, 0], outcome_of(TokenTree(4), {}, [5, 0]))
        assert core.backward.get([2, 3, 4]) == (5, 3)
        assert core.backward.get([5]) is None

    def test_what_the_target_would_have_written_after_rejected_guesses(self):
        """Not after accepted ones, which the text teaches, nor after rows that are no guesses; no end of sequence."""
        core = SpectraCore(self.settings(rows=0, harvest=True), banned={0})
        core.begin([1])
        tree = TokenTree(9)
        tree.insert(Guess((1, 2), Source.FORWARD))
        for token, eligible in ((5, True), (6, True), (7, False)):
            tree.add(ROOT, token, Source.POOL, eligible=eligible)
        known = {ROOT: 1, 1: 3, 2: 8, 3: 4, 4: 0, 5: 4}
        core.observe([10, 11, 9, 1, 3], Outcome(tree, [1], [1, 3], {}.get, known))
        assert {key: list(value) for key, value in core.forward.lists.items()} == {2: [(8,)], 5: [(4,)]}
        after_two, after_five = ((9, 1, 2), (1, 2), (2,)), ((11, 9, 5), (9, 5), (5,))
        assert dict(core.backward.entries) == dict.fromkeys(after_two, 8) | dict.fromkeys(after_five, 4)

    def test_backward_guess_goes_on_to_the_first_miss(self):
        core = SpectraCore(self.settings(rows=0, chain=9))
        core.begin([1])
        for context, token in (((8, 9), 1), ((9, 1), 2), ((2,), 3)):
            core.backward.put(context, token)
        assert runs(grown(core, [7, 8, 9]), Source.BACKWARD) == [(1, 2, 3)]
        short = SpectraCore(self.settings(rows=0, chain=2))
        short.backward = core.backward
        assert runs(grown(short, [7, 8, 9]), Source.BACKWARD) == [(1, 2)]

    def test_forward_guesses_are_newest_first_and_cut_to_g(self):
        core = SpectraCore(self.settings(rows=0, guesses=2))
        for i in range(5):
            core.forward.put(9, (i, i))
        core.backward.put((9,), 30)
        tree = grown(core, [9])
        assert tree.tokens == [9, 4, 4, 3, 3]  # the backward guess is cut as the paper prints it
        assert tree.ranks == [0, 0, 0, 1, 1]

    @pytest.mark.parametrize("first", [True, False])
    @pytest.mark.parametrize(("part", "source"), [("forward", Source.FORWARD), ("backward", Source.BACKWARD)])
    def test_ablations_switch_a_source_off(self, part, source, first):
        for on in (True, False):
            core = SpectraCore(self.settings(rows=0, backward_first=first, **{part: on}))
            core.forward.put(9, (1,))
            core.backward.put((9,), 2)
            assert bool(runs(grown(core, [9]), source)) == on

    @pytest.mark.parametrize("first", [True, False])
    def test_who_comes_first_has_the_credit_for_what_both_guess(self, first):
        core = SpectraCore(self.settings(rows=0, backward_first=first))
        core.forward.put(9, (1, 2))
        core.backward.put((9,), 1)
        both = (Source.FORWARD, Source.BACKWARD)
        assert grown(core, [9]).sources[1] == (both[::-1] if first else both)

    def test_only_where_it_is_asked_for_rejected_guesses_teach(self):
        core = SpectraCore(self.settings(rows=0))
        core.begin([1])
        tree = TokenTree(9)
        tree.insert(Guess((1,), Source.FORWARD))
        core.observe([9, 5], Outcome(tree, [], [5], {}.get, {ROOT: 5, 1: 3}))
        assert not core.forward.lists and not core.backward.entries

    @pytest.mark.parametrize(("refine", "unseen", "share"), [(0.1, True, 0.1), (0.1, False, 0.9), (0, True, 0)])
    def test_refine_is_drawn_for_each_row(self, refine, unseen, share):
        core = SpectraCore(self.settings(rows=15, refine=refine, refine_unseen=unseen))
        core.begin([1])
        core.forward.put(5, (6,))
        novel = 0
        for _ in range(200):
            tree = grown(core, [9])
            novel += sum(bool(avoid) for _, avoid in tree.reads.values())
            assert all(set(avoid) <= {5} for _, avoid in tree.reads.values())
        assert abs(novel / 3000 - share) < 0.02

    def test_the_literal_tree_has_121_nodes_at_most(self):
        target = target_of(model_of("llama"))
        method = make_method("spectra-paper-core", target)
        assert isinstance(method.budget, FixedBudget)
        assert method.max_nodes == 120
        core = method.drafters[0]
        core.begin(range(50))
        assert len(grown(core, [9])) == 1 + 60
        dice = random.Random(1)
        for _ in range(40):
            core.forward.put(9, tuple(dice.randrange(10**6) for _ in range(4)))
        assert len(grown(core, [9])) == 1 + 60 + 60
        sizes = [
            (step.tree.sources.count((Source.POOL,)), len(step.tree))
            for step in decode_by(target, list(range(20)), "spectra-paper-core", limits=Limits(30))
        ][:-5]  # at the end of an answer the tree is cut
        assert all(pool == 60 and size <= 121 for pool, size in sizes)
        assert max(size for _, size in sizes) > 61


@pytest.mark.parametrize("settings", [CoreSettings(), IMPROVED], ids=["paper", "improved"])
def test_end_of_sequence_is_never_guessed(settings):
    eos = frozenset({3, 7, 11, 20, 31})
    target = target_of(model_of("llama"))
    core = SpectraCore(replace(settings, rows=5), banned=eos)
    prompt = [3, 7, *range(40)]
    method = Method("", [core], FixedBudget(200), 200)
    guessed = 0
    for step in decode_by(target, prompt, method, limits=Limits(60)):
        assert not eos & set(step.tree.tokens[1:])
        assert all(step.tree.parents[n] < n for n in range(1, len(step.tree)))
        guessed += len(step.tree) - 1
        assert not any(eos & set(row) for row in core.pool.rows)
    assert guessed > 60


@pytest.mark.parametrize("settings", [CoreSettings(), IMPROVED], ids=["paper", "improved"])
def test_guesses_do_get_accepted(settings):
    """Every other test would pass with a drafter that never guesses."""
    core = SpectraCore(replace(settings, rows=15))
    method = Method("", [core], FixedBudget(400), 400)
    steps = list(decode_by(target_of(model_of("gpt2")), list(range(30)), method, limits=Limits(200)))
    sources = {source for step in steps for source in step.sources}
    assert {Source.FORWARD, Source.BACKWARD} & sources
    assert len(steps) < 200
    assert ROOT not in {node for step in steps for node in step.path}
