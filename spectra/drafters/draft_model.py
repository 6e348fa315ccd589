"""Draft models: smaller language models that say what may come next. Grows their draws, or their likeliest tokens.

Does not run them: `spectra/draft_model.py` does. A text that has outgrown a model's context gets no drafts of it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from spectra.drafters.protocol import Outcome
from spectra.expansion import Shape, depth, expand
from spectra.guess import Source
from spectra.rules.protocol import Rule
from spectra.settings import Sampling
from spectra.target.protocol import Draft, DraftAnswer
from spectra.tree import TokenTree
from spectra.walk import grow_rule

SOURCES = (Source.DRAFT, Source.SECOND)
"""Of the first and the second draft model of a method."""


@dataclass
class DraftModels:
    """The drafter. Each model grows the same shape, the first one's nodes first; where they agree they share nodes.

    rule, generator: how draws are drawn. At temperature 0 there is nothing to draw: the children of a node are the
    likeliest tokens, ordinary guesses. tested: False for draws that are used as guesses too (naive sampling).
    """

    drafts: Sequence[Draft]
    shape: Shape
    sampling: Sampling
    rule: Rule
    generator: np.random.Generator
    tested: bool = True
    _answers: list[tuple[DraftAnswer, Source]] = field(default_factory=list)

    def begin(self, prompt: Sequence[int]) -> None:
        self._answers = [(d.start(self.sampling), s) for d, s in zip(self.drafts, SOURCES, strict=False)]

    def grow(self, tree: TokenTree, tokens: Sequence[int]) -> None:
        for answer, source in self._answers:
            if answer.follow(tokens, depth(self.shape)):
                self._grow(tree, answer, source)

    def _grow(self, tree: TokenTree, answer: DraftAnswer, source: Source) -> None:
        if self.sampling.greedy:
            expand(tree, self.shape, source, lambda nodes, widths: answer.likely(tree, nodes, max(widths)))
        elif self.tested:
            grow_rule(tree, self.rule, lambda nodes: answer.laws(tree, nodes), self.shape, source, self.generator)
        else:

            def choose(nodes: Sequence[int], widths: Sequence[int]) -> list[list[int]]:
                pairs = zip(answer.laws(tree, nodes), widths, strict=True)
                return [self.rule.draft(q, width, self.generator)[0].tolist() for q, width in pairs]

            expand(tree, self.shape, source, choose)

    def observe(self, tokens: Sequence[int], outcome: Outcome) -> None:
        """Nothing to learn: `follow` sees what was committed."""
