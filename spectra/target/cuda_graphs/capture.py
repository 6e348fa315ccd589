"""CUDA graphs: what a function does on the GPU, captured once and replayed as a single launch."""

from collections.abc import Callable

import torch

Replay = Callable[[], torch.Tensor]
Capture = Callable[[Replay], Replay]
"""Takes a function of the device's memory alone and returns one that does the same; the first may be called first."""

WARM_UP = 2


def launched(function: Replay) -> Replay:
    """`Capture` where nothing is captured: the function itself, its kernels launched one by one. Called once first."""
    function()
    return function


class CudaCapture:
    """`Capture` by a CUDA graph. All graphs of one share a memory pool: a result is good until the next replay.

    Raises RuntimeError for a function that a graph cannot hold, one that waits for the GPU for example.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._pool = torch.cuda.graph_pool_handle()
        self._stream = torch.cuda.Stream(device)  # warmed up on the stream that captures: libraries set up one by one

    def __call__(self, function: Replay) -> Replay:
        with torch.cuda.device(self.device):
            here = torch.cuda.current_stream()
            self._stream.wait_stream(here)
            with torch.cuda.stream(self._stream):
                for _ in range(WARM_UP):
                    function()
            here.wait_stream(self._stream)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(
                graph, pool=self._pool, stream=self._stream, capture_error_mode="thread_local"
            ):  # other threads may use the GPU meanwhile
                result = function()

        def replay() -> torch.Tensor:
            graph.replay()
            return result

        return replay
