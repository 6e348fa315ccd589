"""Memory in large pages for packed weights: a step reads all of them, and looking up small pages takes time."""

import mmap
import threading
from contextlib import suppress

import torch

CHUNK = 64 << 20  # bytes
LARGE = 2 << 20  # bytes of a large page
LINE = 64


class LargePages:
    """Takes copies of tensors, one after the other. A chunk is given back when the last tensor in it is gone."""

    def __init__(self) -> None:
        self._free = torch.empty(0, dtype=torch.uint8)
        self._lock = threading.Lock()

    def take(self, data: torch.Tensor) -> torch.Tensor:
        """The same numbers, contiguous, at an address that is a multiple of 64. What lies behind can be read too."""
        bytes_ = data.contiguous().view(-1).view(torch.uint8)
        need = -(-len(bytes_) // LINE) * LINE
        with self._lock:
            if len(self._free) < need:
                size = max(CHUNK, need)
                # private: what a forked child takes from the rest stays its own, and shared memory has no large pages
                whole = mmap.mmap(-1, size + LARGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
                if hasattr(mmap, "MADV_HUGEPAGE"):
                    with suppress(OSError):  # a kernel that was built without them refuses
                        whole.madvise(mmap.MADV_HUGEPAGE)
                chunk = torch.frombuffer(whole, dtype=torch.uint8)
                first = -chunk.data_ptr() % LARGE
                self._free = chunk[first : first + size]
            place, self._free = self._free[: len(bytes_)], self._free[need:]
        place.copy_(bytes_)
        return place.view(data.dtype).view(data.shape)
