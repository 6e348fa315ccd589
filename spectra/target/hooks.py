"""Whether hooks sit on a model's modules: what computes in a module's place would pass them by."""

from typing import Any

import torch

CAPTURING = "transformers.utils.output_capturing"
"""Whose hooks stay on a model that was once asked for hidden states; they do nothing in passes that ask for none."""


def _acting(module: torch.nn.Module) -> list[Any]:
    """Its hooks that do something in our passes."""
    hooks = (module._forward_hooks, module._forward_pre_hooks, module._backward_hooks, module._backward_pre_hooks)
    return [hook for each in hooks if each for hook in each.values() if getattr(hook, "__module__", "") != CAPTURING]


def hooked(module: torch.nn.Module) -> bool:
    """This module has hooks that do something in our passes, or a forward of its own."""
    return bool(_acting(module)) or "_hf_hook" in vars(module) or "forward" in vars(module)


def any_hooked(model: Any) -> bool:
    """Whether any module of the model is `hooked`."""
    return any(map(hooked, model.modules()))


def own_functions(model: Any) -> list[int]:
    """Which functions a program put into this very model. What was measured with them is true of no other: nothing that
    lasts tells what they compute. Those of accelerate only move numbers."""
    found = []
    for module in filter(hooked, model.modules()):
        forward = None if "_hf_hook" in vars(module) else vars(module).get("forward")
        found += [id(one) for one in (*_acting(module), forward) if one is not None]
    return found
