"""Logits to the target's own pick per node, the likeliest token or a draw.

Noise is keyed (`spectra.verify.noise`), so the same seed gives the same text with and without speculation. Every pick
is computed from its own row alone, beside other rows only by operations that sum nothing, so their number cannot change
it. Ties go to the lowest id.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import (
    LogitsProcessorList,
    MinPLogitsWarper,
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from spectra.errors import SpectraError
from spectra.settings import Sampling
from spectra.tree import TokenTree
from spectra.verify.noise import Noise, sent

BLIND = (TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper, MinPLogitsWarper)
"""Processors that look at the logits only: no need to know the tokens before."""
SEPARATE = (TemperatureLogitsWarper, TopKLogitsWarper)
"""Those of them that sum nothing: rows may go through side by side, and none depends on how many there are."""

NO_NUMBER = -1
"""Stands for the pick of a row that holds a NaN, or of which nothing can be drawn."""
NO_NUMBERS = "its logits are no numbers (NaN); load it in fp32, or check its weights"
NOT_AFTER = "after it the scores are no numbers (NaN or infinite); mend it, or raise a tiny temperature or penalty"
RAN_OUT = "one raised StopIteration; give one that gives scores, whatever it sees"

Draw = Callable[[torch.Tensor, int, int], int]
"""(scores [vocabulary] of one row, seed, position) -> the token that keyed noise draws, or NO_NUMBER."""


def no_numbers(logits: torch.Tensor, model: str, processors: str) -> SpectraError:
    """What to say of rows of logits [..., vocabulary] without a pick, where the text would be nonsense from there on:
    it names the field `model` unless they are numbers, and processors made what they are now."""
    good = bool(logits.amax(-1).isfinite().all())
    return SpectraError(processors, NOT_AFTER) if good else SpectraError(model, NO_NUMBERS)


def processors_of(sampling: Sampling) -> LogitsProcessorList:
    """transformers' own processors for these settings, in its order."""
    chain = LogitsProcessorList()
    if sampling.repetition_penalty != 1:
        chain.append(RepetitionPenaltyLogitsProcessor(sampling.repetition_penalty))
    if sampling.greedy:
        return chain
    if sampling.temperature != 1:
        chain.append(TemperatureLogitsWarper(sampling.temperature))
    if sampling.top_k:
        chain.append(TopKLogitsWarper(sampling.top_k))
    if sampling.top_p < 1:
        chain.append(TopPLogitsWarper(sampling.top_p))
    if sampling.min_p:
        chain.append(MinPLogitsWarper(sampling.min_p))
    return chain


def probabilities_of(
    processors: LogitsProcessorList,
    logits: torch.Tensor,
    before: Sequence[Sequence[int]],
    fields: tuple[str, str],
) -> list[NDArray[np.float64]]:
    """The distribution [vocabulary] of each row of logits [rows, vocabulary] after the processors.

    before: the tokens that led to each row, equally many (empty ones will do for processors that are `BLIND`). Raises
    SpectraError where they are no numbers, for one of `fields`: the model, or its processors.
    """
    found = torch.softmax(_processed(processors, logits, before).double(), -1).cpu().numpy()
    if np.isnan(found[:, 0]).any():  # one NaN makes a whole row of them
        raise no_numbers(logits, *fields)
    return list(found)


def _processed(processors: LogitsProcessorList, logits: torch.Tensor, before: Sequence[Sequence[int]]) -> torch.Tensor:
    """logits [rows, vocabulary] after the processors, fp32. Processors get a copy, into which they may write.

    Raises SpectraError for scores of another shape, as of a processor that holds numbers for each row of a batch, and
    where one gives none or raises StopIteration.
    """
    scores = logits.to(torch.float32, copy=bool(processors))
    if processors:
        try:
            scores = processors(torch.tensor(before, dtype=torch.long, device=logits.device), scores)
        except StopIteration as error:  # in a generator it would not tell where it comes from
            raise SpectraError("logits_processor", RAN_OUT) from error
        shape = scores.shape if isinstance(scores, torch.Tensor) else None
        if shape != logits.shape:
            what = f"a {type(scores).__name__}" if shape is None else f"scores {list(shape)}"
            raise SpectraError(
                "logits_processor",
                f"one gives {what} for {list(logits.shape)}; give one that goes by the sequence that it sees",
            )
    return scores.detach()


