"""What a datastore needs of a model's tokenizer: ids, which of them to leave out, and how an answer begins."""

from dataclasses import dataclass
from typing import Any

from spectra.datastore.card import tokenizer_sha256


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
        return list(self.tokenizer(texts, add_special_tokens=False, verbose=False)["input_ids"]) if texts else []

    def decode(self, ids: list[int]) -> str:
        return str(self.tokenizer.decode(ids))

    def header(self, kind: str) -> list[int]:
        """Ids put before every text: "answer": how the chat template, if any, opens an answer."""
        if kind == "none" or not self.tokenizer.chat_template:
            return []
        turn = [{"role": "user", "content": "x"}]
        asked, whole = (
            str(self.tokenizer.apply_chat_template(turn, add_generation_prompt=add, tokenize=False))
            for add in (False, True)
        )
        return self.encode([whole.removeprefix(asked)])[0] if whole.startswith(asked) else []
