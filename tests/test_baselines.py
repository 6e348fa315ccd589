"""Drafters of other methods: what each guesses, by hand and against slow definitions of the same thing."""

import random

import pytest
from drafting import method_of
from test_drafters import grown, outcome_of, runs
from tiny import FAMILIES, model_of, target_of

from spectra import Limits, Sampling, decode
from spectra.baselines import baselines
from spectra.budget import FixedBudget
from spectra.drafters.anpd import Anpd
from spectra.drafters.automaton import Automaton, SuffixAutomaton
from spectra.drafters.lookahead import Lookahead
from spectra.drafters.prompt_lookup import PromptLookup
from spectra.drafters.protocol import Outcome
from spectra.drafters.recycling import Recycling, rank_tree
from spectra.guess import Source
from spectra.methods import make_method
from spectra.target.plan import Plan
from spectra.tree import ROOT, TokenTree

TEXTS = [[random.Random(i).randrange(2 + i % 5) for _ in range(1 + 7 * i)] for i in range(12)]


def begun(drafter, prompt):
    drafter.begin(prompt)
    return drafter


def guess(drafter, tokens):
    """The guessed chain and the match of each of its nodes."""
    tree = grown(drafter, tokens)
    assert tree.parents[1:] == list(range(len(tree) - 1))
    return tree.tokens[1:], tree.matches[1:]


def write(drafter, tokens, new):
    """The target wrote `new` after `tokens`."""
    drafter.observe([*tokens, *new], outcome_of(TokenTree(tokens[-1]), {}, new))
    return [*tokens, *new]


class TestAnpd:
    def test_the_most_frequent_continuation_wins(self):
        text = [1, 2, 7, 1, 2, 8, 1, 2, 7, 5, 1, 2]
        assert guess(begun(Anpd(order=3, length=3), text), text) == ([7, 5, 1], [2, 2, 2])

    def test_of_equals_the_newest(self):
        text = [1, 7, 1, 8, 1]
        assert guess(begun(Anpd(order=2, length=1), text), text) == ([8], [1])
        text = [1, 8, 1, 7, 1]
        assert guess(begun(Anpd(order=2, length=1), text), text) == ([7], [1])

    def test_a_long_context_goes_before_a_frequent_short_one(self):
        text = [3, 1, 9, 1, 8, 1, 8, 3, 1]
        assert guess(begun(Anpd(order=3, length=1), text), text) == ([9], [2])
        assert guess(begun(Anpd(order=2, length=1), text), text) == ([8], [1])

    def test_counts_follow_the_accepted_text(self):
        drafter = begun(Anpd(order=2, length=1), [1, 7, 1, 7, 1])
        tokens = write(drafter, [1, 7, 1, 7, 1], [8, 1, 8, 1, 8, 1])
        assert guess(drafter, tokens) == ([8], [1])

    def test_a_miss_guesses_nothing_and_a_banned_token_ends_the_chain(self):
        assert guess(begun(Anpd(), [1, 2, 3]), [1, 2, 3]) == ([], [])
        text = [1, 2, 3, 1]
        assert guess(begun(Anpd(order=2, banned={3}), text), text) == ([2], [1])

    @pytest.mark.parametrize("text", TEXTS)
    def test_against_counting(self, text):
        drafter = begun(Anpd(order=4, length=1), text)
        for match in range(min(3, len(text)), 0, -1):
            after = [text[i + match] for i in range(len(text) - match) if text[i : i + match] == text[-match:]]
            if after:
                best = max(reversed(after), key=after.count)
                assert guess(drafter, text) == ([best], [match])
                return
        assert guess(drafter, text) == ([], [])


