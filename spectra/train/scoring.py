"""What a model says at every position of the answers in a batch of conversations. Nothing is trained here."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from spectra.train.batches import padded
from spectra.train.conversations import Conversations


def answer_places(conversations: Conversations, rows: NDArray[np.int64], length: int, width: int) -> NDArray[np.int64]:
    """Where in the flattened [rows, width] batch an answer's tokens are predicted: one place before each of them."""
    spans = []
    for line, row in enumerate(rows):
        stop = min(int(conversations.lengths[row]), length)
        spans.append(np.arange(int(conversations.answers[row]), stop) - 1 + line * width)
    return np.concatenate(spans)


def answer_states(
    model: Any, conversations: Conversations, rows: NDArray[np.int64], length: int
) -> tuple[Tensor, Tensor]:
    """(last hidden states [n, hidden], the tokens that follow [n]) at the n answer tokens, in order of `rows`."""
    ids = padded(conversations, rows, length)
    places = answer_places(conversations, rows, length, ids.shape[1])
    batch = torch.from_numpy(ids).to(model.device)
    states = model.base_model(input_ids=batch, use_cache=False).last_hidden_state
    where = torch.from_numpy(places).to(model.device)
    return states.flatten(0, 1)[where], batch.flatten()[where + 1]


@torch.inference_mode()
def answer_logits(model: Any, conversations: Conversations, rows: NDArray[np.int64], length: int) -> Tensor:
    """[n, vocabulary] at the n answer tokens, in order of `rows`, by the model's own head."""
    ids = padded(conversations, rows, length)
    width = ids.shape[1]
    kept = width - int(conversations.answers[rows].min()) + 1
    batch = torch.from_numpy(ids).to(model.device)
    logits = model(input_ids=batch, use_cache=False, logits_to_keep=kept).logits
    line, column = np.divmod(answer_places(conversations, rows, length, width), width)
    where = torch.from_numpy(line * kept + column - (width - kept)).to(model.device)
    found: Tensor = logits.flatten(0, 1)[where]
    return found


def in_groups(
    conversations: Conversations, rows: NDArray[np.int64], length: int, budget: int
) -> Iterator[NDArray[np.int64]]:
    """Rows that fit `budget` padded tokens, longest first."""
    lengths = np.minimum(conversations.lengths[rows], length)
    ranked = rows[np.argsort(-lengths, kind="stable")]
    while len(ranked):
        count = max(1, budget // int(min(conversations.lengths[ranked[0]], length)))
        yield ranked[:count]
        ranked = ranked[count:]


def sample(conversations: Conversations, rows: NDArray[np.int64], length: int, tokens: int) -> NDArray[np.int64]:
    """Some of the rows, always the same ones, with at least that many answer tokens if there are so many."""
    drawn: NDArray[np.int64] = np.random.default_rng(0).permutation(rows)
    sizes = np.minimum(conversations.lengths[drawn], length) - conversations.answers[drawn]
    return drawn[: int(np.searchsorted(np.cumsum(sizes), tokens)) + 1] if tokens else drawn[:0]
