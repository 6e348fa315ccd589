"""Noise that is keyed: a number for every seed, position and token, the same whoever asks, as often as they ask.

The draw at absolute position i is argmax(p / e) with e ~ Exp(1), one value a vocabulary entry (the exponential form of
Gumbel's trick). A token's value is a hash of seed, position and token id, so it needs no generator that counts along.
"""

import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

WORD, MASK, HALF = 2**64 - 1, 2**32 - 1, 2**31
GOLDEN = 0x9E3779B9
LARGEST = 1 - 2**-24


def keyed_noise(seed: int, position: int, size: int, device: torch.device) -> torch.Tensor:
    """[size] fp32 draws of Exp(1) that depend on seed, position and token alone."""
    return keyed_noises(seed, [position], size, device)[0]


def keyed_noises(seed: int, positions: Sequence[int], size: int, device: torch.device) -> torch.Tensor:
    """[positions, size]: those of several positions, each number by itself."""
    keys = [[_signed(word) for word in noise_key(seed, position)] for position in positions]
    first, second = sent(keys, device).int().split(1, 1)
    words = torch.arange(size, dtype=torch.int32, device=device).mul_(_signed(GOLDEN)) + first
    words = _mixed32s(_mixed32s(words).add_(second))
    uniform = words.bitwise_and_(HALF - 1).float().add_(0.5).mul_(1 / HALF).clamp_(max=LARGEST)
    return uniform.neg_().log1p_().neg_()


def sent(numbers: Sequence[Any], device: torch.device) -> torch.Tensor:
    """As int64 on the device, which `torch.tensor(..., device=device)` would wait for until all it computes is done."""
    return torch.tensor(numbers, device="cpu").to(device, non_blocking=True)


class NoiseRow(Sequence[float]):
    """The same of one position as plain floats, each made when it is read: who guesses reads a few."""

    def __init__(self, seed: int, position: int, row: Callable[[], torch.Tensor], size: int) -> None:
        self._first, self._second = noise_key(seed, position)
        self._row = row
        self._size = size

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, token: int) -> float:  # type: ignore[override]  # no slices
        if not 0 <= token < self._size:
            raise IndexError(f"token {token} is not one of {self._size}")
        word = _mixed32(_mixed32(token * GOLDEN + self._first & MASK) + self._second & MASK)
        return -math.log1p(-min(((word & HALF - 1) + 0.5) / HALF, LARGEST))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """All of them, [vocabulary]."""
        return np.asarray(self._row().cpu().numpy(), dtype)


def noise_key(seed: int, position: int) -> tuple[int, int]:
    """Two words of 32 bits that the noise of a position is made of."""
    key = _mixed64(seed * 0x9E3779B97F4A7C15 + position * 0xBF58476D1CE4E5B9 + 0x94D049BB133111EB)
    return key >> 32, key & MASK


def _mixed64(word: int) -> int:
    """SplitMix64's finalizer (Steele, Lea and Flood, 2014)."""
    word &= WORD
    word = ((word ^ word >> 30) * 0xBF58476D1CE4E5B9) & WORD
    word = ((word ^ word >> 27) * 0x94D049BB133111EB) & WORD
    return word ^ word >> 31


def _mixed32s(words: torch.Tensor) -> torch.Tensor:
    """MurmurHash3's finalizer (Appleby, 2011) of int32 words, in place; shifts fill up with zeros."""
    words ^= (words >> 16) & 0xFFFF
    words *= _signed(0x85EBCA6B)
    words ^= (words >> 13) & 0x7FFFF
    words *= _signed(0xC2B2AE35)
    words ^= (words >> 16) & 0xFFFF
    return words


def _mixed32(word: int) -> int:
    """The same of one word of 32 bits."""
    word = (word ^ word >> 16) * 0x85EBCA6B & MASK
    word = (word ^ word >> 13) * 0xC2B2AE35 & MASK
    return word ^ word >> 16


def _signed(word: int) -> int:
    return word - 2 * HALF if word >= HALF else word


class Noise:
    """The keyed noise of one answer, made once a position: for the picks, and for drafters that want to know it.

    size, device: of the logits, as far as they are known before the first pass. around: entered where a drafter asks
    for a whole row.
    """

    def __init__(
        self,
        seed: int,
        size: int,
        device: torch.device,
        around: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self.seed = seed
        self._around = around
        self._size = size
        self._device = device
        self._rows: dict[tuple[int, int, torch.device], torch.Tensor] = {}
        self._read: dict[int, NoiseRow] = {}

    def row(self, position: int, size: int, device: torch.device) -> torch.Tensor:
        """[size] for logits on `device`."""
        key = position, size, device
        if key not in self._rows:
            self._rows[key] = keyed_noise(self.seed, *key)
        return self._rows[key]

    def rows(self, positions: Sequence[int], size: int, device: torch.device) -> torch.Tensor:
        """[len(positions), size], a row for each; positions may come several times."""
        different = sorted(set(positions))
        at = [different.index(position) for position in positions]
        return keyed_noises(self.seed, different, size, device).index_select(0, sent(at, device))

    def read(self, position: int) -> NoiseRow:
        """The same as plain floats."""
        if position not in self._read:
            self._read[position] = NoiseRow(self.seed, position, partial(self._row, position), self._size)
        return self._read[position]

    def _row(self, position: int) -> torch.Tensor:
        with self._around():
            return self.row(position, self._size, self._device)

    def forget(self, before: int) -> None:
        """Let go of positions below `before`."""
        self._rows = {key: row for key, row in self._rows.items() if key[0] >= before}
        self._read = {position: row for position, row in self._read.items() if position >= before}