@dataclass(frozen=True, slots=True)
class Scores:
    """What a pass found. whole: logits [its rows, vocabulary]. best: `likeliest` of these; None where it did not look.

    rows: those meant, of the pass; None for all. `best` is of these alone. Logits are cut out where they are read.
    """

    whole: torch.Tensor
    best: Sequence[int] | None = None
    rows: slice | None = None

    @property
    def logits(self) -> torch.Tensor:
        """[rows, vocabulary]."""
        return self.whole if self.rows is None else self.whole[self.rows]

    def row(self, row: int) -> torch.Tensor:
        """[vocabulary] of one of the rows."""
        return self.whole[row if self.rows is None else self.rows.start + row]

    def greedy(self) -> Sequence[int]:
        """The greedy picks."""
        return likeliest(self.logits) if self.best is None else self.best


def likeliest(logits: torch.Tensor) -> list[int]:
    """Greedy picks, on the host: of logits [rows, vocabulary] each row's lowest id of the highest, or NO_NUMBER."""
    return _best(logits) if _is_numpy(logits) else _highest(logits).tolist()


def _is_numpy(logits: torch.Tensor) -> bool:
    return logits.is_cpu and logits.dtype == torch.float32


def _listed(parts: Sequence[torch.Tensor]) -> list[int]:
    """All of them on the host, in one copy."""
    found: list[int] = torch.cat(list(parts)).tolist() if parts else []
    return found


def _highest(logits: torch.Tensor, *, drawn: bool = False) -> torch.Tensor:
    """The same, [rows] where the logits lie; nothing is waited for. drawn: see `_best`."""
    highest = logits.max(-1)  # on a CPU in 16 bits argmax takes four times as long
    good = highest.values.isfinite() if drawn else ~highest.values.isnan()
    return torch.where(good, highest.indices, NO_NUMBER)


def _best(logits: torch.Tensor, *, drawn: bool = False) -> list[int]:
    """The lowest id of the highest logit of each row, or NO_NUMBER; in numpy a tenth of the time of torch.

    drawn: with noise on them, which follow no chance where the highest is infinite."""
    rows = logits.numpy()
    best: list[int] = rows.argmax(-1).tolist()  # a NaN counts as the highest
    highest = [rows.item(row, token) for row, token in enumerate(best)]
    good = [math.isfinite(one) if drawn else one == one for one in highest]
    return [token if fine else NO_NUMBER for token, fine in zip(best, good, strict=True)]


