"""The token tree: merging, masks, subsets, questions."""

import random

import numpy as np
import pytest
import torch
from drafting import random_tree

from spectra.errors import SpectraError
from spectra.guess import Guess, Source
from spectra.tree import ROOT, TokenTree


def test_a_guess_holds_tokens():
    with pytest.raises(ValueError, match="at least one"):
        Guess((), Source.FORWARD)


@pytest.mark.parametrize("kind", [int, np.int64, torch.tensor])
def test_a_token_is_found_whatever_number_it_was_given_as(kind):
    """A tensor has its own hash: its node was scored and could not be accepted, nor shared."""
    tree = TokenTree(9)
    node = tree.add(ROOT, kind(5), Source.FORWARD)
    assert tree.add(ROOT, kind(5), Source.BACKWARD) == node == tree.child(ROOT, 5)
    assert type(tree.tokens[node]) is int


@pytest.mark.parametrize("token", [3.7, "5", None, torch.tensor(2.0)])
def test_a_guess_that_is_no_whole_number_names_its_source(token):
    with pytest.raises(SpectraError, match=r"^drafter: forward guessed .* which is no token id; guess ids"):
        TokenTree(9).add(ROOT, token, Source.FORWARD)


def test_guesses_share_their_prefix_and_the_first_source_gets_the_credit():
    tree = TokenTree(9)
    first = tree.insert(Guess((1, 2, 3), Source.BACKWARD, match=4))
    second = tree.insert(Guess((1, 2, 4), Source.FORWARD, rank=1))
    assert len(tree) == 5
    assert tree.path_tokens(first) == [1, 2, 3]
    assert tree.path(second) == [1, 2, 4]
    assert tree.sources[1] == (Source.BACKWARD, Source.FORWARD)
    assert tree.sources[4] == (Source.FORWARD,)
    assert (tree.matches[1], tree.ranks[4]) == (4, 1)
    assert tree.child(ROOT, 1) == 1
    assert tree.child(ROOT, 3) is None


def test_a_node_keeps_the_first_confidence_that_it_got():
    tree = TokenTree(9)
    for source, confidence in ((Source.BACKWARD, 0), (Source.RETRIEVAL, 4), (Source.MEMORY, 7), (Source.RECYCLED, 0)):
        node = tree.add(ROOT, 1, source, confidence=confidence)
    assert tree.confidence[node] == 4


def test_draws_from_a_distribution_do_not_merge():
    tree = TokenTree(9, merge=False)
    tree.insert(Guess((1, 2), Source.FORWARD))
    tree.insert(Guess((1, 2), Source.FORWARD))
    assert tree.parents == [-1, 0, 1, 0, 3]


def test_rows_that_may_not_be_accepted_stay_apart():
    tree = TokenTree(9)
    row = tree.add(ROOT, 1, Source.POOL, eligible=False)
    assert tree.child(ROOT, 1) is None
    guess = tree.add(ROOT, 1, Source.FORWARD)
    assert guess != row
    assert tree.child(ROOT, 1) == guess
    assert tree.add(ROOT, 1, Source.POOL, eligible=False) not in (row, guess)


def test_a_parent_must_exist():
    for parent in (-1, 1, 7):
        with pytest.raises(IndexError):
            TokenTree(9).add(parent, 1, Source.FORWARD)


def test_depths_and_paths_agree_on_random_trees():
    dice = random.Random(1)
    for _ in range(50):
        tree = random_tree(dice, dice.randrange(1, 40))
        for node in range(len(tree)):
            path = tree.path(node)
            assert [tree.parents[one] for one in path] == [ROOT, *path][:-1] and [ROOT, *path][-1] == node
            assert tree.depths[node] == len(path)
            assert node == ROOT or tree.parents[node] < node


def test_a_subset_keeps_columns_and_answers():
    dice = random.Random(2)
    for _ in range(50):
        tree = random_tree(dice, 30)
        tree.probability = [None, *(dice.random() for _ in range(29))]
        tree.confidence = [dice.randrange(10) for _ in range(30)]
        tickets = {tree.ask(node, (1,)): node for node in dice.sample(range(30), 5)}
        kept = {node for leaf in dice.sample(range(30), 4) for node in tree.path(leaf)}
        small = tree.subset(kept)
        assert {tree.parents[node] for node in kept} <= {ROOT, *kept}
        assert len(small) == len(kept) + 1
        for new, old in enumerate(sorted({ROOT, *kept})):
            assert small.path_tokens(new) == tree.path_tokens(old)
            assert small.sources[new] == tree.sources[old]
            assert small.probability[new] == tree.probability[old]
            assert (small.ranks[new], small.matches[new]) == (tree.ranks[old], tree.matches[old])
            assert old == ROOT or small.confidence[new] == tree.confidence[old]
        for ticket, node in tickets.items():
            assert (ticket in small.reads) == (node == ROOT or node in kept)


def test_within_cuts_by_depth():
    tree = TokenTree(9)
    leaf = tree.insert(Guess((1, 2, 3), Source.FORWARD))
    ticket = tree.ask(leaf)
    assert tree.within(3) is tree
    assert tree.within(2).tokens == [9, 1, 2]
    assert ticket not in tree.within(2).reads
    assert tree.within(0).tokens == [9]


def test_chain_follows_the_most_probable_eligible_child():
    tree = TokenTree(9)
    tree.add(ROOT, 7, Source.POOL, eligible=False)
    tree.insert(Guess((1, 2), Source.FORWARD))
    tree.insert(Guess((3, 4), Source.FORWARD))
    assert tree.chain().tokens == [9, 1, 2]
    tree.probability[4] = 0.9
    assert tree.chain().tokens == [9, 3, 4]
    only = TokenTree(9)
    only.insert(Guess((1, 2), Source.FORWARD))
    assert only.chain() is only
    assert TokenTree(9).chain().tokens == [9]
