"""Where each node of a step's tree is drawn: the column is its depth, the row is found here. No drawing."""

from collections.abc import Sequence

from spectra.trace import TreeTrace
from spectra.tree import ROOT


def rows(tree: TreeTrace, path: Sequence[int]) -> list[int]:
    """Row of every node. The accepted path is the top row, and what follows its end is left free for the model's pick.

    Elsewhere a first child continues its parent's row and the others take the next free one below; branches that may
    be accepted come before those that may not.
    """
    children: list[list[int]] = [[] for _ in tree.tokens]
    for node, parent in enumerate(tree.parents):
        if node != ROOT:
            children[parent].append(node)
    accepted = set(path)
    trunk = {ROOT, *path}
    for family in children:
        family.sort(key=lambda node: (node not in accepted, not tree.eligible[node], node))
    row = [0] * len(tree)
    free = 1
    todo = [ROOT]
    while todo:
        node = todo.pop()
        if node != ROOT:
            parent = tree.parents[node]
            if children[parent][0] == node and (node in accepted or parent not in trunk):
                row[node] = row[parent]
            else:
                row[node] = free
                free += 1
        todo.extend(reversed(children[node]))
    return row
