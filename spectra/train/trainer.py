"""The training loop: batches in, one step at a time, resumable. The same settings give the same weights after any stop.

Matrices of the layers learn by Muon (Jordan et al. 2024), embeddings and norms by AdamW.

Boost-tuning, which teaches a second draft model what a first one misses, differs from SpecInfer's (section 3): there a
prompt that the first model answers as the target does is left out of the second one's training. Here every prompt
stays, and each position of an answer that the first model gets right weighs `solved` times one that it misses.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from spectra.errors import SpectraError
from spectra.io.progress import bar
from spectra.target.parameter_state import odd_numbers
from spectra.train.conversations import Batches, Conversations
from spectra.train.losses import SoftTargets, candidate_loss, draw_candidates, full_loss
from spectra.train.scoring import answer_states, quick_look
from spectra.train.settings import MAY_CHANGE, TrainSettings
from spectra.train.teacher import Teacher
from spectra.train.workdir import load_state, save_state

PAUSE = 60.0
"""Seconds between two checkpoints."""
LOOKS = 12
"""How often held-back text is looked at during a run."""


class Batch(NamedTuple):
    """Conversations of a step. teacher: what the target answered to them, None where it was not asked."""

    texts: Conversations
    rows: NDArray[np.int64]
    teacher: Teacher | None


@dataclass
class Trainer:
    """model: in fp32, changed in place. data: the target's own text; general: other text, if any. first: a trained
    draft model; positions that it gets right count `solved`. ask: gives the target's probabilities; called when the
    last steps begin, which learn from them. state: the file that a stopped run goes on from."""

    model: Any
    settings: TrainSettings
    data: Conversations
    general: Conversations | None
    ask: Callable[[], Teacher]
    first: Any | None
    state: Path
    facts: dict[str, Any] = field(
        default_factory=lambda: {"step": 0, "own": 0, "general": 0, "taught": 0, "tokens": 0, "looks": []}
    )

    def __post_init__(self) -> None:
        self._own = self._batches(self.data)
        if self.general is not None:
            self._other = self._batches(self.general)
        counts = np.bincount(self.data.tokens, minlength=self.table.shape[0])
        self._frequent = torch.from_numpy(np.argsort(-counts, kind="stable")[: self.settings.frequent].copy())
        layers = [one for one in self.model.model.layers.parameters() if one.ndim == 2]
        others = [one for name, one in self.model.named_parameters() if all(one is not layer for layer in layers)]
        self._optimizers: dict[str, torch.optim.Optimizer] = {
            "matrices": torch.optim.Muon(layers, weight_decay=0.01, adjust_lr_fn="match_rms_adamw"),
            "vectors": torch.optim.AdamW(others, betas=(0.9, 0.99), weight_decay=0.0),
        }
        self._rates = {"matrices": self.settings.matrix_rate, "vectors": self.settings.vector_rate}

    def _batches(self, texts: Conversations) -> Batches:
        """Of what is not held back."""
        settings = self.settings
        rows = texts.rows(settings.length, held=False)
        return Batches(texts, rows, settings.batch, settings.length, settings.seed)

    @cached_property
    def teacher(self) -> Teacher:
        return self.ask()

    @cached_property
    def _taught(self) -> Batches:
        """Answers at which the target was asked."""
        rows = np.flatnonzero(self.teacher.begins >= 0)
        return Batches(self.data, rows, self.settings.batch, self.settings.length, self.settings.seed)

    @property
    def table(self) -> Tensor:
        """[vocabulary, hidden]: the tied embeddings."""
        weights: Tensor = self.model.get_input_embeddings().weight
        return weights

    def run(self) -> None:
        """Train to the last step, from the checkpoint if there is one.

        Raises SpectraError where the weights are no numbers any more; those of the checkpoint are.
        """
        if self.state.exists():
            self.facts = load_state(self.state, self.model, self._optimizers)
        plan = {key: value for key, value in self.settings.to_dict().items() if key in MAY_CHANGE}
        plans = self.facts.setdefault("plans", [])
        if not plans or plans[-1]["plan"] != plan:
            plans.append({"from_step": self.facts["step"], "plan": plan})
        steps = self.settings.steps
        saved = time.monotonic()
        with bar("training", steps, " steps") as shown:
            shown.skip(self.facts["step"])
            while self.facts["step"] < steps:
                loss = self.step(self.facts["step"])
                if not math.isfinite(loss):
                    raise self._diverged()
                self.facts["step"] += 1
                shown.set_postfix(loss=f"{loss:.3f}", refresh=False)
                shown.update(1)
                if self.facts["step"] % max(1, steps // LOOKS) == 0:
                    shown.note(f"step {self.facts['step']}: {self._look()}")
                if time.monotonic() - saved > PAUSE or self.facts["step"] == steps:
                    if odd_numbers(self.model):
                        raise self._diverged()
                    save_state(self.state, self.model, self._optimizers, self.facts)
                    saved = time.monotonic()

    def _diverged(self) -> SpectraError:
        return SpectraError(
            "matrix-rate",
            f"at step {self.facts['step']} the draft model holds no numbers (NaN); give smaller rates, and the run "
            "goes on from its last checkpoint",
        )

    def step(self, number: int) -> float:
        """One update; returns the loss of the batch before it."""
        finishing = number >= self.settings.finish_at
        if finishing and self.table.requires_grad:
            self.rest()
        texts, rows, teacher = self._next(number)
        for name, optimizer in self._optimizers.items():
            for group in optimizer.param_groups:
                group["lr"] = self._rates[name] * self.settings.rate(number)
            optimizer.zero_grad(set_to_none=True)
        self.model.train()
        with torch.autocast(self.model.device.type, torch.bfloat16):
            states, following = answer_states(self.model, texts, rows, self.settings.length)
        targets = self._targets(texts, rows, following, teacher)
        if finishing:
            loss = full_loss(states, self.table, targets)
        else:
            ids, weight = draw_candidates(
                targets.wanted, self._frequent, self.settings.negatives, len(self.table), self.settings.seed + number
            )
            loss = candidate_loss(states, self.table, targets, ids, weight)
        loss.backward()  # type: ignore[no-untyped-call]
        for optimizer in self._optimizers.values():
            optimizer.step()
        self.facts["tokens"] += len(following)
        return float(loss.detach())

    def rest(self) -> None:
        """Round the embeddings to the 8 bits they are stored in; from now on the layers learn to live with it."""
        table = self.table
        table.data.copy_(table.data.to(torch.float8_e4m3fn).to(table.dtype))
        table.requires_grad_(False)
        table.grad = None

    def _next(self, number: int) -> Batch:
        """Last come the answers at which the target was asked, if it was: they teach how sure to be."""
        if self.settings.teacher_tokens and number >= self.settings.finish_at:
            self.facts["taught"] += 1
            return Batch(self.data, self._taught[self.facts["taught"] - 1], self.teacher)
        draw = np.random.default_rng([self.settings.seed, number]).random()
        if self.general is not None and draw < self.settings.generality(number):
            self.facts["general"] += 1
            return Batch(self.general, self._other[self.facts["general"] - 1], None)
        self.facts["own"] += 1
        return Batch(self.data, self._own[self.facts["own"] - 1], None)

    def _targets(
        self, texts: Conversations, rows: NDArray[np.int64], following: Tensor, teacher: Teacher | None
    ) -> SoftTargets:
        """The tokens that follow, or, where the target was asked, its likely ones in their shares."""
        top = self.settings.top
        wanted = following[:, None].repeat(1, top)
        shares = torch.zeros(wanted.shape, device=wanted.device)
        shares[:, 0] = 1
        begin = 0
        for row in rows if teacher is not None else ():
            assert teacher is not None
            count = min(int(texts.lengths[row]), self.settings.length) - int(texts.answers[row])
            ids, worth = teacher.of(int(row), count)
            wanted[begin : begin + count] = ids.to(wanted)
            shares[begin : begin + count] = worth.to(shares) / worth.to(shares).sum(1, keepdim=True)
            begin += count
        weights = torch.ones(len(following), device=wanted.device)
        if self.first is not None:
            weights = torch.where(self._first_says(texts, rows, wanted) == wanted[:, 0], self.settings.solved, weights)
        return SoftTargets(wanted, shares, weights)

    @torch.no_grad()
    def _first_says(self, texts: Conversations, rows: NDArray[np.int64], wanted: Tensor) -> Tensor:
        """The first draft model's likeliest tokens [n] among those that are frequent or wanted in the batch."""
        assert self.first is not None
        with torch.autocast(self.model.device.type, torch.bfloat16):
            states, _ = answer_states(self.first, texts, rows, self.settings.length)
        ids = torch.cat((self._frequent.to(wanted.device), wanted.flatten())).unique()
        table = self.first.get_input_embeddings().weight[ids].to(torch.bfloat16)
        best = torch.cat([(few @ table.T).argmax(1) for few in states.to(torch.bfloat16).split(512)])
        likeliest: Tensor = ids[best]
        return likeliest

    def _look(self) -> dict[str, float]:
        """Look at held-back text; what was seen is noted too."""
        rows = self.data.rows(self.settings.length, held=True)
        seen = quick_look(self.model, self.data, rows, self.settings)
        self.facts["looks"].append({"step": self.facts["step"], **seen})
        return seen
