"""The attention mask in the form that a Hugging Face model takes: one tensor, or one for each kind of layer."""

from typing import Any

import torch

from spectra.target.attention_metadata import AttentionMetadata


def mask_argument(
    config: Any, metadata: AttentionMetadata | None, dtype: torch.dtype, device: torch.device
) -> torch.Tensor | dict[str, torch.Tensor]:
    """4-D masks pass through a model untouched; models with several kinds of layers take one a kind.

    config: of the text model. metadata: who reads what; None: our attention knows it, a mask only has to be there.
    """
    kinds = sorted(set(getattr(config, "layer_types", None) or ()))
    window = getattr(config, "sliding_window", None)

    def one(window: int | None) -> torch.Tensor:
        if metadata is None:
            return torch.ones(1, 1, 1, 1, dtype=torch.bool, device=device)
        mask = metadata.mask(window, device)[None, None]
        if config._attn_implementation == "sdpa":
            return mask
        least = torch.finfo(dtype).min  # eager attention adds its mask and is silently wrong with bool
        return torch.zeros(mask.shape, dtype=dtype, device=device).masked_fill_(~mask, least)

    if kinds == ["full_attention", "sliding_attention"]:
        return {"full_attention": one(None), "sliding_attention": one(window)}
    sliding = kinds == ["sliding_attention"] or (not kinds and getattr(config, "use_sliding_window", True))
    return one(window if sliding else None)
