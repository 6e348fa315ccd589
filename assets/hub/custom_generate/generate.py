"""transformers runs this for `model.generate(..., custom_generate=<this repository>, trust_remote_code=True)`."""

from functools import partial
from typing import Any

from transformers import StopStringCriteria

import spectra

OPTIONS = (
    "method", "nodes", "numerics", "step", "seed", "drafts", "remember", "estimates", "datastores", "tokenizer",
    "streamer", "at_once", "cache_bytes",
)  # fmt: skip
"""What `spectra.generate` takes beside what transformers prepares."""
PREPARED = {"logits_processor", "stopping_criteria", "generation_config"}
"""What a callable always gets."""


def generate(model: Any, input_ids: Any = None, **arguments: Any) -> Any:
    """Called with the raw arguments of `model.generate` when the repository is given by name, `inputs` always among
    them, or when the folder is a part of the model's own repository: transformers then prepares them. As a callable,
    with prepared ones.
    """
    if "inputs" not in arguments and arguments.keys() >= PREPARED:
        return spectra.generate(model, input_ids, **arguments)
    if input_ids is not None:
        arguments["input_ids"] = input_ids
    config = arguments.get("generation_config") or model.generation_config
    stop_strings = arguments.get("stop_strings") or getattr(config, "stop_strings", None)
    if stop_strings and arguments.get("tokenizer") is not None:
        # transformers would ask for the tokenizer, which it drops beside a callable
        criterion = StopStringCriteria(arguments["tokenizer"], stop_strings)
        arguments["stop_strings"] = None
        arguments["stopping_criteria"] = [*(arguments.get("stopping_criteria") or []), criterion]
    if arguments.get("assistant_model") is not None:  # transformers drops it beside a callable
        fix = 'leave it out, or name its folder: method="draft-model", drafts=["FOLDER"]'
        raise spectra.SpectraError("assistant_model", f"not supported; {fix}")
    given = {name: arguments.pop(name) for name in OPTIONS if arguments.get(name) is not None}
    stock = type(model).generate  # the model's own may be this function
    return stock(model, custom_generate=partial(spectra.generate, **given), **arguments)
