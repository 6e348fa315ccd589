"""One sequence on a Hugging Face target: prefill, score a tree, keep a branch, leave the cache to the next one."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING

import torch

from spectra.errors import SpectraError
from spectra.target.cache import SlabCache
from spectra.target.joint import Part
from spectra.target.parameter_state import parameter_state
from spectra.target.prefix import Prefix
from spectra.tree import ROOT, TokenTree
from spectra.verify.noise import NoiseRow
from spectra.verify.picks import Chooser, Picks, Scores

if TYPE_CHECKING:
    from spectra.target.cuda_graphs.steps import StaticSteps
    from spectra.target.group import Beginning
    from spectra.target.huggingface import HuggingFaceTarget

PREFILL_ROWS = 512
SHORT_RUN = 128
"""Rows of a run of a prompt that is read between steps of others."""


class HuggingFaceSession:
    """`Session` of one sequence of a group. Takes its cache from and to `prefix`.

    beginning: what an open sequence holds of the prompt; not together with a prefix. on_close: called once, at the end.
    reads: whether the prompt is read at once; otherwise `read_on` reads it. committed: tokens in the cache. prefilled:
    those of them that a prefill wrote, from the first token on. unread: tokens of the prompt that it has still to read.
    """

    def __init__(
        self,
        target: HuggingFaceTarget,
        prompt: Sequence[int],
        max_new_tokens: int,
        max_query_tokens: int,
        chooser: Chooser,
        *,
        prefix: Prefix | None = None,
        beginning: Beginning | None = None,
        reads: bool = True,
    ) -> None:
        self.target = target
        self.chooser = chooser
        self.prefix = prefix
        self.on_close: Callable[[], None] | None = None
        self.is_open = True
        self._max_query_tokens = max_query_tokens
        self._vocabulary = target.vocabulary
        self._lender: StaticSteps | None = None
        try:
            self._rows = target.plan.fit(max_query_tokens)
            self._began = time.perf_counter()
            self.cache = self._open_cache(prompt, len(prompt) + max_new_tokens + self._rows, beginning)
            self._whole = self.prefix is None or self.cache.length == 0
            self.committed = list(prompt[: self.cache.length])
            self.unread = list(prompt[self.cache.length : -1])
            self.prefilled = tuple(self.committed) if self._whole else ()
            self.prefill_seconds = 0.0
            while reads and not self._read(PREFILL_ROWS):
                continue
        except BaseException:
            self._give_back()
            raise

    def _open_cache(self, prompt: Sequence[int], capacity: int, beginning: Beginning | None) -> SlabCache:
        """A cache with what the prefix or the beginning holds of the prompt."""
        target, layout = self.target, self.target.layout
        length, held = 0, None
        if self.prefix is not None:
            self._owner = (target, layout, parameter_state(target.model.parameters()))
            length, held = self.prefix.take(prompt, self._owner)
        elif beginning is not None:
            length, held = beginning
        lent = target.steps.lend(target, capacity, layout) if target.steps else None
        if lent is not None:
            self._lender = target.steps
            if held is not None:
                lent.take(held, length)
            return lent
        if beginning is not None:
            return beginning.cache.continued(length, capacity)
        if held is not None:
            held = held.copy(length, capacity) if held.is_read or held.capacity < capacity else held
            held.length = length
            return held
        return target.new_cache(capacity)

    def read_on(self) -> bool:
        """Read the next run of the prompt, a short one where that changes no bit. Returns whether it was the last."""
        try:
            return self._read(SHORT_RUN if self.target.rows_alone else PREFILL_ROWS)
        except BaseException:
            self._give_back()
            raise

    def _read(self, rows: int) -> bool:
        run, self.unread = self.unread[:rows], self.unread[rows:]
        if run:
            asked = [] if self.target.rows_alone else [len(run) - 1]  # nobody reads it; not every head takes none
            self.target.forward(self.cache, run, [[]] * len(run), asked, prefill=True)
            self.cache.length += len(run)
            self.committed += run
            self.prefilled = tuple(self.committed) if self._whole else ()
        if self.unread:
            return False
        synchronize(self.target.device)
        self.prefill_seconds = time.perf_counter() - self._began
        if self._lender:
            self._lender.prepare(self.target, self._rows)
        return True

    def score(self, tree: TokenTree, tokens: Sequence[int]) -> Picks:
        part = self.part(tree)
        with self.target.one_torch_thread():
            return self.picks(part, self.target.forward_together([part])[0], tree, tokens)

    def part(self, tree: TokenTree) -> Part:
        """What is computed of a tree: all its rows, and logits of those that may be read.

        Raises SpectraError for more nodes than the sequence was started for, and for ids of no token.
        """
        if len(tree) > self._max_query_tokens:
            chosen = f"the budget chose {len(tree) - 1} nodes where the method has {self._max_query_tokens - 1}"
            raise SpectraError("max_nodes", f"{chosen}; give `Method` as many as its budget")
        if not 0 <= min(tree.tokens) <= max(tree.tokens) < self._vocabulary:
            node = next(n for n, token in enumerate(tree.tokens) if not 0 <= token < self._vocabulary)
            raise tree.no_token(node, self._vocabulary)
        self._tree = tree
        chains = [[ROOT]]
        for parent in tree.parents[1:]:
            chains.append([*chains[parent], len(chains)])
        asked = {node for node, _ in tree.reads.values()}
        nodes = [node for node in range(len(tree)) if tree.eligible[node] or node in asked]
        return Part(self.cache, tree.tokens, chains, nodes)

    def picks(self, part: Part, scores: Scores, tree: TokenTree, tokens: Sequence[int]) -> Picks:
        """scores: of the part's rows."""
        row_of = {node: row for row, node in enumerate(part.rows)}
        return self.chooser.choose(scores, row_of, tree, tokens)

    def noise(self, position: int) -> NoiseRow | None:
        return None if self.chooser.sampling.greedy else self.chooser.noise.read(position)

    def keep(self, path: Sequence[int]) -> None:
        moved = bool(path) and path[-1] > len(path)
        with self.target.one_torch_thread() if moved else nullcontext():
            self.cache.keep([ROOT, *path])
        self.committed += [self._tree.tokens[node] for node in (ROOT, *path)]

    def close(self) -> None:
        if self.is_open:
            try:
                if self.prefix is not None:
                    self._leave(self.prefix)
            finally:
                self._give_back()
                del self.cache  # its memory is free, whoever still holds the session
                self.prefix = None
                if self.on_close is not None:
                    self.on_close()

    def _leave(self, prefix: Prefix) -> None:
        """To the next session: the cache, or a copy of one that was lent, where there is memory for it."""
        length = self.cache.length
        try:
            prefix.leave(self.committed, self.cache.copy(length, length) if self._lender else self.cache, self._owner)
        except SpectraError:
            prefix.leave((), None, None)

    def _give_back(self) -> None:
        self.is_open = False
        if self._lender:
            self._lender.give_back()


def synchronize(device: torch.device) -> None:
    """Wait for queued work, so that a clock read next to it is true."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
