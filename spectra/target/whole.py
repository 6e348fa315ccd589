"""A model whose files have all its weights: transformers fills up what they lack with random numbers."""

import os
from typing import Any

from transformers import AutoModelForCausalLM

from spectra.errors import SpectraError


def load_whole(source: str | os.PathLike[str], field: str, **options: Any) -> Any:
    """A causal model by `from_pretrained`. Raises SpectraError for `field` where a weight is missing."""
    model, found = AutoModelForCausalLM.from_pretrained(source, output_loading_info=True, **options)
    if missing := sorted(found["missing_keys"]):
        others = f" and {len(missing) - 1} more" if missing[1:] else ""
        raise SpectraError(field, f"the files of {os.fspath(source)!r} lack {missing[0]}{others}; give a whole model")
    return model
