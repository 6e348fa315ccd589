"""Second phase of a build: the perplexity of each candidate under the target model, PPL(u) = exp(-1/t sum log P).

Batches are formed from the candidates alone, before processes share them out, so that any number of processes computes
the same numbers. Each process appends to a file of its own.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from spectra.datastore.build.workdir import Workdir, append, scored
from spectra.errors import SpectraError
from spectra.target.device_map import input_device

BLOCK = 8192
"""Candidates sorted by length at a time."""
ROWS = 512
"""Rows of logits turned to fp32 at a time."""


@torch.inference_mode()
def perplexities(model: Any, texts: Sequence[NDArray[np.integer]], context: Sequence[int] = ()) -> NDArray[np.float32]:
    """One a text, all in one forward pass padded on the right. context: ids before every text, not scored.

    Without a context the first token is given, not scored. Texts have 2 tokens or more.
    """
    device = input_device(model)
    rows = [np.concatenate([np.asarray(context, np.int64), text.astype(np.int64)]) for text in texts]
    width = max(map(len, rows))
    ids = torch.zeros(len(rows), width, dtype=torch.long)
    mask = torch.zeros(len(rows), width, dtype=torch.long)
    for i, row in enumerate(rows):
        ids[i, : len(row)] = torch.from_numpy(row)
        mask[i, : len(row)] = 1
    ids = ids.to(device)
    logits = model(input_ids=ids, attention_mask=mask.to(device), use_cache=False).logits
    first = max(len(context), 1)
    found = []
    for i, row in enumerate(rows):
        total = 0.0
        for start in range(first, len(row), ROWS):
            stop = min(start + ROWS, len(row))
            part = logits[i, start - 1 : stop - 1].float()
            chosen = part.gather(1, ids[i, start:stop, None])[:, 0]
            total += float((chosen - part.logsumexp(dim=1)).double().sum())
        found.append(math.exp(min(-total / (len(row) - first), 80.0)))
    return np.array(found, np.float32)


def batches(workdir: Workdir, wanted: NDArray[np.bool_], budget: int, context: int) -> Iterator[NDArray[Any]]:
    """Candidates (with their `row`) of like length, each batch within `budget` tokens or a single text.

    wanted: for each candidate whether it is to be scored.
    """
    kind = np.dtype([("row", "<i8"), ("start", "<i8"), ("length", "<i4")])
    for begin in range(0, len(wanted), BLOCK):
        block = workdir.read_candidates(begin, min(begin + BLOCK, len(wanted)))
        ranked = np.lexsort((block["hash"], -block["length"]))
        ranked = ranked[wanted[begin : begin + len(block)][ranked]]
        batch = np.empty(len(ranked), kind)
        batch["row"] = begin + ranked
        batch["start"] = block["start"][ranked]
        batch["length"] = block["length"][ranked]
        while len(batch):
            count = max(1, budget // (int(batch["length"][0]) + context))
            yield batch[:count]
            batch = batch[count:]


def score(
    workdir: Workdir,
    wanted: NDArray[np.bool_],
    model: Any,
    context: Sequence[int],
    *,
    budget: int,
    process: int = 0,
    processes: int = 1,
    progress: Callable[[int], object],
) -> None:
    """Score this process's share of the batches of wanted candidates, those that were scored before left out.

    progress: called with the tokens of each batch of the share. Raises SpectraError where the model gives NaN.
    """
    known = workdir.read_scores(len(wanted))
    for number, batch in enumerate(batches(workdir, wanted, budget, len(context))):
        if number % processes != process:
            continue
        if np.isnan(known[batch["row"]]).any():
            texts = [workdir.read_tokens(row["start"], row["length"]) for row in batch]
            found = perplexities(model, texts, context)
            if np.isnan(found).any():
                raise _no_numbers(model.dtype)
            append(workdir.scores(process), scored(batch["row"], found))
        progress(int(batch["length"].sum()))


def _no_numbers(dtype: torch.dtype) -> SpectraError:
    """What is wrong with a model of that dtype which gives NaN. What fp32 gives, no other dtype mends."""
    if dtype == torch.float32:
        return SpectraError("model", f"its logits are not numbers in {dtype}; check its weights or give another model")
    return SpectraError("dtype", f"the model's logits are not numbers in {dtype}; give --dtype fp32")
