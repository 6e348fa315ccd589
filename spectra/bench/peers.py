"""Which ways of stock transformers to generate may be measured as methods. Does not run them: `stock.py` does."""

from typing import Any

from spectra.errors import SpectraError

ASSISTED = "hf-assisted"
PEERS: dict[str, dict[str, Any]] = {
    "hf-generate": {},
    "hf-prompt-lookup": {"prompt_lookup_num_tokens": 10},
    ASSISTED: {},
}
"""Name -> extra arguments of `model.generate`; the assisted one takes the draft model besides."""


def check_assistant(methods: list[str], assistant: str | None, model: str | None) -> None:
    """Raise SpectraError when a peer needs a draft model and none is named; the embedded model (None) has its own."""
    if ASSISTED in methods and not assistant and model is not None:
        raise SpectraError("assistant", f"{ASSISTED} needs a draft model; give --assistant PATH, a folder or a hub id")
