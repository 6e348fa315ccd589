"""Retrieval drafters on stores written by hand: trees, confidence, banned tokens, and the paper's limit G."""

import pytest
from drafting import outcome_of

from spectra.drafters.continuations import Lookup, Node, ask, hits
from spectra.drafters.core import CoreSettings, SpectraCore
from spectra.drafters.retrieval import FilledCore, PaperRetrieval, Retrieval, confidence
from spectra.guess import Guess, Source
from spectra.tree import TokenTree


class ByHand:
    """A store of (context -> {token: count}); the longest context that ends the text answers."""

    order = 4
    refined = True

    def __init__(self, contexts, seen=None):
        self.contexts = contexts
        self.seen = seen or {}

    def successors(self, context):
        for length in range(min(len(context), self.order), 0, -1):
            key = tuple(context[-length:])
            if key in self.contexts:
                pairs = sorted(self.contexts[key].items(), key=lambda pair: -pair[1])
                return Lookup(length, self.seen.get(key, sum(self.contexts[key].values())), pairs)
        return Lookup.nothing()


STORE = ByHand({(1,): {2: 6, 3: 3}, (1, 2): {4: 9}, (2, 4): {5: 1}, (3,): {9: 2}})


def paths(tree):
    inner = set(tree.parents)
    return [tuple(tree.path_tokens(node)) for node in range(1, len(tree)) if node not in inner]


def grown(drafter, tokens, tree=None):
    tree = tree or TokenTree(tokens[-1])
    drafter.grow(tree, tokens)
    return tree


def test_continuations_become_a_tree_with_their_confidence():
    tree = grown(Retrieval([STORE]), [7, 1])
    assert paths(tree) == [(2, 4, 5), (3, 9)]
    found = {tree.tokens[n]: (tree.ranks[n], tree.matches[n], tree.confidence[n]) for n in range(1, len(tree))}
    assert found == {2: (0, 1, 4), 3: (1, 1, 5), 4: (0, 2, 3), 9: (0, 1, 2), 5: (0, 2, 1)}
    assert all(sources == (Source.RETRIEVAL,) for sources in tree.sources[1:])


def test_what_another_source_offered_first_keeps_its_credit_and_gains_confidence():
    tree = TokenTree(1)
    tree.insert(Guess((2,), Source.BACKWARD, match=3))
    grown(Retrieval([STORE]), [7, 1], tree)
    assert tree.sources[1] == (Source.BACKWARD, Source.RETRIEVAL)
    assert (tree.matches[1], tree.confidence[1]) == (3, 4)


def test_banned_tokens_take_their_branch_with_them():
    assert paths(grown(Retrieval([STORE], banned={2}), [7, 1])) == [(3, 9)]


def test_what_follows_a_continuation_that_is_half_gone_is_not_looked_up():
    assert paths(grown(Retrieval([STORE], least=0.26), [7, 1])) == [(3,), (2, 4, 5)]


def test_what_guesses_bring_lately_decides_how_deep_they_go():
    deep = Retrieval([STORE], least=0.9)
    sizes = []
    for deep.worth in (-1.0, 0.0, 0.9, 2.0):  # a node must have 0.9 of the counts, 0.25 and 0.1
        sizes.append(len(grown(deep, [7, 1])) - 1)
    assert sizes == [0, 0, 4, 5]


def test_where_guesses_do_not_bring_their_price_every_eighth_step_asks():
    drafter = Retrieval([STORE], price=0.3)
    assert [at for at in range(1, 33) if len(grown(drafter, [7, 1])) > 1] == [8, 16, 24, 32]
    drafter.worth = 0.3
    assert all(len(grown(drafter, [7, 1])) > 1 for _ in range(9))


def test_what_guesses_brought_is_what_was_accepted_less_their_rows():
    """Of steps at which they were asked for; a token that another source offered first is none of theirs."""
    drafter = Retrieval([STORE], price=0.1, row=0.25)
    tree = TokenTree(1)
    tree.insert(Guess((3,), Source.BACKWARD))
    grown(drafter, [7, 1], tree)
    for path in ([2, 4], [2, 4]):  # the second step had no `grow`
        drafter.observe([7, 1], outcome_of(tree, {}, path=path))
    assert [tree.sources[node][0] for node in range(1, 6)].count(Source.RETRIEVAL) == 4
    brought = sum(tree.sources[node][0] == Source.RETRIEVAL for node in (2, 4))
    assert drafter.worth == pytest.approx(0.2 + 0.05 * (brought - 0.25 * 4 - 0.2))


