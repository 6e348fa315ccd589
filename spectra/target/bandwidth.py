"""What a plain step has to read, and how fast this device moves memory: a one-token step is as fast as it reads."""

import statistics
import time

import torch

from spectra.target.huggingface import HuggingFaceTarget
from spectra.target.joint import Part
from spectra.target.parameter_state import stored
from spectra.target.preflight import Probe, probe_tokens
from spectra.target.session import synchronize

TURNS = 101
COPIED = 1 << 28  # bytes, more than any cache holds
TRIES, COPIES = 3, 4


def weight_bytes(target: HuggingFaceTarget) -> int:
    """Bytes of weights that a one-token step reads: each once; of an embedding table only a row, if it is not the
    head's too."""
    if target.native is not None:
        return target.native.nbytes
    read = {
        id(parameter): stored_bytes(parameter)
        for module in target.model.modules()
        if not isinstance(module, torch.nn.Embedding)
        for parameter in module.parameters(recurse=False)
    }
    return sum(read.values())


def stored_bytes(tensor: torch.Tensor) -> int:
    """Of what is in memory: the count of a quantised tensor itself is that of the numbers it stands for."""
    return sum(part.nbytes for part in stored(tensor))


def token_bytes(target: HuggingFaceTarget) -> int:
    """Bytes of keys and values of one token, in all layers, as the cache stores them."""
    with Probe(target, probe_tokens(target, 2), 1) as session:
        return sum(slab.nbytes // session.cache.capacity for slab in session.cache.slabs)


def step_and_read_seconds(target: HuggingFaceTarget, context: int) -> tuple[float, float] | None:
    """Medians of a one-token step at a context of `context` tokens and of its threads reading its weights once, nothing
    computed. The two take turns, so that a disturbance of the machine hits both alike. None: the step is not native.
    """
    native = target.native
    if native is None:
        return None
    prefix = probe_tokens(target, max(2, min(context, target.context - 2)))
    steps, reads = [], []
    with Probe(target, prefix, 1) as session, torch.inference_mode(), target.one_torch_thread():
        row = Part(session.cache, prefix[-1:], [[0]], [0])
        for _ in range(TURNS):
            began = time.perf_counter()
            target.forward_together([row])[0].greedy()
            steps.append(time.perf_counter() - began)
            reads.append(native.read_seconds())
    return statistics.median(steps), statistics.median(reads)


def copy_bandwidth(device: torch.device, size: int = COPIED) -> float:
    """Bytes a second of copying `size` bytes on the device, those read and those written; the best of three."""
    source, copy = (torch.zeros(size, dtype=torch.uint8, device=device) for _ in range(2))
    best = float("inf")
    for _ in range(TRIES):
        synchronize(device)
        began = time.perf_counter()
        for _ in range(COPIES):
            copy.copy_(source)
        synchronize(device)
        best = min(best, time.perf_counter() - began)
    return 2 * size * COPIES / best
