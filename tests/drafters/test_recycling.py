"""Token Recycling: the static tree, what fills it, and what every scored node teaches."""

from drafting import decode_by, grown, method_of, runs
from tiny import model_of, target_of

from spectra import Limits
from spectra.drafters.recycling import Recycling, rank_tree
from spectra.guess import Source
from spectra.method import Outcome
from spectra.tree import ROOT, TokenTree


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
            begin, grow, top_k = drafter.begin, drafter.grow, drafter.top_k

            def observe(self, tokens, outcome):
                assert set(outcome.top) == set(range(len(outcome.tree)))
                assert all(len(set(likely)) == 8 for likely in outcome.top.values())
                assert all(outcome.top[node][0] == token for node, token in outcome.known.items())
                seen.append(len(outcome.tree))
                observe(tokens, outcome)

        steps = list(decode_by(target_of(model_of("llama")), [5, 6, 7], method_of([Watched()], 20), limits=Limits(30)))
        assert seen == [len(step.tree) for step in steps]
        assert max(seen) > 15
