"""Memory for packed weights, on kernels with large pages and without."""

import mmap

import torch

from spectra.target.native.memory import LargePages


def test_a_kernel_without_large_pages_gives_small_ones(monkeypatch):
    class Refusing(mmap.mmap):
        def madvise(self, *_):
            raise OSError(22, "Invalid argument")

    monkeypatch.setattr(mmap, "mmap", Refusing)
    numbers = torch.randn(30, 7)
    assert torch.equal(LargePages().take(numbers), numbers)