class Chooser:
    """Turns the logits of one forward pass into picks, for one answer.

    processors: any transformers processors; with one that reads the tokens, picks are made node by node as the walk
    reaches them, each with exactly the tokens plain decoding would have had. top: how many likely tokens of each row
    are read as well. noise: of this answer; None is one that only the picks see. around: entered for every pick that is
    made after `choose`. draw: makes them, where torch does not.
    """

    def __init__(
        self,
        sampling: Sampling,
        processors: Sequence[Any] | None = None,
        *,
        top: int = 0,
        noise: Noise | None = None,
        around: Callable[[], AbstractContextManager[None]] = nullcontext,
        draw: Draw | None = None,
    ) -> None:
        self.sampling = sampling
        self._draw = draw
        self.around = around
        self.top = top
        self.noise = noise or Noise(sampling.seed, 0, torch.device("cpu"))
        self.processors = LogitsProcessorList(processors_of(sampling) if processors is None else processors)
        self.blind = all(isinstance(p, BLIND) for p in self.processors)
        self._known = all(type(p) in BLIND for p in self.processors)
        self._no_tokens = torch.empty(1, 0, dtype=torch.long)
        self._fields = "model", "temperature" if processors is None else "logits_processor"

    def choose(self, scores: Scores, row_of: dict[int, int], tree: TokenTree, tokens: Sequence[int]) -> Picks:
        """row_of: node -> row; tokens: everything committed, the root last."""

        def before(node: int) -> list[int]:
            return [] if self.blind else [*tokens, *tree.path_tokens(node)]

        def probabilities(node: int) -> NDArray[np.float64]:
            with self.around():
                return self._probabilities(scores.row(row_of[node]), before(node))

        def fault(node: int) -> SpectraError:
            return no_numbers(scores.row(row_of[node]), *self._fields)

        extras: list[torch.Tensor] = []
        if tree.reads:
            extras.append(self._reads(scores.logits, [(row_of[node], avoid) for node, avoid in tree.reads.values()]))
        if self.top:
            extras.append(self._top(scores.logits))
        if self.sampling.greedy and not self.processors:
            if scores.best is not None or _is_numpy(scores.whole):
                picked = [*scores.greedy(), *_listed(extras)]
            else:  # in one copy
                picked = _listed([_highest(scores.logits), *extras])
            picks = {node: picked[row] for node, row in row_of.items()}
            return _made(picks, fault, probabilities, *self._unpack(picked[len(row_of) :], row_of, tree))
        self.noise.forget(len(tokens))
        walked_by_picks = self.blind and not tree.draws
        # on the CPU a copy is free, unread rows are not worth it
        if walked_by_picks and scores.whole.device.type != "cpu":
            nodes = [node for node in row_of if tree.eligible[node]]
            places = [len(tokens) + tree.depths[node] for node in nodes]
            both = _listed([self._drawn(scores.logits, [row_of[node] for node in nodes], places), *extras])
            picks = dict(zip(nodes, both, strict=False))
            return _made(picks, fault, probabilities, *self._unpack(both[len(nodes) :], row_of, tree))
        walked: dict[int, int] = {}

        def lazily(node: int) -> int:
            with self.around():
                walked[node] = self._pick(scores.row(row_of[node]), before(node), len(tokens) + tree.depths[node])
            return walked[node]

        return Picks(lazily, probabilities, walked, *self._unpack(_listed(extras), row_of, tree))

    def _drawn(self, logits: torch.Tensor, rows: list[int], positions: list[int]) -> torch.Tensor:
        """The picks [len(rows)] of some rows for these positions, where the logits lie; nothing is waited for.

        Side by side where no operation sums anything, so that a pass of many rows has not many times
        the operations of one; else row by row.
        """
        drawn = not self.sampling.greedy
        if not all(type(processor) in SEPARATE for processor in self.processors):
            ranked = [self._ranked(self._scores(logits[row], []), at) for row, at in zip(rows, positions, strict=True)]
            return torch.cat([_highest(row[None], drawn=drawn) for row in ranked])
        scores = logits.index_select(0, sent(rows, logits.device)).float()
        for processor in self.processors:
            scores = processor(self._no_tokens, scores)
        if drawn:
            scores = scores - self.noise.rows(positions, scores.shape[-1], scores.device).log()
        return _highest(scores, drawn=drawn)

    def _scores(self, row: torch.Tensor, tokens: list[int]) -> torch.Tensor:
        """row [vocabulary] after the processors, fp32."""
        if not self._known:
            return _processed(self.processors, row[None], [tokens])[0]
        scores = row[None].float()
        for processor in self.processors:  # their list reads their signatures first, which takes longer than they do
            scores = processor(self._no_tokens, scores)
        return scores[0]

    def _ranked(self, scores: torch.Tensor, position: int) -> torch.Tensor:
        """Of which the highest is picked: the scores, or p / e in logs."""
        return scores if self.sampling.greedy else scores - self.noise.row(position, len(scores), scores.device).log()

    def _pick(self, row: torch.Tensor, tokens: list[int], position: int) -> int:
        """row [vocabulary] -> the pick. position: absolute, of the token being picked. Raises SpectraError."""
        scores, drawn = self._scores(row, tokens), not self.sampling.greedy
        if drawn and self._draw is not None:
            pick = self._draw(scores, self.noise.seed, position)
            if pick != NO_NUMBER and not math.isfinite(scores[pick].item()):
                pick = NO_NUMBER
        elif scores.device.type == "cpu":
            pick = _best(self._ranked(scores, position)[None], drawn=drawn)[0]
        else:
            pick = int(_highest(self._ranked(scores, position)[None], drawn=drawn))
        if pick == NO_NUMBER:
            raise no_numbers(row, *self._fields)
        return pick

    def _probabilities(self, row: torch.Tensor, tokens: list[int]) -> NDArray[np.float64]:
        """row [vocabulary] -> what `_pick` draws from; all of it on one token at temperature 0."""
        if self.sampling.greedy:
            return np.asarray(np.eye(1, len(row), self._pick(row, tokens, 0))[0])
        return probabilities_of(self.processors, row[None], [tokens], self._fields)[0]

    def _reads(self, logits: torch.Tensor, asked: list[tuple[int, Collection[int]]]) -> torch.Tensor:
        """The most likely token of each asked row outside the set it must avoid, [len(asked)]."""
        scores = logits[[row for row, _ in asked]]
        for avoid in {id(avoid): avoid for _, avoid in asked if avoid}.values():
            rows = [i for i, (_, other) in enumerate(asked) if other is avoid]
            banned = torch.tensor(list(avoid), device=logits.device)
            scores[torch.tensor(rows, device=logits.device)[:, None], banned] = float("-inf")
        return scores.max(-1).indices

    def _top(self, logits: torch.Tensor) -> torch.Tensor:
        """The `top` most likely tokens of each row, or all there are, best first, of equals the lowest id; flat."""
        scores, ids = logits.topk(min(self.top, logits.shape[-1]))
        ids, order = ids.sort(-1)
        ranked = scores.gather(-1, order).sort(dim=-1, descending=True, stable=True).indices
        return ids.gather(-1, ranked).flatten()

    def _unpack(
        self, extras: list[int], row_of: dict[int, int], tree: TokenTree
    ) -> tuple[dict[int, int], dict[int, list[int]]]:
        """(answers by ticket, likely tokens by node) out of what came back beside the picks."""
        if not extras:
            return {}, {}
        asked = len(tree.reads)
        k = (len(extras) - asked) // len(row_of)
        reads = dict(zip(tree.reads, extras[:asked], strict=True))
        return reads, {n: extras[asked + r * k : asked + (r + 1) * k] for n, r in row_of.items()} if k else {}


