"""A bf16 matrix in the layout that the CPU's kernels for few rows read fastest, made once instead of on every call."""

from collections.abc import Iterable

import torch

ROWS = 8  # the kernel's layout is the same for every small row count


class PackedMatrix:
    """x [..., in] -> x @ weight.T + bias [..., out], perhaps with one more step before the only rounding.

    weight [out, in] and bias [out] in bf16 on the CPU; the weight is copied, the bias is not.
    """

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None = None) -> None:
        self.shape = (weight.shape[0], weight.shape[1])
        self.bias = bias
        self._packed = torch.ops.mkldnn._reorder_linear_weight(weight.detach(), ROWS)

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return self._run(x, "none")

    def silu(self, x: torch.Tensor) -> torch.Tensor:
        """silu of the product."""
        return self._run(x, "swish")

    def plus(self, x: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        """The product plus other [..., out]."""
        return self._join(x, other, "add")

    def times(self, x: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        """The product times other [..., out], element by element."""
        return self._join(x, other, "mul")

    def _run(self, x: torch.Tensor, then: str) -> torch.Tensor:
        out: torch.Tensor = torch.ops.mkldnn._linear_pointwise(x, self._packed, self.bias, then, [], "")
        return out

    def _join(self, x: torch.Tensor, other: torch.Tensor, by: str) -> torch.Tensor:
        out: torch.Tensor = torch.ops.mkldnn._linear_pointwise.binary(x, other, self._packed, self.bias, by)
        return out


def parameter_state(parameters: Iterable[torch.Tensor]) -> tuple[int, ...]:
    """Changes when one of these is changed in place or moved."""
    return tuple(x for p in parameters for x in (p.data_ptr(), 0 if p.is_inference() else p._version))
