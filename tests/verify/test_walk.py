"""The walk: into a child that equals the pick, and the bonus token also after a full match."""

import random

from drafting import random_tree

from spectra.guess import Guess, Source
from spectra.tree import ROOT, TokenTree
from spectra.verify.walk import walk


def picks(tree, text):
    """The target goes on with `text`, whatever the branch."""
    return lambda node: text[tree.depths[node]]


def test_full_match_also_reads_the_bonus():
    tree = TokenTree(9)
    tree.insert(Guess((1, 2), Source.FORWARD))
    assert walk(tree, picks(tree, [1, 2, 3])) == ([1, 2], [1, 2, 3])


def test_first_miss_gives_the_targets_own_token():
    tree = TokenTree(9)
    tree.insert(Guess((1, 2), Source.FORWARD))
    assert walk(tree, picks(tree, [1, 5, 3])) == ([1], [1, 5])
    assert walk(tree, picks(tree, [4, 5, 3])) == ([], [4])
    assert walk(TokenTree(9), lambda node: 8) == ([], [8])


def test_ineligible_rows_are_never_entered():
    tree = TokenTree(9)
    tree.add(ROOT, 1, Source.POOL, eligible=False)
    assert walk(tree, picks(tree, [1, 2])) == ([], [1])


def test_asks_only_for_the_nodes_it_passes_and_keeps_the_longest_right_prefix():
    dice = random.Random(4)
    for _ in range(100):
        tree = random_tree(dice, 40, vocabulary=3).subset(range(1, 40))
        merged = TokenTree(9)
        for node in range(len(tree)):
            if node != ROOT:
                merged.insert(Guess(tuple(tree.path_tokens(node)), Source.FORWARD))
        text = [dice.randrange(3) for _ in range(50)]
        asked = []
        path, picked = walk(merged, watched(picks(merged, text), asked))
        best = max(len(p) for p in map(merged.path, range(len(merged))) if right(merged, p, text))
        assert len(path) == best
        assert picked == text[: best + 1]
        assert asked == [ROOT, *path]


def right(tree, path, text):
    return [tree.tokens[node] for node in path] == text[: len(path)]


def watched(pick, asked):
    def one(node):
        asked.append(node)
        return pick(node)

    return one
