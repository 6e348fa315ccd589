"""Lookahead: the window's warm-up and steps by hand, its sizes, the pool of n-grams."""

import pytest
from drafting import grown, outcome_of, runs

from spectra.drafters.lookahead import Lookahead
from spectra.guess import Source


def begun(drafter, prompt):
    drafter.begin(prompt)
    return drafter


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
