"""Noise that is keyed: a number for every seed, position and token, the same whoever asks, as often as they ask.

The draw at absolute position i is argmax(p / e) with e ~ Exp(1), one value a vocabulary entry (the exponential form of
Gumbel's trick). A token's value is a hash of seed, position and token id, so it needs no generator that counts along.
"""

import torch

WORD, HALF = 2**64 - 1, 2**31


def keyed_noise(seed: int, position: int, size: int, device: torch.device) -> torch.Tensor:
    """[size] fp32 draws of Exp(1) that depend on seed, position and token alone."""
    key = _mixed64(seed * 0x9E3779B97F4A7C15 + position * 0xBF58476D1CE4E5B9 + 0x94D049BB133111EB)
    first, second = _signed(key >> 32), _signed(key & 0xFFFFFFFF)
    words = torch.arange(size, dtype=torch.int32, device=device).mul_(_signed(0x9E3779B9)).add_(first)
    words = _mixed32(_mixed32(words).add_(second))
    uniform = words.bitwise_and_(HALF - 1).float().add_(0.5).mul_(1 / HALF).clamp_(max=1 - 2**-24)
    return uniform.neg_().log1p_().neg_()


def _mixed64(word: int) -> int:
    """SplitMix64's finalizer (Steele, Lea and Flood, 2014)."""
    word &= WORD
    word = ((word ^ word >> 30) * 0xBF58476D1CE4E5B9) & WORD
    word = ((word ^ word >> 27) * 0x94D049BB133111EB) & WORD
    return word ^ word >> 31


def _mixed32(words: torch.Tensor) -> torch.Tensor:
    """MurmurHash3's finalizer (Appleby, 2011) of int32 words, in place; shifts fill up with zeros."""
    words ^= (words >> 16) & 0xFFFF
    words *= _signed(0x85EBCA6B)
    words ^= (words >> 13) & 0x7FFFF
    words *= _signed(0xC2B2AE35)
    words ^= (words >> 16) & 0xFFFF
    return words


def _signed(word: int) -> int:
    return word - 2 * HALF if word >= HALF else word


class Noise:
    """The keyed noise of one answer, made once a position: for the picks, and for drafters that want to know it.

    size, device: of the logits, as far as they are known before the first pass.
    """

    def __init__(self, seed: int, size: int, device: torch.device) -> None:
        self._seed = seed
        self._size = size
        self._device = device
        self._rows: dict[tuple[int, int, torch.device], torch.Tensor] = {}
        self._read: dict[int, memoryview] = {}

    def row(self, position: int, size: int, device: torch.device) -> torch.Tensor:
        """[size] for logits on `device`."""
        key = position, size, device
        if key not in self._rows:
            self._rows[key] = keyed_noise(self._seed, *key)
        return self._rows[key]

    def read(self, position: int) -> memoryview:
        """The same as plain floats."""
        if position not in self._read:
            self._read[position] = self.row(position, self._size, self._device).cpu().numpy().data
        return self._read[position]

    def forget(self, before: int) -> None:
        """Let go of positions below `before`."""
        self._rows = {key: row for key, row in self._rows.items() if key[0] >= before}
        self._read = {position: row for position, row in self._read.items() if position >= before}
