"""The target's own probabilities at answers that training reads: its most likely tokens at every position, on disk.

Written in parts, each whole or absent, so that a stopped run goes on. Several runs may use one folder.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from spectra.errors import SpectraError
from spectra.train.conversations import Conversations
from spectra.train.scoring import answer_logits, in_groups
from spectra.train.workdir import load_tensors, save_tensors

PART = 4096
"""Padded tokens a part: the most that is lost when a run is stopped."""


@dataclass(frozen=True, slots=True)
class Teacher:
    """ids, shares: [n, top]. begins: for each conversation, where its answer begins in them, -1: not asked about."""

    begins: NDArray[np.int64]
    ids: Tensor
    shares: Tensor

    @property
    def tokens(self) -> int:
        return len(self.ids)

    def of(self, row: int, count: int) -> tuple[Tensor, Tensor]:
        """(ids, shares), [count, top] each, at the tokens of the answer of a conversation that was asked about."""
        begin = int(self.begins[row])
        return self.ids[begin : begin + count], self.shares[begin : begin + count]


def ask_teacher(
    folder: Path,
    target: Callable[[], Any],
    conversations: Conversations,
    rows: NDArray[np.int64],
    *,
    length: int,
    tokens: int,
    top: int,
    data: str,
    progress: Callable[[int], object],
) -> Teacher:
    """What the target holds likely at `tokens` answer tokens; what the folder holds already is not asked again.

    target: gives the model, and is called only when it is needed. data: sha256 that tells what the rows mean.
    Raises SpectraError when the folder was made from other data or a file of it is damaged.
    """
    folder.mkdir(parents=True, exist_ok=True)
    recipe = {"data": data, "top": str(top), "length": str(length)}
    begins = np.full(len(conversations), -1, np.int64)
    ids = []
    shares = []
    total = 0
    model = None
    for number, group in enumerate(in_shuffled_groups(conversations, rows, length, tokens)):
        part = folder / f"part-{number:05}.safetensors"
        if not part.exists():
            model = model or target()
            save_tensors(part, _likely(model, conversations, group, length, top), recipe)
        found, facts = load_tensors(part)
        if facts != recipe:
            raise SpectraError("teacher", f"{part} was made from other data; name another folder or remove it")
        counts = np.minimum(conversations.lengths[group], length) - conversations.answers[group]
        begins[group] = total + np.concatenate(([0], np.cumsum(counts)[:-1]))
        total += len(found["ids"])
        ids.append(found["ids"])
        shares.append(found["shares"])
        progress(len(found["ids"]))
    return Teacher(begins, torch.cat(ids), torch.cat(shares))


def in_shuffled_groups(
    conversations: Conversations, rows: NDArray[np.int64], length: int, tokens: int
) -> list[NDArray[np.int64]]:
    """The groups of a sample, always in the same order, however many tokens are wanted."""
    groups = list(in_groups(conversations, rows, length, PART))
    kept = []
    total = 0
    for number in np.random.default_rng(0).permutation(len(groups)):
        if total >= tokens:
            break
        kept.append(groups[number])
        total += conversations.answer_tokens(groups[number], length)
    return kept


def _likely(
    model: Any, conversations: Conversations, rows: NDArray[np.int64], length: int, top: int
) -> dict[str, Tensor]:
    logits = answer_logits(model, conversations, rows, length)
    shares, ids = logits.float().softmax(1).topk(min(top, logits.shape[1]), 1)
    return {"ids": ids.int().cpu(), "shares": shares.half().cpu()}
