"""Quantised matrices: what they stand for, and how near round-to-nearest comes."""

import pytest
import torch

from spectra.target.native.codes import Codes, four_bits, int8


def weight_of(outputs, inputs, spread=0.1):
    return torch.randn(outputs, inputs, generator=torch.Generator().manual_seed(outputs + inputs)) * spread


def test_dense_is_code_times_scale_plus_minimum():
    codes = torch.tensor([[0, 1, 2, 15]], dtype=torch.uint8)
    one = Codes(codes, torch.tensor([[0.5, 2.0]]), torch.tensor([[1.0, -1.0]]), 4)
    assert one.group == 2
    assert one.dense().dtype == torch.bfloat16
    assert one.dense().tolist() == [[1.0, 1.5, 3.0, 29.0]]
    assert one.rows(torch.tensor([0, 0])).shape == (2, 4)


@pytest.mark.parametrize(("outputs", "inputs"), [(1, 1), (7, 33), (16, 64)])
def test_int8_is_off_by_half_a_step_at_most(outputs, inputs):
    weight = weight_of(outputs, inputs)
    codes = int8(weight)
    assert codes.codes.dtype == torch.int8
    assert codes.group == inputs
    assert codes.minimums is None
    off = (codes.codes * codes.scales - weight).abs()
    assert bool((off <= codes.scales * 0.501).all())
    assert torch.equal(codes.dense(), (codes.codes * codes.scales).bfloat16())


def test_four_bits_is_off_by_half_a_step_at_most():
    weight = weight_of(16, 96)
    codes = four_bits(weight)
    assert codes is not None
    assert codes.codes.dtype == torch.uint8
    assert int(codes.codes.max()) == 15
    assert codes.group == 32
    off = (codes.dense().float() - weight).abs().view(16, 3, 32)
    assert bool((off <= codes.scales[..., None] * 0.55 + weight.abs().view(16, 3, 32) / 256).all())
    assert torch.equal(codes.scales, codes.scales.half().float())
    assert codes.nbytes == 16 * 96 // 2 + 16 * 3 * 4


@pytest.mark.parametrize("spread", [1e-8, 1e8])
def test_four_bits_leaves_what_it_cannot_hold(spread):
    assert four_bits(weight_of(4, 48)) is None
    assert four_bits(weight_of(4, 64, spread)) is None
    assert four_bits(torch.zeros(4, 64)) is None


def test_rows_of_zeros_stay_zeros():
    weight = weight_of(4, 64)
    weight[1] = 0
    assert not int8(weight).dense()[1].any()
    four = four_bits(weight)
    assert four is not None
    assert not four.dense()[1].any()
