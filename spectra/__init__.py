"""SPECTRA: training-free speculative decoding on unmodified Hugging Face models. Importing it does not load torch."""

from typing import TYPE_CHECKING

from spectra.decode import decode
from spectra.errors import SpectraError, TargetBusyError
from spectra.generate import generate
from spectra.guess import Guess, Source
from spectra.methods import METHODS, make_method
from spectra.metrics import summarize
from spectra.settings import Limits, Sampling
from spectra.trace import StepTrace, Trace
from spectra.tree import TokenTree

if TYPE_CHECKING:
    from spectra.target.load import load_target

__version__ = "0.1.0"
__all__ = [
    "METHODS",
    "Guess",
    "Limits",
    "Sampling",
    "Source",
    "SpectraError",
    "StepTrace",
    "TargetBusyError",
    "TokenTree",
    "Trace",
    "decode",
    "generate",
    "load_target",
    "make_method",
    "summarize",
]


def __getattr__(name: str) -> object:
    """`load_target` needs torch, so it loads on first use (PEP 562)."""
    if name == "load_target":
        from spectra.target.load import load_target

        return load_target
    raise AttributeError(f"module 'spectra' has no attribute {name!r}")
