"""A target and draft models made of tables: a distribution for every prefix. A thousand answers a second."""

from dataclasses import dataclass, field
from itertools import product

import numpy as np
from tiny import COST

from spectra.verify.rules.draws import softmax, top


class Tables:
    """For every answer shorter than `length` over `size` tokens; a near draft's are the target's with noise."""

    def __init__(self, seed, size, length, near=None):
        generator = np.random.default_rng(seed)
        self.size, self.length, self.rows = size, length, {}
        for prefix in (p for n in range(length) for p in product(range(size), repeat=n)):
            own = 1.2 * generator.standard_normal(size)
            self.rows[prefix] = softmax(own if near is None else np.log(near.rows[prefix]) + 0.6 * own)

    @property
    def outputs(self):
        return list(product(range(self.size), repeat=self.length))

    def distribution(self):
        """The chance of every output."""
        return np.array([np.prod([self.rows[out[:i]][out[i]] for i in range(self.length)]) for out in self.outputs])


@dataclass
class TableTarget:
    """`Target` and `Session` in one. The prompt is one token."""

    tables: Tables
    name: str = "tables"
    eos: frozenset = frozenset()
    cost = COST
    trees: bool = True
    max_query_tokens: int = 200
    facts: dict = field(default_factory=dict)
    prefill_seconds = 0.0

    def start(self, prompt, max_new_tokens, max_query_tokens, sampling, top_k=0):
        return self

    def score(self, tree, tokens):
        return TableScored(self.tables, tree, tuple(tokens[1:]))

    def noise(self, position):
        return None

    def keep(self, path):
        pass

    def close(self):
        pass


@dataclass
class TableScored:
    tables: Tables
    tree: object
    said: tuple
    known: dict = field(default_factory=dict)
    top: dict = field(default_factory=dict)

    def probabilities(self, node):
        return self.tables.rows[(*self.said, *self.tree.path_tokens(node))]

    def pick(self, node):
        return int(np.random.default_rng([*self.said, 99]).choice(self.tables.size, p=self.probabilities(node)))

    def read(self, ticket):
        return None


@dataclass
class TableDraft:
    """`Draft` and `DraftAnswer` in one."""

    tables: Tables
    name: str = "draft"
    said: tuple = ()

    def start(self, sampling):
        return self

    def follow(self, tokens, ahead):
        self.said = tuple(tokens[1:])
        return True

    def probabilities(self, tree, nodes):
        return [self.tables.rows[(*self.said, *tree.path_tokens(n))[: self.tables.length - 1]] for n in nodes]

    def likely(self, tree, nodes, count):
        return [top(q, count) for q in self.probabilities(tree, nodes)]
