"""Whether hooks sit on a model's modules: what computes in a module's place would pass them by."""

from typing import Any

import torch


def hooked(module: torch.nn.Module) -> bool:
    """This module has hooks, or a forward of its own."""
    hooks = (module._forward_hooks, module._forward_pre_hooks, module._backward_hooks, module._backward_pre_hooks)
    return any(hooks) or hasattr(module, "_hf_hook") or "forward" in vars(module)


def any_hooked(model: Any) -> bool:
    """Whether any module of the model is `hooked`."""
    return any(map(hooked, model.modules()))
