"""Prompts and answers as token ids, in the chat template that decoding uses, which of them are held back, and batches.

What is held back goes by the hash of the prompt alone, so that it is the same for every file and every run. Batches
hold conversations of like length, without end: in an epoch each once, in an order that seed and epoch give.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spectra.datastore.build.readers import UNREADABLE, json_rows, reason, texts_of
from spectra.datastore.sources import digest
from spectra.errors import SpectraError
from spectra.io.chat_template import template_text
from spectra.io.text_ids import text_ids

BLOCK = 1000
"""Conversations tokenized together."""
JITTER = 0.2
"""How much lengths are shaken, as a share, so that neighbours differ from epoch to epoch."""


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

    def ids(self, number: int, length: int) -> NDArray[np.int32]:
        """The first `length` tokens of a conversation."""
        start = int(self.starts[number])
        stop = int(self.starts[number + 1])
        return self.tokens[start : min(stop, start + length)]

    def rows(self, length: int, *, held: bool) -> NDArray[np.int64]:
        """Numbers of the conversations whose answer begins within `length` tokens, held back or not."""
        return np.flatnonzero((self.held == held) & (self.answers < np.minimum(self.lengths, length)))

    def answer_tokens(self, rows: NDArray[np.int64], length: int) -> int:
        return int((np.minimum(self.lengths, length)[rows] - self.answers[rows]).sum())


class Pair(NamedTuple):
    """ended: whether the answer came to its end."""

    prompt: str
    answer: str
    ended: bool


def read_conversations(
    files: Iterable[Path], tokenizer: Any, share: float, exclude: frozenset[bytes] = frozenset()
) -> Conversations:
    """The rows of jsonl files that answer a prompt but those in `exclude`; `share` of the prompts are held back.

    Raises SpectraError naming a file that cannot be read or a malformed line.
    """
    tokens: list[NDArray[np.int32]] = []
    lengths: list[int] = []
    answers: list[int] = []
    held: list[bool] = []
    pairs = (pair for pair in _pairs(files) if digest(pair.prompt) not in exclude)
    while block := list(islice(pairs, BLOCK)):
        prompts = _encode(tokenizer, [_asked(tokenizer, pair.prompt) for pair in block])
        texts = _encode(tokenizer, [pair.answer for pair in block])
        for pair, asked, answered in zip(block, prompts, texts, strict=True):
            end = [tokenizer.eos_token_id] if pair.ended and tokenizer.eos_token_id is not None else []
            tokens.append(np.array([*asked, *answered, *end], np.int32))
            lengths.append(len(tokens[-1]))
            answers.append(len(asked))
            held.append(int.from_bytes(digest(pair.prompt)[:4], "big") < share * 2**32)
    if not tokens:
        raise SpectraError("data", "it holds no answer to a prompt; give rows with the fields user and assistant")
    starts = np.concatenate(([0], np.cumsum(lengths)))
    return Conversations(np.concatenate(tokens), starts, np.array(answers, np.int32), np.array(held, np.bool_))


def _pairs(files: Iterable[Path]) -> Iterator[Pair]:
    for file in files:
        try:
            for place, data in json_rows(file):
                try:
                    found = list(texts_of(data))
                except ValueError as error:
                    raise SpectraError("data", f"{place} {error}; mend it") from error
                ended = data.get("finished", True) is not False
                yield from (Pair(one.prompt, one.text, ended) for one in found if one.prompt and one.text)
        except UNREADABLE as error:
            raise SpectraError("data", f"{file} cannot be read ({reason(error)}); give a whole file") from error


def _asked(tokenizer: Any, prompt: str) -> str:
    """How decoding puts a prompt to the target."""
    if not tokenizer.chat_template:
        return f"{prompt}\n"
    return template_text(tokenizer, [{"role": "user", "content": prompt}])


def _encode(tokenizer: Any, texts: list[str]) -> list[list[int]]:
    return list(text_ids(tokenizer, texts, add_special_tokens=False, verbose=False))


@dataclass
class Batches:
    """rows: which conversations; budget: tokens a batch, padding included; length: where a conversation is cut."""

    conversations: Conversations
    rows: NDArray[np.int64]
    budget: int
    length: int
    seed: int
    _first: int = field(default=0, init=False)
    _epoch: int = field(default=-1, init=False)
    _plan: list[NDArray[np.int64]] = field(default_factory=list, init=False)

    def __getitem__(self, number: int) -> NDArray[np.int64]:
        """The conversations of batch `number`, which is the same whatever was asked for before."""
        if number < self._first:
            self._first = 0
            self._epoch = -1
            self._plan = []
        while number >= self._first + len(self._plan):
            self._first += len(self._plan)
            self._epoch += 1
            self._plan = self._planned(self._epoch)
        return self._plan[number - self._first]

    def _planned(self, epoch: int) -> list[NDArray[np.int64]]:
        draw = np.random.default_rng([self.seed, epoch])
        lengths = np.minimum(self.conversations.lengths[self.rows], self.length)
        order = np.argsort(-lengths * (1 + JITTER * draw.random(len(lengths))), kind="stable")
        plan = []
        begin = 0
        longest = 0
        for end, row in enumerate(order):
            longest = max(longest, int(lengths[row]))
            if end > begin and longest * (end + 1 - begin) > self.budget:
                plan.append(self.rows[order[begin:end]])
                begin = end
                longest = int(lengths[row])
        plan.append(self.rows[order[begin:]])
        draw.shuffle(plan)  # type: ignore[arg-type]
        return plan


def padded(conversations: Conversations, rows: NDArray[np.int64], length: int) -> NDArray[np.int64]:
    """[rows, longest] token ids, zeros behind the shorter ones (causal attention never looks there)."""
    found = [conversations.ids(int(row), length) for row in rows]
    ids = np.zeros((len(found), max(map(len, found))), np.int64)
    for line, one in zip(ids, found, strict=True):
        line[: len(one)] = one
    return ids
