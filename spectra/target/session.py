"""One sequence on a Hugging Face target: prefill, score a tree, keep a branch, give the target back."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from spectra.sampling import Chooser, Picks
from spectra.target import attention
from spectra.target.cache import SlabCache
from spectra.target.lanes import BLOCK
from spectra.target.packed import swap_out
from spectra.tree import ROOT, TokenTree

if TYPE_CHECKING:
    from spectra.target.huggingface import HuggingFaceTarget

PREFILL_ROWS = 512


class HuggingFaceSession:
    """`Session` of one sequence. Holds the target until it is closed."""

    def __init__(
        self, target: HuggingFaceTarget, prompt: Sequence[int], room: int, widest: int, chooser: Chooser
    ) -> None:
        self.target = target
        self.chooser = chooser
        self._open = True
        self._stock_attention = target.config._attn_implementation
        model = target.model
        self._training = model.training
        if target.plan.exact:
            model.set_attn_implementation(attention.NAME)
        model.eval()
        self._unpacked = target.packing.swap_in(model) if target.packing else {}
        try:
            widest = target.plan.fit(widest) if target.plan.exact else widest
            layers = int(target.config.num_hidden_layers)
            exact = target.plan.exact
            self.cache = SlabCache(
                layers,
                len(prompt) + room + widest,
                one_device=not target.spread,
                block=BLOCK if exact else 1,
                store=torch.float32 if exact and target.device.type == "cpu" and target.dtype.itemsize < 4 else None,
            )
            began = time.perf_counter()
            self._prefill(prompt[:-1])
            self.prefill_seconds = time.perf_counter() - began
        except BaseException:
            self._restore()
            raise

    def _prefill(self, tokens: Sequence[int]) -> None:
        with torch.inference_mode():
            for at in range(0, len(tokens), PREFILL_ROWS):
                run = tokens[at : at + PREFILL_ROWS]
                self.target.forward(self.cache, run, [[]] * len(run), [len(run) - 1], prefill=True)
                self.cache.length += len(run)
        synchronize(self.target.device)

    def score(self, tree: TokenTree, tokens: Sequence[int]) -> Picks:
        chains = [[ROOT]]
        for parent in tree.parents[1:]:
            chains.append([*chains[parent], len(chains)])
        asked = {node for node, _ in tree.reads.values()}
        nodes = [node for node in range(len(tree)) if tree.eligible[node] or node in asked]
        with torch.inference_mode():
            logits = self.target.forward(self.cache, tree.tokens, chains, nodes)
            row_of = {node: row for row, node in enumerate(nodes)}
            return self.chooser.choose(logits, row_of, tree, tokens)

    def keep(self, path: Sequence[int]) -> None:
        with torch.inference_mode():
            self.cache.keep([ROOT, *path])

    def close(self) -> None:
        if self._open:
            self._restore()
            self.target._lock.release()

    def _restore(self) -> None:
        self._open = False
        swap_out(self.target.model, self._unpacked)
        if self.target.plan.exact:
            self.target.model.set_attn_implementation(self._stock_attention)
        self.target.model.train(self._training)


def synchronize(device: torch.device) -> None:
    """Wait for queued work, so that a clock read next to it is true."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
