"""What a model says at every position of the answers in a batch of conversations, and how well a draft model does:
its loss on the text, and its agreement with the target. Nothing is trained here.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from spectra.target.device_map import input_device
from spectra.train.conversations import Conversations, padded
from spectra.train.settings import TrainSettings

QUICK = 4096
"""Answer tokens of a quick look."""
GROUP = 2048
"""Padded tokens scored at once: a row of logits is as wide as the vocabulary."""
DEEPEST = 5
"""A draft's likeliest tokens among which the target's is looked for."""


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
    batch = torch.from_numpy(ids).to(input_device(model))
    states = model.base_model(input_ids=batch, use_cache=False).last_hidden_state
    where = torch.from_numpy(places)
    return states.flatten(0, 1)[where.to(states.device)], batch.flatten()[where.to(batch.device) + 1]


@torch.inference_mode()
def answer_logits(model: Any, conversations: Conversations, rows: NDArray[np.int64], length: int) -> Tensor:
    """[n, vocabulary] at the n answer tokens, in order of `rows`, by the model's own head."""
    ids = padded(conversations, rows, length)
    width = ids.shape[1]
    kept = width - int(conversations.answers[rows].min()) + 1
    batch = torch.from_numpy(ids).to(input_device(model))
    logits = model(input_ids=batch, use_cache=False, logits_to_keep=kept).logits
    line, column = np.divmod(answer_places(conversations, rows, length, width), width)
    where = torch.from_numpy(line * kept + column - (width - kept)).to(logits.device)
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


def quick_look(model: Any, texts: Conversations, rows: NDArray[np.int64], settings: TrainSettings) -> dict[str, float]:
    """Loss on a little held-back text and how often the likeliest token is the next one. Without the target."""
    loss = 0.0
    right = 0
    count = 0
    few = sample(texts, rows, settings.length, QUICK)
    model.eval()
    for group in in_groups(texts, few, settings.length, GROUP):
        logits = answer_logits(model, texts, group, settings.length).float()
        text = following(texts, group, settings.length).to(logits.device)
        loss += float(torch.nn.functional.cross_entropy(logits, text, reduction="sum"))
        right += int((logits.argmax(1) == text).sum())
        count += len(text)
    return {"loss": round(loss / max(1, count), 4), "right": round(right / max(1, count), 4)}


def following(texts: Conversations, rows: NDArray[np.int64], length: int) -> Tensor:
    """The answers' tokens [n], in order of `rows`."""
    found = [texts.ids(int(row), length)[texts.answers[row] :] for row in rows]
    return torch.from_numpy(np.concatenate(found).astype(np.int64))


@torch.inference_mode()
def agreement(
    drafts: list[Any], target: Any, texts: Conversations, rows: NDArray[np.int64], settings: TrainSettings
) -> dict[str, Any]:
    """Facts about the last of `drafts` at the answers of `rows`, at temperature 1.

    loss: nats a token of the text; target_loss: the target's. top1 .. top5: how often the target's likeliest token is
    among the draft's 1 .. 5 likeliest. overlap: mean of sum(min(p, q)), the chance that a draw from q is kept. With
    several drafts, any_top1: how often it is the likeliest token of one of them at least.
    """
    sums = {"loss": 0.0, "target_loss": 0.0, "overlap": 0.0, "any_top1": 0.0}
    hits = torch.zeros(DEEPEST)
    count = 0
    for group in in_groups(texts, rows, settings.length, GROUP):
        text = following(texts, group, settings.length)
        theirs = answer_logits(target, texts, group, settings.length).float().log_softmax(1).cpu()
        best = theirs.argmax(1)
        by_any = torch.zeros(len(text), dtype=torch.bool)
        for draft in drafts:
            ours = answer_logits(draft, texts, group, settings.length).float().log_softmax(1).cpu()
            by_any |= ours.argmax(1) == best
        deep = ours.topk(min(DEEPEST, ours.shape[1]), 1).indices == best[:, None]
        hits[: deep.shape[1]] += deep.cumsum(1).sum(0)
        hits[deep.shape[1] :] += deep.sum()
        sums["loss"] -= float(ours.gather(1, text[:, None]).sum())
        sums["target_loss"] -= float(theirs.gather(1, text[:, None]).sum())
        sums["overlap"] += float(torch.minimum(ours, theirs).exp_().sum())
        sums["any_top1"] += int(by_any.sum())
        count += len(text)
    if len(drafts) == 1:
        del sums["any_top1"]
    means = {name: round(value / max(1, count), 4) for name, value in sums.items()}
    return {
        "tokens": count,
        **means,
        **{f"top{k + 1}": round(float(hits[k]) / max(1, count), 4) for k in range(DEEPEST)},
    }
