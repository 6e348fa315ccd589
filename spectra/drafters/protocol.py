"""What a drafter is: something that grows a token tree and may learn from the outcome. No torch."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from spectra.guess import Source
from spectra.tree import TokenTree


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one forward pass said. tree: as scored. path: accepted nodes. emitted: tokens added to the output.

    read(ticket): the answer to `tree.ask`, None when that node was cut.
    known: the target's own next token at every node where it is known (all scored ones after a greedy pass).
    top: the target's most likely tokens at every scored node, best first; empty unless the method asks (`Method.top`).
    """

    tree: TokenTree
    path: Sequence[int]
    emitted: Sequence[int]
    read: Callable[[int], int | None]
    known: Mapping[int, int] = field(default_factory=dict)
    top: Mapping[int, Sequence[int]] = field(default_factory=dict)


class Drafter(Protocol):
    """Lives for one answer: `begin` once, then `grow` and `observe` once a step."""

    def begin(self, prompt: Sequence[int]) -> None: ...

    def grow(self, tree: TokenTree, tokens: Sequence[int]) -> None:
        """Add guesses for what follows `tokens` (all committed ones, the tree's root being the last)."""
        ...

    def observe(self, tokens: Sequence[int], outcome: Outcome) -> None:
        """Learn from a step. tokens: all committed ones, this step's included."""
        ...


@runtime_checkable
class Holder(Protocol):
    """A drafter that tells how many n-grams it has learned, by the source that guesses from them."""

    def held(self) -> Mapping[Source, int]: ...
