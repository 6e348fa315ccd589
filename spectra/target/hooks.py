"""Whether hooks sit on a model's modules: what computes in a module's place would pass them by."""

from typing import Any

import torch

CAPTURING = "transformers.utils.output_capturing"
"""Whose hooks stay on a model that was once asked for hidden states; they do nothing in passes that ask for none."""


def hooked(module: torch.nn.Module) -> bool:
    """This module has hooks that do something in our passes, or a forward of its own."""
    hooks = (module._forward_hooks, module._forward_pre_hooks, module._backward_hooks, module._backward_pre_hooks)
    acting = any(getattr(hook, "__module__", "") != CAPTURING for each in hooks for hook in each.values())
    return acting or hasattr(module, "_hf_hook") or "forward" in vars(module)


def any_hooked(model: Any) -> bool:
    """Whether any module of the model is `hooked`."""
    return any(map(hooked, model.modules()))