class TestPromptLookup:
    def test_copies_what_followed_the_newest_longest_match(self):
        text = [1, 2, 3, 4, 9, 2, 3, 5, 8, 7, 2, 3]
        assert guess(begun(PromptLookup(order=3, length=3), text), text) == ([5, 8, 7], [2, 2, 2])
        text = [1, 2, 3, 4, 9, 2, 3, 5, 8, 7, 1, 2, 3]
        assert guess(begun(PromptLookup(order=3, length=3), text), text) == ([4, 9, 2], [3, 3, 3])

    def test_stops_before_a_banned_token(self):
        text = [1, 5, 6, 0, 7, 1]
        assert guess(begun(PromptLookup(banned={0}), text), text) == ([5, 6], [1, 1])
        assert guess(begun(PromptLookup(banned={5}), text), text) == ([], [])

    @pytest.mark.parametrize("text", TEXTS)
    def test_against_a_scan(self, text):
        half = len(text) // 2
        drafter = begun(PromptLookup(order=3, length=5), text[:half])
        if half:
            write(drafter, text[:half], text[half:])
        else:
            drafter = begun(PromptLookup(order=3, length=5), text)
        for match in range(min(3, len(text)), 0, -1):
            for at in range(len(text) - match - 1, -1, -1):
                if text[at : at + match] == text[-match:]:
                    assert guess(drafter, text)[0] == text[at + match : at + match + 5]
                    return
        assert guess(drafter, text) == ([], [])


class TestSuffixAutomaton:
    @pytest.mark.parametrize("text", TEXTS)
    def test_every_match_and_its_newest_place_against_a_scan(self, text):
        automaton = Automaton()
        for size, token in enumerate(text, 1):
            automaton.push(token)
            newest = {}  # where a suffix occurred earlier -> the longest such suffix and its newest place
            for length in range(1, size):
                ends = [
                    at + length for at in range(size - length) if text[at : at + length] == text[size - length : size]
                ]
                if ends:
                    newest[tuple(ends)] = (length, ends[-1])
            assert list(automaton.matches())[:32] == sorted(newest.values(), reverse=True)[:32]

    def test_states_stay_few(self):
        automaton = Automaton()
        for token in [random.Random(1).randrange(3) for _ in range(500)]:
            automaton.push(token)
        assert len(automaton._next) <= 2 * 500

    def test_the_guess_grows_with_the_match(self):
        text = [1, 2, 3, 4, 5, 6, 7, 9, 2, 3]
        assert guess(begun(SuffixAutomaton(), text), text) == ([4, 5, 6], [2, 2, 2])
        assert guess(begun(SuffixAutomaton(depth=2), text), text) == ([4, 5], [2, 2])

    def test_a_loop_goes_on_past_the_end_of_the_text(self):
        text = [1, 2, 3] * 3
        assert guess(begun(SuffixAutomaton(depth=8), text), text)[0] == [1, 2, 3, 1, 2, 3, 1]

    def test_shorter_matches_that_go_on_differently_come_next(self):
        text = [7, 1, 2, 5, 0, 2, 6, 0, 1, 2]
        tree = grown(begun(SuffixAutomaton(ranks=2), text), text)
        assert runs(tree, Source.AUTOMATON) == [(5, 0, 2), (6, 0)]
        assert tree.ranks[1:] == [0, 0, 0, 1, 1]
        assert tree.matches[1:] == [2, 2, 2, 1, 1]
        assert runs(grown(begun(SuffixAutomaton(ranks=1), text), text), Source.AUTOMATON) == [(5, 0, 2)]
        assert runs(grown(begun(SuffixAutomaton(banned={5, 0}), text), text), Source.AUTOMATON) == [(6,)]

    def test_it_learns_what_is_written(self):
        drafter = begun(SuffixAutomaton(), [1, 2])
        assert guess(drafter, [1, 2])[0] == []
        tokens = write(drafter, [1, 2], [3, 1, 2])
        assert guess(drafter, tokens)[0] == [3, 1, 2]


