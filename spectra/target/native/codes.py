"""Quantised matrices as the CPU step reads them, and round-to-nearest quantisers for weights that have no codes yet."""

from dataclasses import dataclass

import torch

GROUP = 32
"""Inputs that share a scale and a minimum in 4 bits."""
LARGEST = 2000.0
"""Of a weight's fifteenth, so that a group's minimum and scale fit in fp16."""
TINY = torch.finfo(torch.float32).tiny
EXACT = 2.0**-100, 2.0**100
"""Sizes between which scales and minimums give numbers that no product takes for zero or infinity."""


@dataclass(frozen=True, slots=True)
class Codes:
    """A quantised matrix: weight[n, k] = bf16(codes[n, k] * scales[n, k // group] + minimums[n, k // group]).

    codes: [outputs, inputs], uint8 from 0 to 15 (bits 4) or int8 (bits 8). scales, minimums: float32
    [outputs, inputs // group], minimums None where they are all 0. bits: 4 or 8; GGUF's 5- and 6-bit types are held
    in 8. The products code * scale are exact in fp32 wherever there are minimums, so a fused multiply-add gives the
    same bits.
    """

    codes: torch.Tensor
    scales: torch.Tensor
    minimums: torch.Tensor | None
    bits: int

    @property
    def shape(self) -> torch.Size:
        return self.codes.shape

    @property
    def group(self) -> int:
        """How many inputs share a scale: 16, 32 or all of them."""
        return self.codes.shape[1] // self.scales.shape[1]

    @property
    def nbytes(self) -> int:
        """Bytes of a step's reading: packed codes, scales and minimums of 2 bytes, or 4 where a scale serves a row."""
        per_scale = 4 if self.scales.shape[1] == 1 else 2
        return self.codes.numel() * self.bits // 8 + per_scale * sum(one.numel() for one in self.numbers)

    def dense(self) -> torch.Tensor:
        """The matrix these codes stand for, bf16 [outputs, inputs]."""
        outputs, inputs = self.codes.shape
        weight = self.codes.view(outputs, -1, self.group).float() * self.scales[..., None]
        if self.minimums is not None:
            weight += self.minimums[..., None]
        return weight.view(outputs, inputs).bfloat16()

    @property
    def numbers(self) -> list[torch.Tensor]:
        """The scales, and the minimums where there are some."""
        return [self.scales] if self.minimums is None else [self.scales, self.minimums]

    @property
    def exact(self) -> bool:
        """Whether the weights have the same bits however code, scale and minimum are put together."""
        least, most = EXACT
        if not all(bool((one.eq(0) | one.abs().ge(least) & one.abs().le(most)).all()) for one in self.numbers):
            return False
        # with minimums a code * scale that is rounded has one rounding more than a fused multiply-add
        return self.minimums is None or not bool(
            (self.scales.contiguous().view(torch.int32) & (1 << self.bits) - 1).any()
        )

    def rows(self, order: torch.Tensor) -> "Codes":
        """The same matrix with its outputs in this order. order: int64 [outputs]."""
        minimums = None if self.minimums is None else self.minimums[order]
        return Codes(self.codes[order], self.scales[order], minimums, self.bits)


def int8(weight: torch.Tensor) -> Codes:
    """Round to nearest in 8 bits: one scale an output, codes from -127 to 127. weight: [outputs, inputs], any float.

    An output whose weights are all below 1e-28 becomes zeros.
    """
    whole = weight.detach().float()
    scales = torch.nn.functional.threshold(whole.abs().amax(dim=1, keepdim=True) / 127, EXACT[0], 0.0)
    codes = (whole / scales.clamp_min(TINY)).round_().clamp_(-127, 127)
    return Codes(codes.to(torch.int8), scales, None, 8)


def four_bits(weight: torch.Tensor) -> Codes | None:
    """Round to nearest in 4 bits: a scale and a minimum for each 32 inputs, from the group's least to its greatest.

    weight: [outputs, inputs], any float. Scales and minimums are fp16 numbers, as in GGUF's Q4_1. None where the inputs
    are no multiple of 32, or where the weights are too large or too small for that.
    """
    outputs, inputs = weight.shape
    whole = weight.detach().float()
    if inputs % GROUP or not torch.finfo(torch.float16).smallest_normal < whole.abs().max() / 15 < LARGEST:
        return None
    groups = whole.view(outputs, -1, GROUP)
    minimums = groups.amin(dim=2).half().float()
    scales = ((groups.amax(dim=2) - minimums) / 15).half().float()
    steps = (groups - minimums[..., None]) / scales.clamp_min(TINY)[..., None]
    codes = steps.round_().clamp_(0, 15).to(torch.uint8).view(outputs, inputs)
    return Codes(codes, scales, minimums, 4)