class Picks:
    """The outcome of one pass (`Scored`).

    known: picks that have been made, by node; all of them after a greedy pass. top: likely tokens of each scored node,
    best first; empty unless the chooser reads them.
    """

    def __init__(
        self,
        pick: Callable[[int], int],
        probabilities: Callable[[int], NDArray[np.float64]],
        known: dict[int, int],
        reads: dict[int, int],
        top: Mapping[int, Sequence[int]],
    ) -> None:
        self.pick = pick
        self.probabilities = probabilities
        self.known = known
        self.top: Mapping[int, Sequence[int]] = top
        self._reads = reads

    def read(self, ticket: int) -> int | None:
        return self._reads.get(ticket)


def _made(
    picks: dict[int, int],
    fault: Callable[[int], SpectraError],
    probabilities: Callable[[int], NDArray[np.float64]],
    reads: dict[int, int],
    top: Mapping[int, Sequence[int]],
) -> Picks:
    """Of picks that are all made. One of no number is an error where the walk reaches it: the pass is not of one
    sequence alone, and the walk is."""

    def reached(node: int) -> int:
        if node not in known:
            raise fault(node)
        return known[node]

    known = picks if NO_NUMBER not in picks.values() else {n: pick for n, pick in picks.items() if pick != NO_NUMBER}
    return Picks(picks.__getitem__ if known is picks else reached, probabilities, known, reads, top)