class TestRecycling:
    def test_the_shape_is_best_first(self):
        assert rank_tree(6, 8, 8) == [(0, 0), (1, 0), (0, 1), (2, 0), (0, 2), (1, 1)]
        assert rank_tree(99, 2, 2) == [(0, 0), (1, 0), (0, 1), (1, 1), (3, 0), (3, 1)]
        shape, depth = rank_tree(80, 8, 8), [0]
        for parent, _ in shape:
            assert parent < len(depth)
            depth.append(depth[parent] + 1)
        assert len(set(shape)) == 80
        assert [rank for parent, rank in shape if parent == 0] == list(range(8))
        assert max(depth) == 7

    def test_the_tree_is_filled_with_successors(self):
        drafter = Recycling(nodes=6, ranks=3)
        drafter.successors = {9: [4, 5, 6], 4: [9, 7]}
        tree = grown(drafter, [9])
        assert runs(tree, Source.RECYCLED) == [(5,), (4, 9, 4), (6,), (4, 7)]
        assert [tree.ranks[n] for n in range(1, len(tree))] == [0, 0, 1, 0, 2, 1]
        drafter.banned = {4}
        assert runs(grown(drafter, [9]), Source.RECYCLED) == [(5,), (6,)]
        assert len(grown(drafter, [1])) == 1

    def test_every_scored_node_teaches_and_an_accepted_one_has_the_last_word(self):
        drafter, tree = Recycling(nodes=4, ranks=2), TokenTree(9)
        good = tree.add(ROOT, 4, Source.RECYCLED)
        bad = tree.add(ROOT, 5, Source.RECYCLED)
        again = tree.add(bad, 4, Source.RECYCLED)
        top = {ROOT: [4, 1], good: [6, 2], bad: [7, 3], again: [8, 8]}
        drafter.observe([9, 4, 6], Outcome(tree, [good], [4, 6], lambda ticket: None, top=top))
        assert drafter.successors == {9: [4, 1], 4: [6, 2], 5: [7, 3]}

    def test_a_decode_tells_every_scored_node(self):
        drafter = Recycling(nodes=20)
        seen = []
        observe = drafter.observe

        class Watched:
            begin, grow = drafter.begin, drafter.grow

            def observe(self, tokens, outcome):
                assert set(outcome.top) == set(range(len(outcome.tree)))
                assert all(len(set(likely)) == 8 for likely in outcome.top.values())
                assert all(outcome.top[node][0] == token for node, token in outcome.known.items())
                seen.append(len(outcome.tree))
                observe(tokens, outcome)

        steps = list(
            decode(target_of(model_of("llama")), [5, 6, 7], method_of([Watched()], 20, top=8), limits=Limits(30))
        )
        assert seen == [len(step.tree) for step in steps]
        assert max(seen) > 15


class TestLookahead:
    def drafter(self, **settings):
        drafter = begun(Lookahead(**({"window": 2, "order": 3, "guesses": 2} | settings)), [1])
        drafter.rows = [[5, 6]]
        return drafter

    def step(self, drafter, tokens, answers):
        """Grow, answer the window's questions, write token 50; returns the tree."""
        tree = grown(drafter, tokens)
        assert len(tree.reads) == len(answers)
        drafter.observe([*tokens, 50], outcome_of(tree, dict(enumerate(answers)), [50]))
        return tree

    def test_warm_up_then_a_window_of_columns_under_a_spine(self):
        drafter = self.drafter()
        tree = self.step(drafter, [9], [50, 51, 52])
        assert [tree.path_tokens(node) for node, _ in tree.reads.values()] == [[], [5], [5, 6]]
        assert drafter.rows == [[6], [51, 52]]
        assert not drafter.pool.lists
        tree = self.step(drafter, [9, 50], [60, 61])
        assert [tree.path_tokens(node) for node, _ in tree.reads.values()] == [[51], [6, 52]]
        assert not any(tree.eligible[1:])
        assert drafter.rows == [[52], [60, 61]]
        assert drafter.pool.get(50) == [(51, 60)]
        assert drafter.pool.get(6) == [(52, 61)]

    def test_guesses_are_the_pools_newest_first(self):
        drafter = self.drafter()
        for run in ((1, 2), (3, 4), (5, 6), (3, 4)):
            drafter.pool.put(9, run)
        tree = grown(drafter, [9])
        assert runs(tree, Source.NGRAM) == [(3, 4), (5, 6)]
        assert [rank for rank, s in zip(tree.ranks, tree.sources, strict=True) if s == (Source.NGRAM,)] == [0, 0, 1, 1]

    def test_a_window_that_was_cut_waits(self):
        drafter = self.drafter()
        self.step(drafter, [9], [50, None, 52])
        assert drafter.rows == [[5, 6]]

    def test_a_banned_token_enters_neither_window_nor_pool(self):
        drafter = self.drafter(banned={0})
        self.step(drafter, [9], [50, 0, 52])
        assert drafter.rows == [[6], [1, 52]]
        self.step(drafter, [9, 50], [0, 61])
        assert drafter.rows == [[52], [1, 61]]
        assert drafter.pool.get(50) == []
        assert drafter.pool.get(6) == [(52, 61)]

    @pytest.mark.parametrize(("window", "order"), [(15, 5), (7, 5), (1, 3), (3, 2)])
    def test_sizes(self, window, order):
        """W + N - 3 tokens at first, W (N - 1) - 1 once N - 2 steps have filled the window."""
        drafter = begun(Lookahead(window=window, order=order), list(range(40)))
        sizes = []
        for step in range(order + 1):
            tree = grown(drafter, [9])
            drafter.pool.lists.clear()
            sizes.append(len(tree) - 1)
            drafter.observe([9, 9], outcome_of(tree, dict.fromkeys(tree.reads, step), [9]))
            drafter.pool.lists.clear()
        assert sizes[0] == window + order - 3
        assert sizes[order - 2 :] == [window * (order - 1) - 1] * 3
        assert max(sizes) == sizes[-1]

    def test_a_window_without_a_usable_token_stays_empty(self):
        assert begun(Lookahead(banned={1}), [1, 1]).rows == []
        assert begun(Lookahead(window=0), [1, 2]).rows == []


