"""Cross entropy over a large vocabulary at little cost: over candidates, with gradients made on the way forward.

A sampled softmax: candidates that were drawn at random stand for all that were not, so their weight is corrected by
how many each stands for, and the sum over the vocabulary is right on average.
"""

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

CHUNK = 512
"""Positions whose logits are held at once."""


@dataclass(frozen=True, slots=True)
class SoftTargets:
    """What n positions should say. wanted: [n, k] token ids; shares: [n, k], what each is worth, 0 for padding;
    weights: [n]."""

    wanted: Tensor
    shares: Tensor
    weights: Tensor


def draw_candidates(
    wanted: Tensor, frequent: Tensor, negatives: int, vocabulary: int, seed: int
) -> tuple[Tensor, Tensor]:
    """(sorted ids, log of how many tokens each stands for): all wanted and frequent ones and some of the rest."""
    sure = torch.zeros(vocabulary, dtype=torch.bool, device=wanted.device)
    sure[wanted.flatten()] = True
    sure[frequent] = True
    rest = (~sure).nonzero().flatten()
    draw = torch.Generator().manual_seed(seed)
    some = rest
    if len(rest):
        drawn = torch.randint(len(rest), (min(negatives, len(rest)),), generator=draw)
        some = rest[drawn.to(rest.device)]
    ids = torch.cat((sure.nonzero().flatten(), some))
    weight = torch.zeros(len(ids), device=wanted.device)
    weight[len(ids) - len(some) :] = math.log(len(rest) / max(1, len(some))) if len(some) else 0.0
    return ids, weight


class CrossEntropy(torch.autograd.Function):
    """The weighted mean of -sum(share * log softmax) over positions, a chunk of logits at a time, in bf16 products."""

    @staticmethod
    def forward(ctx: Any, states: Tensor, embeddings: Tensor, weight: Tensor, targets: SoftTargets) -> Tensor:
        """states: [n, hidden]; embeddings: [c, hidden]; weight: [c] is added to the logits; wanted index into c."""
        low = embeddings.to(torch.bfloat16)
        state_gradient = torch.empty_like(states, dtype=torch.float32)
        gradient = torch.zeros_like(embeddings, dtype=torch.float32) if embeddings.requires_grad else None
        total = 0.0
        scale = targets.weights / targets.weights.sum()
        for begin in range(0, len(states), CHUNK):
            part = slice(begin, begin + CHUNK)
            few = states[part].to(torch.bfloat16)
            logits = (few @ low.T).float().add_(weight)
            worth = targets.shares[part]
            said = logits.gather(1, targets.wanted[part])
            norm = logits.logsumexp(1, keepdim=True)
            total += float((scale[part, None] * worth * (norm - said)).sum())
            logits.sub_(norm).exp_().mul_(worth.sum(1, keepdim=True))
            logits.scatter_add_(1, targets.wanted[part], -worth).mul_(scale[part, None])
            wrong = logits.to(torch.bfloat16)
            state_gradient[part] = (wrong @ low).float()
            if gradient is not None:
                gradient += (wrong.T @ few).float()
        ctx.save_for_backward(state_gradient)
        ctx.gradient = gradient
        return states.new_tensor(total, dtype=torch.float32)

    @staticmethod
    def backward(ctx: Any, *outputs: Tensor) -> tuple[Tensor | None, ...]:
        (state_gradient,) = ctx.saved_tensors
        return state_gradient * outputs[0], None if ctx.gradient is None else ctx.gradient * outputs[0], None, None


def candidate_loss(states: Tensor, table: Tensor, targets: SoftTargets, ids: Tensor, weight: Tensor) -> Tensor:
    """Over the candidates `ids` of the embedding table."""
    place = torch.zeros(len(table), dtype=torch.long, device=table.device)
    place[ids] = torch.arange(len(ids), device=ids.device)
    loss: Tensor = CrossEntropy.apply(
        states, table.index_select(0, ids), weight, SoftTargets(place[targets.wanted], targets.shares, targets.weights)
    )
    return loss


def full_loss(states: Tensor, table: Tensor, targets: SoftTargets) -> Tensor:
    """Over the whole vocabulary."""
    loss: Tensor = CrossEntropy.apply(states, table, table.new_zeros(len(table)), targets)
    return loss
