"""SPECTRA: training-free speculative decoding on unmodified Hugging Face models. Importing it does not load torch."""

from typing import TYPE_CHECKING

from spectra.batch.decode_many import decode_many
from spectra.batch.request import Request
from spectra.budget.policy import AdaptiveBudget, FixedBudget
from spectra.decode import decode
from spectra.errors import SpectraError, TargetBusyError
from spectra.generate import generate
from spectra.guess import Guess, Source
from spectra.io.version import VERSION
from spectra.method import Budget, Drafter, Method, Outcome
from spectra.methods.presets import METHODS, make_method
from spectra.methods.resources import Resources, load_resources
from spectra.metrics import summarize
from spectra.settings import Limits, Sampling
from spectra.trace import StepTrace, Trace
from spectra.tree import TokenTree

if TYPE_CHECKING:
    from spectra.target.load import load_target

__version__ = VERSION
__all__ = [
    "METHODS",
    "AdaptiveBudget",
    "Budget",
    "Drafter",
    "FixedBudget",
    "Guess",
    "Limits",
    "Method",
    "Outcome",
    "Request",
    "Resources",
    "Sampling",
    "Source",
    "SpectraError",
    "StepTrace",
    "TargetBusyError",
    "TokenTree",
    "Trace",
    "decode",
    "decode_many",
    "generate",
    "load_resources",
    "load_target",
    "make_method",
    "summarize",
]

if not TYPE_CHECKING:  # a checker of types finds a misspelt name

    def __getattr__(name: str) -> object:
        """`load_target` needs torch, so it loads on first use (PEP 562)."""
        if name == "load_target":
            from spectra.target.load import load_target

            return load_target
        raise AttributeError(f"module 'spectra' has no attribute {name!r}")
