"""What nearly always followed: the table of several stores against a slow definition, and the chains that it gives."""

import random
from bisect import bisect
from collections import Counter

import pytest
from drafting import Strict

from spectra.drafters.near_certain import FIRST_CLASS, GRADES, Followed, NearCertain, Table, Top, key_of, table_of
from spectra.guess import Source
from spectra.tree import TokenTree


class Counted:
    """A `TopStore` of (context -> {token: count})."""

    def __init__(self, contexts, order=3):
        self.order = order
        self.contexts = {key_of(context): counts for context, counts in contexts.items()}

    def top(self, key):
        counts = self.contexts.get(key)
        if counts is None:
            return None
        token, times = max(counts.items(), key=lambda pair: (pair[1], -pair[0]))
        return Top(key, token, times, sum(counts.values()))

    def likeliest(self, least, most):
        tops = [self.top(key) for key in self.contexts]
        return sorted([top for top in tops if top.chance >= least], key=lambda top: -top.seen)[:most]

    def ending_with(self, key):
        return [self.top(longer) for longer in self.contexts if longer.startswith(key)]


def counted(dice, size=120, order=3):
    """A store of a text over four tokens, in which some contexts are nearly always followed by one."""
    text = []
    while len(text) < size:
        text += [1, 2, 3] if dice.random() < 0.5 else [dice.randrange(4)]
    contexts = {}
    for length in range(1, order + 1):
        for end in range(length, size):
            contexts.setdefault(tuple(text[end - length : end]), Counter())[text[end]] += 1
    return Counted(contexts, order)


def slowly(stores):
    """The table by its definition, from every context of every store."""
    tops = {}
    for key in {key for store in stores for key in store.contexts}:
        known = [top for store in stores if (top := store.top(key))]
        best = max(known, key=lambda top: top.times)
        times = sum(top.times for top in known if top.token == best.token)
        tops[key] = (best.token, times / (sum(top.seen for top in known) + 1))
    claimed = {key for store in stores for key in store.contexts if store.top(key).chance >= GRADES[0]}
    certain = {key for key in claimed if tops[key][1] >= GRADES[0]}
    table = {}
    for key, (token, chance) in tops.items():
        if any(key.startswith(shorter) for shorter in certain):
            table[key] = Followed(token, bisect(GRADES, chance) - 1) if chance >= GRADES[0] else None
    for beginning in {key[:size] for key in table for size in range(4, len(key), 4)} - set(table):
        shorter = [beginning[:size] for size in range(4, len(beginning), 4) if beginning[:size] in table]
        table[beginning] = table[shorter[-1]] if shorter else None
    return table


@pytest.mark.parametrize("number", range(1, 4))
def test_a_table_is_what_the_stores_saw_together(number):
    kinds = Counter()
    for case in range(20):
        dice = random.Random(case)
        stores = [counted(dice) for _ in range(number)]
        table = table_of(stores)
        assert table.order == 3
        assert table.followed == slowly(stores)
        kinds.update(None if one is None else one.grade for one in table.followed.values())
    assert kinds[None] > 20 and all(kinds[grade] > 20 for grade in range(3))


def test_a_table_stays_small_and_has_what_was_seen_most(monkeypatch):
    monkeypatch.setattr("spectra.drafters.near_certain.MOST", 5)
    contexts = {(token,): {1: 10 + token} for token in range(30)} | {(8, 29): {2: 1, 3: 1}}
    table = table_of([Counted(contexts), Counted({(90 + token,): {1: 9} for token in range(30)})])
    assert set(table.followed) >= set(map(key_of, ([29], [8, 29], [28], [27], [26], [25])))
    assert len(table.followed) == 11  # five of each store and what ends in one of them
    store = Counted(contexts | {(8, other, 29): {2: 1, 3: 1} for other in range(40)})
    assert len(set(table_of([store]).followed) & set(store.contexts)) == 20


def test_a_key_whose_beginning_no_store_has_is_found():
    """A store may be cut to what was seen often, and leave a gap."""
    table = table_of([Counted({(2,): {3: 30}, (9, 8, 2): {4: 1, 5: 1}})])
    assert chain(table, [7, 8, 2], depth=1).tokens[1:] == [3]
    assert chain(table, [9, 8, 2], depth=1).tokens[1:] == []


def chain(table, tokens, **options):
    tree = TokenTree(tokens[-1])
    drafter = NearCertain(table, **options)
    drafter.begin(tokens)
    drafter.grow(tree, tokens)
    assert tree.parents[1:] == list(range(len(tree) - 1))
    assert all(sources == (Source.RETRIEVAL,) for sources in tree.sources[1:])
    return tree


TABLE = table_of([Counted({(1,): {2: 8}, (2,): {3: 30}, (7, 2): {4: 1, 5: 1}, (3,): {1: 90}, (1, 2, 3): {9: 3}})])


def test_a_chain_goes_on_while_one_token_is_nearly_certain():
    """After 1 2 3 the longest context answers, and after 9 nobody knows."""
    tree = chain(TABLE, [5, 1])
    assert tree.tokens[1:] == [2, 3, 9]
    assert tree.matches[1:] == [1, 1, 3]
    assert tree.confidence[1:] == [FIRST_CLASS + 1, FIRST_CLASS + 3, FIRST_CLASS]  # 8/9, 30/31, 3/4
    assert chain(TABLE, [5, 1], depth=2).tokens[1:] == [2, 3]
    assert chain(TABLE, [5, 1], banned={3}).tokens[1:] == [2]
    assert chain(table_of([Counted({(1,): {1: 9}})]), [1]).tokens[1:] == [1] * 8


def test_a_chain_ends_at_the_first_node_that_does_not_pay():
    for least, nodes in ((0.0, 3), (0.9, 1), (0.7, 2), (0.5, 3)):
        assert len(chain(TABLE, [5, 1], judge=Strict(0.8, least))) == 1 + nodes


def test_a_longer_context_after_which_nothing_is_certain_ends_it():
    assert chain(TABLE, [6, 2]).tokens[1:] == [3, 1, 2, 3, 9]
    assert chain(TABLE, [7, 2]).tokens[1:] == []
    assert chain(TABLE, [8]).tokens[1:] == []
    assert chain(table_of([]), [1, 2]).tokens[1:] == []
    assert chain(Table({}, 0), [1, 2]).tokens[1:] == []