def test_a_store_is_asked_that_may_match_one_more_than_before():
    stores = [ByHand({(1, 2): {3: 5}}), ByHand({(1, 2): {3: 1, 4: 1}, (2,): {8: 1}})]
    assert ask(stores, [7, 1, 2], [1, 2]) == (Lookup(2, 7, [(3, 6), (4, 1)]), [2, 2])
    assert ask(stores, [7, 1, 2], [0, 2]) == (Lookup(2, 2, [(3, 1), (4, 1)]), [1, 2])  # the first cannot reach it


def test_the_most_frequent_hits_of_several_stores_are_told():
    class Named(ByHand):
        name = "by hand"

        def texts_with(self, tokens):
            return None

    stores = [Named({(1,): dict.fromkeys(range(first, first + 6), count)}) for first, count in ((10, 1), (20, 3))]
    assert [(hit.token, hit.times) for hit in hits(stores, [1])] == [(t, 3) for t in range(20, 26)] + [(10, 1), (11, 1)]


def test_nothing_known_is_nothing_guessed():
    assert len(grown(Retrieval([STORE]), [8])) == 1
    assert len(grown(Retrieval([]), [1])) == 1


def test_no_more_nodes_than_asked_for():
    assert len(grown(Retrieval([STORE], max_nodes=3), [7, 1])) == 4


@pytest.mark.parametrize(
    ("count", "seen", "grade"),
    [(1, 1, 1), (2, 2, 2), (3, 3, 2), (4, 4, 3), (500, 500, 3), (3, 4, 4), (2, 4, 5), (1, 4, 6), (1, 500, 9)],
)
def test_confidence_grades(count, seen, grade):
    assert confidence(Node(-1, 7, 0.5, 0, 2, count, seen)) == grade


class TestPaper:
    store = ByHand({(7, 1): {2: 5, 3: 4}, (1, 2): {4: 1}, (2, 4): {5: 1}, (4, 5): {6: 1}, (1, 3): {8: 1}, (1,): {9: 1}})

    def test_guesses_are_whole_paths_of_limited_width(self):
        drafter = PaperRetrieval([self.store], guesses=15, width=3)
        tree = grown(drafter, [7, 1])
        assert paths(tree) == [(2, 4, 5), (3, 8)] and tree.ranks[1:] == [0, 0, 0, 1, 1]

    def test_a_lookup_of_one_token_does_not_count(self):
        assert len(grown(PaperRetrieval([self.store], guesses=15, width=3), [5, 1])) == 1

    def test_the_number_of_guesses_is_limited(self):
        assert paths(grown(PaperRetrieval([self.store], guesses=1, width=3), [7, 1])) == [(2, 4, 5)]

    @pytest.mark.parametrize(
        ("forward", "backward", "left"), [(0, False, 3), (1, False, 2), (1, True, 1), (5, True, 0)]
    )
    def test_it_fills_what_core_leaves(self, forward, backward, left):
        core = SpectraCore(CoreSettings(rows=0, guesses=3))
        for token in range(forward):
            core.forward.put(1, (40 + token,))
        if backward:
            core.backward.put((1,), 50)
        tree = TokenTree(1)
        assert core.offer(tree, [7, 1]) == 3 - left
        before = len(paths(tree))
        whole = TokenTree(1)
        FilledCore(core, PaperRetrieval([self.store], guesses=3, width=3)).grow(whole, [7, 1])
        assert len(paths(whole)) - before == min(left, 2)

    def test_its_dictionaries_learn_from_prompt_and_steps(self):
        core = SpectraCore(CoreSettings(rows=1, text=True))
        drafter = FilledCore(core, PaperRetrieval([self.store], guesses=3, width=3))
        drafter.begin([1, 2, 3])
        assert core.backward.get([1, 2]) == (3, 2) and core.pool.rows
        drafter.observe([1, 2, 3, 4], outcome_of(grown(drafter, [1, 2, 3]), {0: 5}, [4]))
        assert core.backward.get([2, 3]) == (4, 2) and drafter.held() == core.held()
        assert core.pool.rows[0][-1] == 5
