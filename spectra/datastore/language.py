"""Between text and a datastore's token ids: what a store needs of a tokenizer, and what it knows of a text, as text."""

from dataclasses import dataclass
from typing import Any

from spectra.datastore.store import Store
from spectra.drafters.continuations import Node
from spectra.io.chat_template import template_text
from spectra.io.hashes import tokenizer_sha256
from spectra.io.text_ids import text_ids
from spectra.settings import check_unicode

NODES = 64
"""Nodes that a query asks for."""


@dataclass(frozen=True)
class Language:
    """model: its name, for the card."""

    tokenizer: Any
    model: str

    @property
    def sha256(self) -> str:
        return tokenizer_sha256(self.tokenizer)

    @property
    def vocabulary(self) -> int:
        """One more than the highest id."""
        return int(max(self.tokenizer.get_vocab().values())) + 1

    @property
    def banned(self) -> frozenset[int]:
        """Ids that are no text."""
        return frozenset(self.tokenizer.all_special_ids)

    def encode(self, texts: list[str]) -> list[list[int]]:
        """Ids of each text, nothing added."""
        return list(text_ids(self.tokenizer, texts, add_special_tokens=False, verbose=False)) if texts else []

    def decode(self, ids: list[int]) -> str:
        return str(self.tokenizer.decode(ids))

    def header(self, kind: str) -> list[int]:
        """Ids put before every text: "answer": how the chat template, if any, opens an answer."""
        if kind == "none" or not self.tokenizer.chat_template:
            return []
        turn = [{"role": "user", "content": "x"}]
        asked = template_text(self.tokenizer, turn, opened=False)
        whole = template_text(self.tokenizer, turn)
        return self.encode([whole.removeprefix(asked)])[0] if whole.startswith(asked) else []


@dataclass(frozen=True, slots=True)
class Continuation:
    """A branch of the answer down to a leaf. node: the leaf. match: tokens before it that it follows."""

    text: str
    node: Node
    match: int


def query(store: Store, language: Language, text: str, top: int) -> list[Continuation]:
    """The `top` likeliest branches of what follows a text. Raises SpectraError for text that cannot be encoded."""
    check_unicode("text", text)
    nodes = store.continuations(language.encode([text])[0], NODES)
    inner = {node.parent for node in nodes}
    leaves = [place for place in range(len(nodes)) if place not in inner]
    leaves.sort(key=lambda leaf: (-nodes[leaf].chance, leaf))
    paths = [_path(nodes, leaf) for leaf in leaves[:top]]
    return [Continuation(language.decode([node.token for node in path]), path[-1], path[0].match) for path in paths]


def _path(nodes: list[Node], leaf: int) -> list[Node]:
    """From the context to the leaf."""
    path: list[Node] = []
    while leaf >= 0:
        path.append(nodes[leaf])
        leaf = nodes[leaf].parent
    return path[::-1]
