"""How a model of the Hugging Face hub is asked for, and whether it is known here from an earlier time only."""

import re
from pathlib import Path
from typing import Any

SHARED_OPTIONS = ("revision", "token", "cache_dir")
"""Of those of `from_pretrained`: what goes for config and tokenizer as well as for the model."""
HUB_ID = re.compile(r"(?!.*(--|\.\.))(?!.*\.(git|gguf)$)(\b[\w.-]{1,96}\b/)?\b[\w.-]{1,96}\b", re.ASCII)
"""By the hub's rule, without asking its client: neither of its two names begins or ends with a dash or a dot."""


def is_there(name: str) -> bool:
    """Whether a file or folder has this name; a blank one would be the folder that this process is in."""
    try:
        return bool(name.strip()) and Path(name).exists()
    except (OSError, ValueError):
        return False


def may_be_a_model(name: str) -> bool:
    """Whether something is there, or the hub may have it: known before torch is imported."""
    name = name.strip()
    return is_there(name) or HUB_ID.fullmatch(name) is not None


def only_cached(name: str, token: str | bool | None = None, cache_dir: Any = None) -> bool:
    """Whether the hub's local cache is all there is of this id. Asks the hub once: its client retries for a minute.

    token, cache_dir: as `from_pretrained` takes them.
    """
    from huggingface_hub import HfApi, try_to_load_from_cache

    try:
        HfApi().model_info(name, timeout=10, token=token)
        return False
    except Exception:
        if isinstance(try_to_load_from_cache(name, "config.json", cache_dir), str):
            return True
        raise
