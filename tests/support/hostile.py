"""Matrix kernels as they may be: chosen by shape, each with an order of summing of its own, rows independent."""

import math
import random

import torch
from torch.utils._python_dispatch import TorchDispatchMode

aten = torch.ops.aten
PRODUCTS = (aten.mm.default, aten.bmm.default, aten.addmm.default, aten.baddbmm.default)
MADE_OF_THEM = (aten.linear.default, aten.matmul.default)  # inference mode hands them on as they are


class Hostile(TorchDispatchMode):
    """Inside, a product sums in another order for every shape."""

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if function in MADE_OF_THEM:
            with self:
                return function.decompose(*args, **(kwargs or {}))
        if function not in PRODUCTS:
            return function(*args, **(kwargs or {}))
        assert not kwargs or function in (aten.addmm.default, aten.baddbmm.default)
        added, left, right = (None, *args) if len(args) == 2 else args
        out = self.product(left, right)
        if added is not None:
            kwargs = kwargs or {}
            out = out * kwargs.get("alpha", 1) + added * kwargs.get("beta", 1)
        return out.to(left.dtype)

    @staticmethod
    def product(left, right):
        depth = left.shape[-1]
        dice = random.Random(f"{tuple(left.shape)} {tuple(right.shape)}")
        order = dice.sample(range(depth), depth)
        size = dice.randrange(1, max(2, math.isqrt(depth)))
        out = torch.zeros(1)
        for at in range(0, depth, size):
            some = order[at : at + size]
            out = out + (left[..., some].double() @ right[..., some, :].double()).float()
        return out
