"""What a drafter may ask while it grows a tree: how likely a node is, and how likely one must be."""

from typing import Protocol

from spectra.tree import TokenTree


class Judge(Protocol):
    """Says how likely a node is what the target writes after its parent."""

    def chance(self, tree: TokenTree, node: int) -> float: ...


class StrictJudge(Judge, Protocol):
    """Knows before a tree is grown how likely the whole path to a node must be for its row to pay. least: that; 0
    where it is not known."""

    @property
    def least(self) -> float: ...
