"""Trees of draws: outputs of two and three tokens are distributed as the target's, whatever the rule and the draft.

6,000 outputs of each rule, 100,000 with `--all-cases`.
"""

from collections import Counter
from itertools import product

import numpy as np
import pytest
from distributions import plausibility
from naive import Naive

from spectra.drafters.draft_model import SOURCES
from spectra.drafters.tree_shapes import grow_rule, levels
from spectra.guess import Source
from spectra.tree import ROOT, TokenTree
from spectra.verify.rules.chain import Chain
from spectra.verify.rules.draws import softmax, top
from spectra.verify.rules.multistep import MultiStep, WithoutReplacement
from spectra.verify.rules.protocol import Verdict
from spectra.verify.rules.spechub import SpecHub
from spectra.verify.walk import walk_rule

SIZE, LENGTH, UNLIKELY = 3, 3, 1e-4
OUTPUTS = list(product(range(SIZE), repeat=LENGTH))


class Tables:
    """A distribution for every prefix; a near draft's are the target's with noise: some are taken and some are not."""

    def __init__(self, seed, near=None):
        generator = np.random.default_rng(seed)
        self.rows = {}
        for prefix in (p for n in range(LENGTH) for p in product(range(SIZE), repeat=n)):
            own = 1.2 * generator.standard_normal(SIZE)
            self.rows[prefix] = softmax(own if near is None else np.log(near.rows[prefix]) + 0.6 * own)

    def distribution(self):
        """[SIZE ** LENGTH]: the chance of every output."""
        return np.array([np.prod([self.rows[out[:i]][out[i]] for i in range(LENGTH)]) for out in OUTPUTS])


TARGET = Tables(1)
NEAR, OTHER, FAR = Tables(2, TARGET), Tables(3, TARGET), Tables(4)


class Quick:
    """A rule whose drafts are drawn by the thousand and whose verdicts are kept: the same distribution, faster."""

    def __init__(self, rule):
        self.rule, self.kept, self.drawn = rule, {}, {}

    def draft(self, q, k, generator, rows=1):
        waiting = self.drawn.setdefault((id(q), k), [])
        if not waiting:
            waiting += self.rule.draft(q, k, generator, 2000).tolist()
        return [waiting.pop()]

    def verdict(self, p, qs, tokens):
        key = (id(p), *map(id, qs), *tokens)
        if key not in self.kept:
            self.kept[key] = self.rule.verdict(p, qs, tokens)
        return self.kept[key]


def decoded(rule, widths, drafts, generator):
    """One output, step by step: grow, walk, go on from there."""
    out = ()
    while len(out) < LENGTH:
        tree, prefix = TokenTree(0), {ROOT: out}

        def after(node, tree=tree, prefix=prefix):
            if node not in prefix:
                prefix[node] = (*prefix[tree.parents[node]], tree.tokens[node])
            return prefix[node]

        shape = levels(widths[: LENGTH - len(out) - 1], 99)
        for draft, source in zip(drafts, SOURCES, strict=False):
            grow_rule(
                tree, rule, lambda nodes, of=draft, at=after: [of.rows[at(n)] for n in nodes], shape, source, generator
            )
        path, emitted = walk_rule(tree, rule, lambda n, after=after: TARGET.rows[after(n)], generator)
        assert [tree.tokens[n] for n in path] == emitted[:-1]
        out += tuple(emitted)
    return out


def counted(rule, widths, drafts, count):
    """How often each output came, [SIZE ** LENGTH]."""
    generator, quick = np.random.default_rng(11), Quick(rule)
    counts = Counter(decoded(quick, widths, drafts, generator) for _ in range(count))
    return np.array([counts[out] for out in OUTPUTS], dtype=float)


@pytest.mark.parametrize(
    ("rule", "widths", "drafts"),
    [
        (Chain(), (1, 1), [NEAR]),
        (MultiStep(), (2, 2), [NEAR]),
        (MultiStep(), (2, 1), [NEAR, OTHER]),
        (WithoutReplacement(), (2, 2), [NEAR]),
        (SpecHub(), (2, 2), [NEAR]),
    ],
    ids=["chain", "rrs", "mss-two-models", "rrsw", "spechub"],
)
def test_outputs_have_the_targets_distribution(rule, widths, drafts, cases):
    counts, distribution = counted(rule, widths, drafts, cases(6_000, 100_000)), TARGET.distribution()
    assert plausibility(counts, distribution) > UNLIKELY
    first_two = counts.reshape(-1, SIZE).sum(1), distribution.reshape(-1, SIZE).sum(1)
    assert plausibility(*first_two) > UNLIKELY


