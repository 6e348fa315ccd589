"""What a datastore knows to follow a text, as text."""

from dataclasses import dataclass
from typing import Protocol

from spectra.datastore.continuations import Node
from spectra.datastore.language import Language

NODES = 64


class Asked(Protocol):
    def continuations(self, context: list[int], most: int) -> list[Node]: ...


@dataclass(frozen=True, slots=True)
class Continuation:
    """A branch of the answer down to a leaf. node: the leaf."""

    text: str
    node: Node


def query(store: Asked, language: Language, text: str, top: int) -> list[Continuation]:
    """The `top` likeliest branches."""
    nodes = store.continuations(language.encode([text])[0], NODES)
    inner = {node.parent for node in nodes}
    leaves = sorted((i for i in range(len(nodes)) if i not in inner), key=lambda i: (-nodes[i].chance, i))
    return [Continuation(language.decode(_path(nodes, leaf)), nodes[leaf]) for leaf in leaves[:top]]


def _path(nodes: list[Node], leaf: int) -> list[int]:
    """Tokens from the context to the leaf."""
    tokens: list[int] = []
    while leaf >= 0:
        tokens.append(nodes[leaf].token)
        leaf = nodes[leaf].parent
    return tokens[::-1]
