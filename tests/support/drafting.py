"""Scripted drafters for tests: they know what plain decoding will write and use it well, badly or maliciously."""

import random
from collections import Counter
from typing import NamedTuple

from spectra.budget.policy import AdaptiveBudget, FixedBudget
from spectra.decode import decode
from spectra.drafters.continuations import Kept, Lookup
from spectra.drafters.near_certain import Top, key_of
from spectra.guess import Guess, Source
from spectra.method import Method, Outcome
from spectra.methods.presets import make_method
from spectra.tree import ROOT, TokenTree


class Strict(NamedTuple):
    """A judge to whom all nodes are equally likely."""

    each: float
    least: float

    def chance(self, tree, node):
        return self.each


KINDS = ("right", "wrong", "almost", "branches", "duplicates", "eos", "empty", "deep", "chaos")
GUESSES = (Source.FORWARD, Source.BACKWARD, Source.RETRIEVAL, Source.POOL)


class Scripted:
    """truth: what plain decoding writes after `prompt`. kind: one of KINDS."""

    def __init__(self, kind, truth, prompt_length, *, vocabulary, eos=(), seed=0):
        self.kind, self.truth, self.prompt_length = kind, list(truth), prompt_length
        self.vocabulary, self.eos = vocabulary, list(eos)
        self.dice = random.Random(seed)
        self.seen = []

    def begin(self, prompt):
        assert len(prompt) == self.prompt_length

    def grow(self, tree, tokens):
        future = self.truth[len(tokens) - self.prompt_length :]
        getattr(self, "_" + self.kind)(tree, future)

    def observe(self, tokens, outcome):
        self.seen += outcome.emitted
        assert list(tokens[self.prompt_length :]) == self.seen

    def _noise(self, count):
        return [self.dice.randrange(self.vocabulary) for _ in range(count)]

    def _put(self, tree, tokens, parent=ROOT):
        if not tokens:
            return parent
        return tree.insert(Guess(tuple(tokens), self.dice.choice(GUESSES), self.dice.randrange(4)), parent)

    def _right(self, tree, future):
        self._put(tree, future[: self.dice.randrange(1, 9)])

    def _wrong(self, tree, future):
        for _ in range(self.dice.randrange(1, 5)):
            self._put(tree, self._noise(self.dice.randrange(1, 5)))

    def _almost(self, tree, future):
        known = self.dice.randrange(0, 5)
        self._put(tree, future[:known] + self._noise(3) + future[known : known + 3])

    def _branches(self, tree, future):
        """Wrong branches first, at every depth, so that the right one is never contiguous."""
        parent = ROOT
        for token in future[: self.dice.randrange(1, 7)]:
            for _ in range(self.dice.randrange(0, 3)):
                self._put(tree, self._noise(2), parent)
            parent = tree.add(parent, token, self.dice.choice(GUESSES))

    def _duplicates(self, tree, future):
        run = future[:4]
        for _ in range(3):
            self._put(tree, run)
            self._put(tree, run[:2])
            node = ROOT
            for token in run:  # the same run again as rows that may not be accepted
                node = tree.add(node, token, Source.POOL, eligible=False)
            if node != ROOT:
                tree.ask(node)

    def _eos(self, tree, future):
        stop = self.eos or [0]
        known = self.dice.randrange(0, 4)
        self._put(tree, [*future[:known], self.dice.choice(stop), *future[known:6]])
        self._put(tree, [*future[:6], stop[0], *self._noise(2)])

    def _empty(self, tree, future):
        pass

    def _deep(self, tree, future):
        self._put(tree, (future + self._noise(60))[:60])

    def _chaos(self, tree, future):
        for _ in range(self.dice.randrange(1, 40)):
            parent = self.dice.randrange(len(tree))
            depth = tree.depths[parent]
            right = depth < len(future) and self.dice.random() < 0.6
            token = future[depth] if right else self.dice.randrange(self.vocabulary)
            node = tree.add(parent, token, self.dice.choice(GUESSES), eligible=self.dice.random() < 0.8)
            if self.dice.random() < 0.3:
                tree.ask(node, frozenset(self._noise(3)) if self.dice.random() < 0.5 else ())


class TextStore:
    """A datastore of one text (`NGramStore`): counts what followed a context wherever it stands there."""

    name = "text"

    def __init__(self, tokens, *, refined=True, order=4):
        self.tokens, self.refined, self.order = list(tokens), refined, order

    def texts_with(self, tokens):
        length = len(tokens)
        runs = [self.tokens[at : at + length] for at in range(len(self.tokens) - length + 1)]
        times = runs.count(list(tokens))
        return Kept(times, int(times > 0), 1.5)

    def successors(self, context):
        for length in range(min(self.order, len(context)), 0, -1):
            found = Counter(
                self.tokens[at + length]
                for at in range(len(self.tokens) - length)
                if self.tokens[at : at + length] == list(context[-length:])
            )
            if found:
                return Lookup(length, found.total(), found.most_common())
        return Lookup.nothing()


class TopTextStore(TextStore):
    """`TopStore` too."""

    def likeliest(self, least, most):
        return [top for top in self._tops() if top.chance >= least][:most]

    def top(self, key):
        return next((top for top in self._tops() if top.key == key), None)

    def ending_with(self, key):
        return [top for top in self._tops() if top.key.startswith(key)]

    def _tops(self):
        """The most often seen first."""
        runs = {
            tuple(self.tokens[at : at + length])
            for length in range(1, self.order + 1)
            for at in range(len(self.tokens) - length)
        }
        found = [(run, self.successors(run)) for run in sorted(runs)]
        tops = [Top(key_of(run), *known.pairs[0], known.seen) for run, known in found]
        return sorted(tops, key=lambda top: -top.seen)


class TextMemory(TextStore):
    """`Remembered` over one text; answers: what was added."""

    worth = 1.0

    def __init__(self, tokens):
        super().__init__(tokens)
        self.answers = []

    def add(self, answer):
        self.answers.append(list(answer))


def method_of(drafters, most=128, cost=None):
    """cost: None for a fixed budget, else an adaptive one."""
    return Method("test", list(drafters), AdaptiveBudget(cost, most) if cost else FixedBudget(most), most)


def decode_by(target, prompt, method="spectra", *, resources=None, sampling=None, nodes=None, **options):
    """`decode` by a preset's name, or by a method."""
    if isinstance(method, str):
        method = make_method(method, target, resources, nodes=nodes, sampling=sampling)
    return decode(target, prompt, method, sampling=sampling, **options)


def random_tree(dice, size, vocabulary=64, *, wide=False):
    """A tree of `size` nodes, the root included."""
    tree = TokenTree(dice.randrange(vocabulary), merge=False)
    for _ in range(size - 1):
        parent = ROOT if wide else dice.randrange(len(tree))
        tree.add(parent, dice.randrange(vocabulary), dice.choice(GUESSES))
    return tree


def outcome_of(tree, reads, emitted=(), path=()):
    """What the target returned: reads gives the prediction of each ticket."""
    return Outcome(tree, list(path), list(emitted), lambda ticket: reads[ticket])


def grown(drafter, tokens):
    tree = TokenTree(tokens[-1])
    drafter.grow(tree, tokens)
    return tree


def runs(tree, source):
    """Tokens from the root to every leaf of this source."""
    parents = {p for n, p in enumerate(tree.parents) if source in tree.sources[n]}
    leaves = [n for n in range(1, len(tree)) if source in tree.sources[n] and n not in parents]
    return [tuple(tree.path_tokens(n)) for n in leaves]
