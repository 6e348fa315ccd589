"""How much of a model's quantised weights is held unpacked.

A step of few rows waits for arithmetic where few cores unpack codes, and for memory where many do. On few cores a step
is shorter when some blocks of a matrix are held in bf16 beside the codes of the others: they only have to be read,
which goes on while codes are unpacked. The weights are the same numbers in both forms: the choice changes no bit.
"""

import hashlib
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from time import thread_time

import torch

from spectra.errors import SpectraError
from spectra.io.cache_home import cache_home
from spectra.io.files import write_text
from spectra.target.native.codes import Codes, Form, forms
from spectra.target.native.library import Library
from spectra.target.native.matrix import INPUTS, Matrix

PATHS = ("avx512_bf16", "avx512_fma", "avx512")
"""Paths of the library whose steps of few rows fetch unpacked blocks while they unpack others."""
PERIODS = (5, 3)
"""One block of so many may be held unpacked."""
LEAST = 16 << 20  # weights; what is smaller stays in caches, and there is little to gain
SAMPLE = 1 << 20  # weights
SCRATCH = 32 << 20  # bytes
TURNS = 5
DENSE = 0.3
"""Arithmetic of a product of one row with an unpacked weight, the code's being 1: 4 of its 14 instructions."""
IMPERFECT = 1.3
"""Reading and computing do not overlap wholly: reading counts so much more."""
GAIN = 0.95  # of the time without


def choose_period(library: Library, codes: Mapping[str, Codes], memory: int) -> int:
    """The `period` of `Matrix.of` for these weights; 0: all stay packed. Measured once, kept in the cache folder; again
    the next time where the machine was busy.

    memory: bytes that unpacked weights may take. Codes that are stored are not read, but for one matrix to measure.
    """
    fit = {name: form for name, form in forms(codes).items() if form.group == INPUTS}
    weights = sum(form.weights for form in fit.values())
    if library.isa not in PATHS or weights < LEAST:
        return 0
    same = (library.file.name, library.threads, memory, [(form.shape, form.bits) for form in fit.values()])
    file = cache_home() / "unpacked" / hashlib.sha256(repr(same).encode()).hexdigest()[:24]
    period = _remembered(file)
    if period is None:
        period = _measured(library, codes, fit, memory / (2 * weights))
        if os.getloadavg()[0] > (os.cpu_count() or 1):
            return period
        with suppress(OSError, SpectraError):  # a cache folder that cannot be written is no error
            file.parent.mkdir(parents=True, exist_ok=True)
            write_text(file, f"{period}\n")
    return period


def _remembered(file: Path) -> int | None:
    with suppress(OSError, ValueError):
        period = int(file.read_text(encoding="utf-8"))
        return period if period in (0, *PERIODS) else None
    return None


def _measured(library: Library, codes: Mapping[str, Codes], fit: Mapping[str, Form], most: float) -> int:
    largest = codes[max(fit, key=lambda name: fit[name].weights)]
    outputs, inputs = largest.shape
    sample = largest.rows(torch.arange(min(outputs, -(-SAMPLE // inputs))))
    matrix = Matrix.of(library.with_threads(1), sample)
    scratch = torch.ones(SCRATCH, dtype=torch.uint8)
    return best_period(
        unpacking=min(_processor_seconds(matrix) for _ in range(TURNS)) / sample.codes.numel() / library.threads,
        reading=min(library.read_seconds([scratch]) for _ in range(TURNS)) / SCRATCH,
        packed=sum(form.nbytes for form in fit.values()) / sum(form.weights for form in fit.values()),
        most=most,
    )


def best_period(unpacking: float, reading: float, packed: float, most: float = 1.0) -> int:
    """unpacking: seconds a weight of one row. reading: seconds a byte. packed: bytes a weight.

    most: the share of weights that may be unpacked.
    """

    def time(period: int) -> float:
        share = 1 / period if period else 0.0
        return max(unpacking * (1 - share * (1 - DENSE)), reading * (packed + share * (2 - packed)) * IMPERFECT)

    least = min((period for period in PERIODS if 1 / period <= most), key=time, default=0)
    return least if least and time(least) < GAIN * time(0) else 0


def _processor_seconds(matrix: Matrix) -> float:
    """Of a product of one row by this thread alone: what else the machine does is not counted."""
    row = torch.ones(1, matrix.inputs)
    start = thread_time()
    matrix.product(row)
    return thread_time() - start