SIZES = {
    "anpd": 5,
    "lookahead": 119,
    "lookahead-7b": 55,
    "prompt-lookup": 10,
    "token-recycling": 80,
    "suffix-automaton": 16,
}


def test_sizes_of_the_presets():
    assert set(SIZES) == set(baselines())
    for name, size in SIZES.items():
        method = make_method(name, target_of(model_of("llama")))
        assert isinstance(method.budget, FixedBudget)
        assert (method.most, method.budget.most) == (size, size)
        assert make_method(name, target_of(model_of("llama")), nodes=3).most == 3
        narrow = target_of(model_of("llama"), Plan(numerics="exact", buckets=(1, 2, 4)))
        assert make_method(name, narrow).most == 3
    assert make_method("lookahead", target_of(model_of("llama"))).drafters[0].window == 15
    assert make_method("lookahead", target_of(model_of("llama")), nodes=63).drafters[0].window == 8


@pytest.mark.parametrize("name", SIZES)
def test_guesses_do_get_accepted(name):
    """The equality tests would pass with a drafter that never guesses."""
    steps = list(decode(target_of(model_of("gpt2")), list(range(30)), name, limits=Limits(160)))
    assert sum(len(step.path) for step in steps) >= 5
    assert max(len(step.tree) for step in steps) <= SIZES[name] + 1


@pytest.mark.parametrize("name", SIZES)
def test_a_target_without_trees_gets_chains(name):
    model = model_of("gpt2")
    plain = [t for s in decode(target_of(model), [1, 2, 3], "autoregressive", limits=Limits(40)) for t in s.tokens]
    steps = list(decode(target_of(model, Plan(trees=False)), [1, 2, 3], name, limits=Limits(40)))
    assert [t for s in steps for t in s.tokens] == plain
    assert all(s.tree.parents == tuple(range(-1, len(s.tree) - 1)) for s in steps)


@pytest.mark.parametrize("name", SIZES)
def test_end_of_sequence_is_never_guessed(name):
    target = target_of(model_of("llama"))
    method = make_method(name, target)
    eos = frozenset({3, 7, 11, 20, 31})
    for drafter in method.drafters:
        drafter.banned = eos
    guessed = 0
    for step in decode(target, [3, 7, *range(40), 3, 7], method, limits=Limits(60)):
        assert not eos & set(step.tree.tokens[1:])
        guessed += len(step.tree) - 1
    assert guessed > 30


def test_the_families_all_take_part():
    """Every preset on every family, sampled; the random cases cover the rest."""
    for family in FAMILIES:
        for name in SIZES:
            sampling = Sampling(temperature=0.8, seed=4)
            target = target_of(model_of(family))
            both = [
                [t for s in decode(target, [1, 2, 1, 2], m, sampling=sampling, limits=Limits(12)) for t in s.tokens]
                for m in ("autoregressive", name)
            ]
            assert both[0] == both[1], (family, name)
