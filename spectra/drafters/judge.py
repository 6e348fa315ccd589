"""What a drafter may ask while it grows a tree: how likely a node is, and how likely one must be."""

from typing import Protocol

from spectra.tree import TokenTree


class Judge(Protocol):
    """Estimates the chance that the target writes a node's token after its parent."""

    def chance(self, tree: TokenTree, node: int) -> float: ...


class StrictJudge(Judge, Protocol):
    """Knows before a tree is grown how likely the whole path to a node must be for its row to pay. least: that; 0
    where it is not known."""

    @property
    def least(self) -> float: ...


class Path:
    """A chain as it grows. judge: says what its nodes are worth; None where every node is."""

    def __init__(self, judge: StrictJudge | None) -> None:
        self._judge, self._chance = judge, 1.0
        self._least = judge.least if judge else 0.0

    def pays(self, tree: TokenTree, node: int) -> bool:
        """Whether it pays up to this node, the newest. Called once a node."""
        if self._judge is None or not self._least:
            return True
        self._chance *= self._judge.chance(tree, node)
        return self._chance >= self._least
