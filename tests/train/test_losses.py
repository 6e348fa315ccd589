"""Cross entropy over candidates is the one over the vocabulary: exactly with all of them, on average with some."""

import pytest
import torch

from spectra.train.losses import SoftTargets, candidate_loss, draw_candidates, full_loss


def lesson_of(count, top):
    torch.manual_seed(0)
    shares = torch.rand(count, top)
    return SoftTargets(
        torch.stack([torch.randperm(40)[:top] for _ in range(count)]),
        shares / shares.sum(1, keepdim=True),
        torch.rand(count),
    )


def test_the_full_loss_and_its_gradients_are_cross_entropy():
    lesson = lesson_of(700, 3)
    states, table = (
        torch.randn(700, 8).bfloat16().float().requires_grad_(),
        torch.randn(40, 8).bfloat16().float().requires_grad_(),
    )
    loss = full_loss(states, table, lesson)
    said = (states @ table.T).log_softmax(1).gather(1, lesson.wanted)
    expected = -((said * lesson.shares).sum(1) * lesson.weights).sum() / lesson.weights.sum()
    assert loss.item() == pytest.approx(expected.item(), rel=1e-2)
    ours = torch.autograd.grad(loss, (states, table))
    for mine, theirs in zip(ours, torch.autograd.grad(expected, (states, table)), strict=True):
        assert float((mine - theirs).norm() / theirs.norm()) < 0.02


def test_candidates_stand_for_the_whole_vocabulary():
    lesson, frequent = lesson_of(5, 2), torch.arange(4)
    states, table = torch.randn(5, 8), torch.randn(40, 8)
    whole = (states @ table.T).exp().sum(1)
    sums = torch.zeros(5)
    for seed in range(400):
        ids, weight = draw_candidates(lesson.wanted, frequent, 10, 40, seed)
        assert set(lesson.wanted.flatten().tolist()) | {0, 1, 2, 3} <= set(ids.tolist())
        sums += (states @ table[ids].T + weight).exp().sum(1) / 400
    assert torch.allclose(sums, whole, rtol=0.1)
    ids, weight = draw_candidates(lesson.wanted, torch.arange(40), 10, 40, 0)
    assert float(candidate_loss(states, table, lesson, ids, weight)) == pytest.approx(
        float(full_loss(states, table, lesson))
    )
