"""Steps of models that are not Llama-shaped: the model's own forward, its matrices and attention by our library."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import gcd
from typing import Any

import torch
from transformers.pytorch_utils import Conv1D

from spectra.target.attention_metadata import AttentionMetadata
from spectra.target.cache import Layout
from spectra.target.forward_target import ForwardTarget
from spectra.target.joint import Part, joint_forward
from spectra.target.native.attention import attend
from spectra.target.native.codes import Codes
from spectra.target.native.library import Library
from spectra.target.native.matrix import Matrix
from spectra.verify.picks import Scores

READ = (torch.bfloat16, torch.float32)
"""Types of numbers that the library reads."""
AT_ONCE = 64
"""Numbers that torch takes at once, at most: two AVX-512 vectors. What is left at the end is rounded otherwise."""


class NativeLinear(torch.nn.Module):
    """A linear layer whose weight is read from a packed copy. x [..., inputs] -> [..., outputs]."""

    def __init__(self, library: Library, layer: Any, codes: Codes | None = None) -> None:
        super().__init__()
        self.weight, self.bias = layer.weight, layer.bias
        weight = layer.weight.T if isinstance(layer, Conv1D) else layer.weight
        self.matrix = Matrix.of(library, weight.detach() if codes is None else codes, layer.bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out = self.matrix.product(x.reshape(-1, x.shape[-1]))
        return out.to(x.dtype).view(*x.shape[:-1], -1)


class ModuleSteps:
    """`Steps` of one model; holds its parameters, never the model.

    codes: parameters that stay quantised, by name. Needs a model whose attention can be replaced.
    """

    def __init__(self, library: Library, model: Any, codes: Mapping[str, Codes]) -> None:
        self.library = library
        self.layout = Layout()
        names = {id(parameter): name for name, parameter in model.named_parameters()}  # a tied head has the embedding's
        self._layers = {
            name: NativeLinear(library, layer, codes.get(names[id(layer.weight)]))
            for name, layer in matrices(model).items()
        }
        self._whole = AT_ONCE // gcd(AT_ONCE, *widths(model))
        """Rows that are whole turns of torch's loops over them, whatever the width."""

    @property
    def matrices(self) -> list[Matrix]:
        return [layer.matrix for layer in self._layers.values()]

    def attach(self, model: Any) -> Callable[[], None]:
        """Put our layers into the model; what is returned puts its own back."""
        there = matrices(model)
        for name in there:
            _put(model, name, self._layers[name])

        def restore() -> None:
            for name, layer in there.items():
                _put(model, name, layer)

        return restore

    def forward(self, target: ForwardTarget, part: Part, *, prefill: bool = False) -> torch.Tensor:
        """See `HuggingFaceTarget.forward`."""
        if self._whole > 1 and not prefill:
            return self.forward_together(target, [part])[0].logits
        return target.forward_pass(
            part.cache, part.tokens, part.chains, part.rows, prefill=prefill, attend=self._attend
        )

    def forward_together(self, target: ForwardTarget, parts: Sequence[Part]) -> list[Scores]:
        """See `HuggingFaceTarget.forward_together`."""
        if self._whole == len(parts) == 1:
            return [Scores(self.forward(target, parts[0]))]
        return joint_forward(target, parts, whole=self._whole, attend=self._attend)

    def _attend(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        scaling: float,
        window: int | None,
        metadata: AttentionMetadata,
    ) -> torch.Tensor:
        rows = attend(
            self.library, query.transpose(0, 1), key, value, metadata.start, metadata.ancestors, scaling, window
        )
        return rows.to(query.dtype).transpose(0, 1)


def matrices(model: Any) -> dict[str, torch.nn.Module]:
    """The model's linear layers by name, those whose weights the library reads."""
    kinds = (torch.nn.Linear, Conv1D, NativeLinear)
    there = ((name, module) for name, module in model.named_modules() if type(module) in kinds)
    return {name: module for name, module in there if module.get_parameter("weight").dtype in READ}


def widths(model: Any) -> set[int]:
    """Of the rows between the model's products, where torch computes. Logits are not computed with any more."""
    head = model.get_output_embeddings()
    layers = (layer for layer in matrices(model).values() if layer is not head)
    return {size for layer in layers for size in layer.get_parameter("weight").shape}


def _put(model: Any, name: str, layer: torch.nn.Module) -> None:
    parent, _, child = name.rpartition(".")
    model.get_submodule(parent)._modules[child] = layer