class Likeliest(MultiStep):
    """Offers the draft's top k instead of draws."""

    def draft(self, q, k, generator, rows=1):
        return np.tile(top(q, k), (rows, 1))


class Hopeful(MultiStep):
    """Has the ratio the wrong way round."""

    def verdict(self, p, qs, tokens):
        taken = min(1.0, qs[0][tokens[0]] / p[tokens[0]])
        return Verdict((taken, *[0.0] * (len(tokens) - 1)), p)


@pytest.mark.parametrize("rule", [Likeliest(), Hopeful()], ids=["top children", "inverted ratio"])
def test_a_rule_that_is_wrong_is_found_out(rule):
    assert plausibility(counted(rule, (2, 2), [FAR], 10_000), TARGET.distribution()) < 1e-12


@pytest.mark.parametrize(
    ("rule", "widths"),
    [
        (SpecHub(), (2, 2, 2)),
        (MultiStep(), (1, 1, 3, 1, 1, 1, 1, 1)),
        (WithoutReplacement(), (2, 3)),
    ],
    ids=["binary of depth 3", "SpecInfer's expansion", "wide"],
)
def test_a_draft_that_is_the_target_is_taken_to_the_leaf(rule, widths):
    same = softmax(np.random.default_rng(0).standard_normal(6))
    tree, generator = TokenTree(0), np.random.default_rng(3)
    grow_rule(tree, rule, lambda nodes: [same] * len(nodes), levels(widths, 99), Source.DRAFT, generator)
    path, emitted = walk_rule(tree, rule, lambda _: same, generator)
    assert len(path) == len(widths) and len(emitted) == len(widths) + 1
    assert path == tree.path(path[-1])


def test_draws_of_one_token_share_a_node_and_are_tested_each():
    """Two models that agree: one chain of nodes, two tests at each place, and credit for both."""
    sure, tree = [np.eye(4)[2], np.eye(4)[3]], TokenTree(0)
    for source in SOURCES:
        distributions = lambda nodes: [sure[tree.depths[n]] for n in nodes]  # noqa: E731
        grow_rule(tree, MultiStep(), distributions, levels((2, 1), 9), source, np.random.default_rng(0))
    assert tree.tokens == [0, 2, 3]
    assert [[child for child, _ in family] for family in tree.draws.values()] == [[1, 1, 1, 1], [2, 2]]
    assert tree.sources[1:] == [SOURCES, SOURCES]


def test_each_model_goes_on_from_its_own_draws():
    distributions = {Source.DRAFT: [np.eye(5)[1], np.eye(5)[2]], Source.SECOND: [np.eye(5)[1], np.eye(5)[4]]}
    tree = TokenTree(0)
    for source, rows in distributions.items():
        after = lambda nodes, rows=rows: [rows[tree.depths[n]] for n in nodes]  # noqa: E731
        grow_rule(tree, MultiStep(), after, levels((1, 1), 9), source, np.random.default_rng(0))
    assert tree.tokens == [0, 1, 2, 4] and tree.parents == [-1, 0, 1, 1]
    assert walk_rule(tree, MultiStep(), lambda n: np.eye(5)[[1, 4, 0, 3][n]], np.random.default_rng(0)) == (
        [1, 3],
        [1, 4, 3],
    )


def test_nodes_that_nobody_drew_are_left_aside():
    tree, even = TokenTree(0), np.full(4, 0.25)
    tree.add(ROOT, 1, Source.POOL, eligible=False)
    grow_rule(tree, Naive(), lambda _: [even], levels((1,), 9), Source.DRAFT, np.random.default_rng(0))
    sure = np.eye(4)[tree.tokens[2]]
    assert walk_rule(tree, Naive(), lambda _: sure, np.random.default_rng(0))[0] == [2]


def test_a_part_of_a_tree_keeps_whole_places_only():
    tree = TokenTree(0)
    same = softmax(np.random.default_rng(0).standard_normal(30))
    grow_rule(
        tree, SpecHub(), lambda nodes: [same] * len(nodes), levels((2, 2), 9), Source.DRAFT, np.random.default_rng(1)
    )
    less = tree.within(1)
    assert list(tree.draws) == [0, 1, 2] and list(less.draws) == [0]
    assert [child for child, _ in less.draws[0]] == [1, 2]
    last = tree.subset([1, 2, 5, 6])
    assert [[child for child, _ in family] for family in last.draws.values()] == [[1, 2], [3, 4]]
    with pytest.raises(ValueError, match="stays or goes together"):
        tree.subset([1])
