"""How a model of the Hugging Face hub is asked for, and whether it is known here from an earlier time only."""

from typing import Any

SHARED_OPTIONS = ("revision", "token", "cache_dir")
"""Of those of `from_pretrained`: what goes for config and tokenizer as well as for the model."""


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
