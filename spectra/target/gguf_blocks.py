"""GGUF's block types as `Codes`. The layouts are those of ggml-quants.c (llama.cpp) and the `gguf` package."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch

from spectra.target.native.codes import Codes


class Parts(NamedTuple):
    """Of blocks: codes [blocks, weights], scales [blocks, groups], minimums like scales or None."""

    codes: torch.Tensor
    scales: torch.Tensor
    minimums: torch.Tensor | None = None


@dataclass(frozen=True, slots=True)
class BlockType:
    """weights, nbytes: of a block. bits: see `Codes`. split: blocks uint8 [blocks, nbytes] -> their parts."""

    weights: int
    nbytes: int
    bits: int
    split: Callable[[torch.Tensor], Parts]


def read_codes(data: torch.Tensor, kind: BlockType) -> Codes:
    """data: uint8 [outputs, bytes of a row], as it is in the file."""
    outputs = data.shape[0]
    codes, scales, minimums = kind.split(data.reshape(-1, kind.nbytes))
    return Codes(
        codes.reshape(outputs, -1),
        scales.reshape(outputs, -1),
        None if minimums is None else minimums.reshape(outputs, -1),
        kind.bits,
    )


def _half(blocks: torch.Tensor, start: int) -> torch.Tensor:
    """The fp16 number at this byte of each block, fp32 [blocks, 1]."""
    return blocks[:, start : start + 2].contiguous().view(torch.float16).float()


def _nibbles(quants: torch.Tensor) -> torch.Tensor:
    """[..., n] bytes -> [..., 2 n]: all low halves, then all high ones."""
    return torch.cat([quants & 15, quants >> 4], dim=-1)


def _q4_0(blocks: torch.Tensor) -> Parts:
    scale = _half(blocks, 0)
    return Parts(_nibbles(blocks[:, 2:]), scale, -8 * scale)


def _q4_1(blocks: torch.Tensor) -> Parts:
    return Parts(_nibbles(blocks[:, 4:]), _half(blocks, 0), _half(blocks, 2))


def _q5_0(blocks: torch.Tensor) -> Parts:
    fifth = (blocks[:, 2:6, None] >> torch.arange(8, dtype=torch.uint8)) & 1
    codes = _nibbles(blocks[:, 6:]) | fifth.reshape(-1, 32) << 4
    return Parts(codes.to(torch.int8) - 16, _half(blocks, 0))


def _q8_0(blocks: torch.Tensor) -> Parts:
    return Parts(blocks[:, 2:].contiguous().view(torch.int8), _half(blocks, 0))


def _q4_k(blocks: torch.Tensor) -> Parts:
    """Eight groups of 32; their scales and minimums in 6 bits, 12 bytes for both, times one fp16 number each."""
    first, second, third = blocks[:, 4:8], blocks[:, 8:12], blocks[:, 12:16]
    scales = torch.cat([first & 63, (third & 15) | (first >> 6 << 4)], dim=1).float()
    minimums = torch.cat([second & 63, (third >> 4) | (second >> 6 << 4)], dim=1).float()
    codes = _nibbles(blocks[:, 16:].reshape(-1, 4, 32))
    return Parts(codes, _half(blocks, 0) * scales, -(_half(blocks, 2) * minimums))


def _q6_k(blocks: torch.Tensor) -> Parts:
    """Sixteen groups of 16; 4 low bits and 2 high bits apart, scales of 8 bits times one fp16 number."""
    low = _nibbles(blocks[:, :128].reshape(-1, 2, 64)).reshape(-1, 8, 32)
    pairs = torch.arange(0, 8, 2, dtype=torch.uint8)[:, None]
    high = ((blocks[:, 128:192].reshape(-1, 2, 1, 32) >> pairs) & 3).reshape(-1, 8, 32)
    codes = (low | high << 4).to(torch.int8) - 32
    return Parts(codes, _half(blocks, 208) * blocks[:, 192:208].contiguous().view(torch.int8).float())


BLOCK_TYPES = {
    "Q4_0": BlockType(32, 18, 4, _q4_0),
    "Q4_1": BlockType(32, 20, 4, _q4_1),
    "Q5_0": BlockType(32, 22, 8, _q5_0),
    "Q8_0": BlockType(32, 34, 8, _q8_0),
    "Q4_K": BlockType(256, 144, 4, _q4_k),
    "Q6_K": BlockType(256, 210, 8, _q6_k),
}
PLAIN_TYPES = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
"""Types that hold numbers as they are."""
