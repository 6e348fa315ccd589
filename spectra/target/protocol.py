"""What decoding asks of a model: score a whole token tree in one forward pass, keep one branch of it. No torch."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from spectra.datastore.continuations import Counted
from spectra.settings import Sampling
from spectra.tree import TokenTree


@dataclass(frozen=True, slots=True)
class StepCost:
    """T(q): measured seconds of one forward pass over q query tokens on this device, piecewise linear between."""

    table: tuple[tuple[int, float], ...]

    def __post_init__(self) -> None:
        if not self.table or any(b[0] <= a[0] for a, b in pairwise(self.table)):
            raise ValueError("a step cost table lists query counts in rising order")

    def seconds(self, queries: int) -> float:
        """Seconds of a step with `queries` query tokens; past the last measured size the last slope goes on."""
        rows = self.table
        if queries <= rows[0][0]:
            return rows[0][1]
        for (q0, t0), (q1, t1) in pairwise(rows):
            if queries <= q1:
                return t0 + (t1 - t0) * (queries - q0) / (q1 - q0)
        if len(rows) == 1:
            return rows[0][1]
        (q0, t0), (q1, t1) = rows[-2:]
        return t1 + max(0.0, (t1 - t0) / (q1 - q0)) * (queries - q1)


class Scored(Protocol):
    """The outcome of one forward pass over a tree.

    known: the target's picks that have been made so far, by node. top: the most likely tokens of each scored node, best
    first; empty unless `start` was asked for them.
    """

    known: dict[int, int]

    @property
    def top(self) -> Mapping[int, Sequence[int]]: ...

    def pick(self, node: int) -> int:
        """The target's own token after an eligible node, drawn for that output position."""
        ...

    def law(self, node: int) -> NDArray[np.float64]:
        """[vocabulary]: the distribution that `pick(node)` draws from."""
        ...

    def read(self, ticket: int) -> int | None:
        """The answer to `TokenTree.ask`; None when that node was not scored."""
        ...


class Session(Protocol):
    """One sequence on a target: its KV cache and its random noise."""

    prefill_seconds: float

    def score(self, tree: TokenTree, tokens: Sequence[int]) -> Scored:
        """One forward pass over the whole tree. tokens: everything committed, the tree's root being the last."""
        ...

    def keep(self, path: Sequence[int]) -> None:
        """Commit the root's and these nodes' cache rows, drop the rest."""
        ...

    def close(self) -> None:
        """Give the target back. Safe to call twice."""
        ...


class DraftAnswer(Protocol):
    """A draft model's side of one answer: its KV cache and its sampling, which is the target's."""

    def follow(self, tokens: Sequence[int], ahead: int) -> bool:
        """Take over what is committed, the next tree's root being its last token.

        False when the context cannot hold it and the tree, which is `ahead` deep: nothing can be asked then.
        """
        ...

    def laws(self, tree: TokenTree, nodes: Sequence[int]) -> Sequence[NDArray[np.float64]]:
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


class Target(Protocol):
    """A causal language model that can score token trees."""

    @property
    def name(self) -> str: ...
    @property
    def eos(self) -> frozenset[int]: ...
    @property
    def cost(self) -> StepCost: ...
    @property
    def trees(self) -> bool:
        """False when the model can only score chains (it places tokens by slot, not by position id)."""
        ...

    @property
    def widest(self) -> int:
        """Most query tokens of one step."""
        ...

    @property
    def stores(self) -> Sequence[Counted]:
        """Datastores in this model's token ids."""
        ...

    @property
    def drafts(self) -> Sequence[Draft]:
        """Draft models in this model's token ids, the best first."""
        ...

    @property
    def facts(self) -> Mapping[str, object]:
        """What a trace records of the target: dtype, numerics, device, versions."""
        ...

    def start(self, prompt: Sequence[int], room: int, widest: int, sampling: Sampling, *, top: int = 0) -> Session:
        """Open a sequence and prefill all of `prompt` but its last token.

        room: tokens the answer may add. widest: most nodes a tree may have, the root included. top: how many likely
        tokens of each scored node every step tells (`Scored.top`).
        Raises SpectraError when prompt and answer do not fit the context; TargetBusyError while another is open.
        """
        ...
