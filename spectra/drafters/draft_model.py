"""Draft models: smaller language models that say what may come next. Grows their draws, or their likeliest tokens.

`spectra/target/draft_model.py` runs them. A text that is longer than a model's context gets no drafts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from spectra.drafters.tree_shapes import Shape, depth, expand, grow_rule
from spectra.guess import Source
from spectra.method import Outcome
from spectra.settings import Sampling
from spectra.tree import TokenTree
from spectra.verify.rules.protocol import Rule


class DraftAnswer(Protocol):
    """A draft model's side of one answer: its KV cache and its sampling, which is the target's."""

    def follow(self, tokens: Sequence[int], ahead: int) -> bool:
        """Take over what is committed, the next tree's root being its last token.

        False when the context cannot hold it and the tree, which is `ahead` deep: nothing can be asked then.
        """
        ...

    def probabilities(self, tree: TokenTree, nodes: Sequence[int]) -> Sequence[NDArray[np.float64]]:
        """For each of these nodes of one level the distribution of the next token, [vocabulary]."""
        ...

    def likely(self, tree: TokenTree, nodes: Sequence[int], count: int) -> Sequence[Sequence[int]]:
        """For each of these nodes of one level the likeliest `count` next tokens, best first."""
        ...


class Draft(Protocol):
    """A smaller language model over the target's tokens."""

    @property
    def name(self) -> str: ...

    def start(self, sampling: Sampling) -> DraftAnswer: ...


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
        self._answers = [
            (draft.start(self.sampling), source) for draft, source in zip(self.drafts, SOURCES, strict=False)
        ]

    def grow(self, tree: TokenTree, tokens: Sequence[int]) -> None:
        for answer, source in self._answers:
            if answer.follow(tokens, depth(self.shape)):
                self._grow(tree, answer, source)

    def _grow(self, tree: TokenTree, answer: DraftAnswer, source: Source) -> None:
        if self.sampling.greedy:
            expand(tree, self.shape, source, lambda nodes, widths: answer.likely(tree, nodes, max(widths)))
        elif self.tested:
            after = partial(answer.probabilities, tree)
            grow_rule(tree, self.rule, after, self.shape, source, self.generator)
        else:

            def choose(nodes: Sequence[int], widths: Sequence[int]) -> list[list[int]]:
                pairs = zip(answer.probabilities(tree, nodes), widths, strict=True)
                return [self.rule.draft(q, width, self.generator)[0].tolist() for q, width in pairs]

            expand(tree, self.shape, source, choose)

    def observe(self, tokens: Sequence[int], outcome: Outcome) -> None:
        """Nothing to learn: `follow` sees what was committed."""

    def end(self, tokens: Sequence[int]) -> None:
        """The models' KV caches go; who asked may keep the method."""
        self._answers = []
