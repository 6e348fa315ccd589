"""Steps on a CPU by our library: a whole step in one call for Llama-shaped models, module by module for others."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch

from spectra.errors import SpectraError
from spectra.target.cache import Layout, SlabCache
from spectra.target.hooks import any_hooked
from spectra.target.native.attention import Chains
from spectra.target.native.codes import Codes
from spectra.target.native.library import Library, native_library, native_reason
from spectra.target.native.llama import LlamaStep, StepSequence
from spectra.target.native.modules import ModuleSteps, matrices, parameter_state

if TYPE_CHECKING:
    from spectra.target.huggingface import HuggingFaceTarget

MOST = 0.4  # of the machine's memory that packed copies may take


class Steps(Protocol):
    """Computes steps of one model. checkable: the model can also be run by torch, to be compared with."""

    layout: Layout
    checkable: bool

    @property
    def facts(self) -> dict[str, object]: ...

    def attach(self, model: Any) -> Callable[[], None]:
        """Make the model ready; what is returned makes it as it was."""
        ...

    def forward(
        self,
        target: HuggingFaceTarget,
        cache: SlabCache,
        tokens: Sequence[int],
        chains: Sequence[Sequence[int]],
        rows: Sequence[int],
        *,
        prefill: bool = False,
    ) -> torch.Tensor:
        """See `HuggingFaceTarget.forward`."""
        ...


class NativeSteps:
    """`Steps` that are packed again when the model's parameters change. codes: parameters that stay quantised."""

    def __init__(self, library: Library, model: Any, codes: Mapping[str, Codes]) -> None:
        self.library, self.codes = library, codes
        self.checkable = not any(p.is_meta for p in model.parameters())
        self._pack(model)

    def _pack(self, model: Any) -> None:
        self._state = self._state_of(model)
        whole = LlamaStep.of(self.library, model, self.codes)
        self.steps: Steps = ModuleSteps(self.library, model, self.codes) if whole is None else WholeSteps(whole)

    def _state_of(self, model: Any) -> tuple[int, ...]:
        return parameter_state(model.parameters()) if self.checkable else ()

    @property
    def layout(self) -> Layout:
        return self.steps.layout

    @property
    def facts(self) -> dict[str, object]:
        """kernels: the library's path. calls: "step" or "modules". weights: how those are held that stay quantised."""
        held = sorted({f"{one.bits} bits" for one in self.codes.values()})
        return {"kernels": self.library.isa, "weights": ", ".join(held) or "as they are"} | self.steps.facts

    def attach(self, model: Any) -> Callable[[], None]:
        if any_hooked(model):
            raise SpectraError("model", "hooks were put on it after it was loaded; load it again or take step eager")
        if self._state != self._state_of(model):
            self._pack(model)
        return self.steps.attach(model)

    def forward(
        self,
        target: HuggingFaceTarget,
        cache: SlabCache,
        tokens: Sequence[int],
        chains: Sequence[Sequence[int]],
        rows: Sequence[int],
        *,
        prefill: bool = False,
    ) -> torch.Tensor:
        return self.steps.forward(target, cache, tokens, chains, rows, prefill=prefill)


class WholeSteps:
    """`Steps` of a Llama-shaped model, each one call. The model's own modules do not run."""

    def __init__(self, step: LlamaStep) -> None:
        self.step = step
        self.layout = Layout(1, step.dtype)

    @property
    def facts(self) -> dict[str, object]:
        return {"calls": "step"}

    def attach(self, model: Any) -> Callable[[], None]:
        return lambda: None

    def forward(
        self,
        target: HuggingFaceTarget,
        cache: SlabCache,
        tokens: Sequence[int],
        chains: Sequence[Sequence[int]],
        rows: Sequence[int],
        *,
        prefill: bool = False,
    ) -> torch.Tensor:
        heads, dim = self.step.cache_shape
        keys, values = cache.reserve(heads, dim, torch.device("cpu"))
        tree = Chains.run(len(tokens)) if prefill else Chains.of(chains)
        depths = np.diff(tree.offsets) - 1
        sequence = StepSequence(keys, values, cache.length, len(tokens))
        positions = torch.from_numpy(cache.length + depths)
        return self.step.step([sequence], torch.tensor(tokens), positions, tree, torch.tensor(list(rows)))


def native_steps(
    target: HuggingFaceTarget, step: str, codes: Mapping[str, Codes], known: NativeSteps | None
) -> NativeSteps | None:
    """What computes the target's steps where step is "native" or "auto"; None: torch does. known: from an earlier call.

    Raises SpectraError for a "native" that is not possible, and for codes that nothing else reads.
    """
    if step not in ("auto", "native"):
        why = f"step {step} was asked for"
    else:
        why = obstacle(target)
    if why:
        if step == "native":
            raise SpectraError("step", f"native is not possible: {why}; use auto or eager")
        if codes:
            raise SpectraError("weights", f"quantised weights need the native step, and {why}; use weights bf16")
        return None
    library = native_library()
    assert library is not None
    if known is not None and known.codes == codes:
        return known
    return NativeSteps(library, target.model, codes)


def obstacle(target: HuggingFaceTarget) -> str:
    """Why the library cannot compute this target's steps, or ""."""
    model = target.model
    if {p.device.type for p in model.parameters()} - {"cpu", "meta"} or target.spread:
        return "it takes a model that is whole on the CPU"
    if target.dtype not in (torch.bfloat16, torch.float32):
        return f"it computes in bf16 and fp32, and the model is in {str(target.dtype).removeprefix('torch.')}"
    if any_hooked(model):
        return "hooks sit on the model"
    if not matrices(model):
        return "the model has no linear layers"
    if sum(layer.get_parameter("weight").nbytes for layer in matrices(model).values()) > MOST * _memory():
        return "there is no memory for packed copies of the weights"
    return native_reason() or ""


def _memory() -> int:
    """Bytes of memory this machine has; 0 where the system does not tell."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 0
