"""llama.cpp on the same GGUF file and the same prompt ids, by llama-cpp-python: plain, and with its prompt lookup.

The package is optional and built on the machine that measures. It keeps keys and values in fp16 and quantises
activations, so its answers may differ from ours; only greedy ones are compared.
"""

import importlib
import importlib.util
import time
from collections.abc import Collection, Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from spectra.bench.run.answers import Turn
from spectra.errors import SpectraError
from spectra.settings import Sampling
from spectra.target.choices import unless_embedded

PACKAGE = "llama_cpp"
INSTALL = "pip install llama-cpp-python==0.3.36 --no-binary llama-cpp-python (needs cmake and a C++ compiler)"
LOOKUP = "llama-cpp-lookup"
LLAMA_CPP = ("llama-cpp", LOOKUP)
LOOKUP_TOKENS = 10
"""As many as stock prompt lookup guesses."""
CONTEXT = 4096
"""Positions at most: the lookup keeps the logits of each."""


class LlamaCpp(NamedTuple):
    """model: a `llama_cpp.Llama`. built: what its library says of itself: version and instruction sets."""

    model: Any
    built: str

    def answer(self, prompt: list[int], *, max_new_tokens: int, eos: Collection[int]) -> Turn:
        """Greedy, nothing kept of the prompt before; prefill included in the seconds."""
        if len(prompt) + max_new_tokens > self.model.n_ctx():
            raise SpectraError(
                "prompt",
                f"{len(prompt)} tokens and {max_new_tokens} new ones do not fit the {self.model.n_ctx()}; shorten it",
            )
        self.model.reset()
        began = time.perf_counter()
        with closing(self.model.generate(prompt, temp=0.0, top_k=0, top_p=1.0, min_p=0.0)) as tokens:
            said = list(_cut(tokens, max_new_tokens, eos))
        return Turn(said, time.perf_counter() - began, [])


def check_llama_cpp(methods: Collection[str], model: str | None, sampling: Sampling) -> None:
    """Raise SpectraError where one of these peers is wanted and not available. model: see `ModelOptions`."""
    wanted = [method for method in methods if method in LLAMA_CPP]
    if not wanted:
        return
    if not sampling.greedy:
        raise SpectraError("temperature", f"{wanted[0]} draws with noise of its own; measure it at 0")
    if importlib.util.find_spec(PACKAGE) is None:
        raise SpectraError("methods", f"{wanted[0]} needs a package that is missing; {INSTALL}")
    model_file(model, wanted[0])


def model_file(model: str | None, method: str) -> Path:
    """The GGUF file of a model."""
    from spectra.target.embedded import packaged_file
    from spectra.target.gguf_header import is_gguf

    model = unless_embedded(model)
    if model is None:
        return packaged_file()
    if not is_gguf(model):
        raise SpectraError("methods", f"{method} reads GGUF files, and {model!r} is none; give --model FILE.gguf")
    return Path(model)


def load_llama_cpp(method: str, model: str | None, *, threads: int, context: int) -> LlamaCpp:
    """threads: for one token and for many. context: the model's positions."""
    try:
        library = importlib.import_module(PACKAGE)
        drafts = importlib.import_module(f"{PACKAGE}.llama_speculative")
    except (ImportError, OSError, RuntimeError) as error:
        raise SpectraError("methods", f"{method} cannot be loaded ({error}); install it anew: {INSTALL}") from error
    options: dict[str, Any] = {}
    if method == LOOKUP:
        draft = drafts.LlamaPromptLookupDecoding(num_pred_tokens=LOOKUP_TOKENS)
        options = {"draft_model": draft, "logits_all": True}
    file = model_file(model, method)
    try:
        loaded = library.Llama(
            str(file),
            n_ctx=min(context, CONTEXT),
            n_threads=threads,
            n_threads_batch=threads,
            verbose=False,
            **options,
        )
    except (OSError, ValueError, RuntimeError) as error:
        raise SpectraError("model", f"llama.cpp cannot load {file} ({error}); leave {method} out") from error
    info = library.llama_print_system_info().decode()
    return LlamaCpp(loaded, f"llama-cpp-python {library.__version__}, {' '.join(info.split())}")


def _cut(tokens: Iterable[int], max_new_tokens: int, eos: Collection[int]) -> Iterator[int]:
    """Up to the first end token, which belongs to the answer, or `max_new_tokens` tokens."""
    for count, token in enumerate(tokens, 1):
        yield int(token)
        if token in eos or count == max_new_tokens:
            return
