"""Keyed noise: a fair draw of Exp(1) for every seed, position and token, and the same one each time."""

import pytest
import torch
from scipy import stats

from spectra.verify.noise import keyed_noise

CPU = torch.device("cpu")
PINNED = [0.8941351771, 0.0595180169, 0.4425559640, 0.6146937013]


def test_noise_is_keyed_by_seed_and_position():
    draws = {(s, p): keyed_noise(s, p, 50, CPU) for s in (0, 1, 2**63 - 1) for p in (0, 1, 2, 999)}
    for key, draw in draws.items():
        torch.rand(7)  # other randomness does not matter
        assert torch.equal(draw, keyed_noise(*key, 50, CPU))
    keys = list(draws)
    for i, a in enumerate(keys):
        for b in keys[i + 1 :]:
            assert not torch.isclose(draws[a], draws[b], rtol=1e-6, atol=0).any(), (a, b)


def test_noise_is_exponential():
    draws = torch.stack([keyed_noise(s, p, 5000, CPU) for s in range(12) for p in range(12)])
    assert (draws > 0).all() and draws.isfinite().all()
    for some in (draws, draws[:, :50], draws[:, -50:]):
        assert stats.kstest(some.flatten().numpy(), "expon").pvalue > 0.001


def test_noise_of_neighbours_is_independent():
    """Neighbours in seed, position and token: the ranks of their noise are uniform on the square."""
    draws = torch.stack([torch.stack([keyed_noise(s, p, 2000, CPU) for p in range(20)]) for s in range(20)])
    for one, other in ((draws[1:], draws[:-1]), (draws[:, 1:], draws[:, :-1]), (draws[..., 1:], draws[..., :-1])):
        cells = ((1 - torch.exp(-one)) * 16).long() * 16 + ((1 - torch.exp(-other)) * 16).long()
        counts = torch.bincount(cells.flatten().clamp(0, 255), minlength=256).numpy()
        assert stats.chisquare(counts).pvalue > 0.001


def test_noise_is_the_same_everywhere():
    """Whatever the vocabulary's size, torch's version and the machine: saved texts are drawn again from their seeds."""
    row = keyed_noise(3, 7, 100_000, CPU)
    assert torch.equal(row[:50], keyed_noise(3, 7, 50, CPU))
    assert row[[0, 1, 49_151, 99_999]].tolist() == pytest.approx(PINNED, rel=1e-6)


def test_noise_leaves_torchs_generator_alone():
    torch.manual_seed(1)
    before = torch.get_rng_state()
    keyed_noise(1, 2, 50, CPU)
    assert torch.equal(before, torch.get_rng_state())
