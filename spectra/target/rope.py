"""Rotary embeddings: which kinds give a position the same angles in every pass."""

from typing import Any

FIXED_ROPES = ("default", "linear", "llama3", "yarn", "proportional")
"""Rotary embeddings whose frequencies do not change with the length of the text."""


def ropes_are_fixed(model: Any) -> bool:
    """No rotary embedding of the model changes with the longest position of a pass."""
    kinds = [module.rope_type for module in model.modules() if hasattr(module, "rope_type")]
    names = [name for kind in kinds for name in (kind.values() if isinstance(kind, dict) else [kind])]
    return set(names) <= set(FIXED_ROPES)
