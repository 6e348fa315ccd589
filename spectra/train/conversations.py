"""Prompts and answers as token ids, in the chat template that decoding uses, and which of them are held back.

What is held back goes by the hash of the prompt alone, so that it is the same for every file and every run.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spectra.datastore.readers import UNREADABLE, json_rows, kind_of
from spectra.datastore.rows import texts_of
from spectra.datastore.sources import digest
from spectra.errors import SpectraError

BLOCK = 1000
"""Conversations tokenized together."""


@dataclass(frozen=True, slots=True)
class Conversations:
    """tokens: all of them, one after the other; conversation i is tokens[starts[i] : starts[i + 1]] and its answer
    begins `answers[i]` tokens in. held: whether it is held back."""

    tokens: NDArray[np.int32]
    starts: NDArray[np.int64]
    answers: NDArray[np.int32]
    held: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.answers)

    @property
    def lengths(self) -> NDArray[np.int64]:
        return np.diff(self.starts)

    def ids(self, number: int, most: int) -> NDArray[np.int32]:
        """The first `most` tokens of a conversation."""
        start, stop = self.starts[number : number + 2]
        return self.tokens[start : min(int(stop), int(start) + most)]

    def rows(self, most: int, *, held: bool) -> NDArray[np.int64]:
        """Numbers of the conversations whose answer begins within `most` tokens, held back or not."""
        return np.flatnonzero((self.held == held) & (self.answers < np.minimum(self.lengths, most)))

    def answer_tokens(self, rows: NDArray[np.int64], most: int) -> int:
        return int((np.minimum(self.lengths, most)[rows] - self.answers[rows]).sum())


def read_conversations(
    files: Iterable[Path], tokenizer: Any, share: float, exclude: frozenset[bytes] = frozenset()
) -> Conversations:
    """The rows of jsonl files that answer a prompt but those in `exclude`; `share` of the prompts are held back.

    Raises SpectraError naming a file that cannot be read or a malformed line.
    """
    tokens: list[NDArray[np.int32]] = []
    lengths, answers, held = [], [], []
    pairs = (pair for pair in _pairs(files) if digest(pair[0]) not in exclude)
    while block := list(islice(pairs, BLOCK)):
        prompts = _encode(tokenizer, [_asked(tokenizer, prompt) for prompt, _, _ in block])
        texts = _encode(tokenizer, [text for _, text, _ in block])
        for (prompt, _, ended), asked, answered in zip(block, prompts, texts, strict=True):
            end = [tokenizer.eos_token_id] if ended and tokenizer.eos_token_id is not None else []
            tokens.append(np.array([*asked, *answered, *end], np.int32))
            lengths.append(len(tokens[-1]))
            answers.append(len(asked))
            held.append(int.from_bytes(digest(prompt)[:4], "big") < share * 2**32)
    if not tokens:
        raise SpectraError("data", "it holds no answer to a prompt; give rows with the fields user and assistant")
    starts = np.concatenate(([0], np.cumsum(lengths)))
    return Conversations(np.concatenate(tokens), starts, np.array(answers, np.int32), np.array(held, np.bool_))


def _pairs(files: Iterable[Path]) -> Iterator[tuple[str, str, bool]]:
    """(prompt, answer, whether the answer came to its end)."""
    for file in files:
        if kind_of(file) != "jsonl":
            raise SpectraError("data", f"{file.name} is not jsonl; give rows with the fields user and assistant")
        try:
            for where, row in json_rows(file, lambda position: None):
                try:
                    found = list(texts_of(row))
                except ValueError as error:
                    raise SpectraError("data", f"{where} {error}; mend it") from error
                ended = row.get("finished", True) is not False
                yield from ((one.prompt, one.text, ended) for one in found if one.prompt and one.text)
        except UNREADABLE as error:
            reason = getattr(error, "strerror", None) or error
            raise SpectraError("data", f"{file} cannot be read ({reason}); give a whole file") from error


def _asked(tokenizer: Any, prompt: str) -> str:
    """How decoding puts a prompt to the target."""
    if not tokenizer.chat_template:
        return f"{prompt}\n"
    turn = [{"role": "user", "content": prompt}]
    return str(tokenizer.apply_chat_template(turn, add_generation_prompt=True, tokenize=False))


def _encode(tokenizer: Any, texts: list[str]) -> list[list[int]]:
    return list(tokenizer(texts, add_special_tokens=False, verbose=False)["input_ids"])
