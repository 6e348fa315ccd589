"""Steps on a CPU by our library: a whole step in one call for Llama-shaped models, module by module for others."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from itertools import chain as joined
from typing import Any, Protocol
from weakref import WeakKeyDictionary

import torch

from spectra.errors import SpectraError
from spectra.target.attention import of_ones_own
from spectra.target.cache import Layout, SlabCache
from spectra.target.forward_target import ForwardTarget
from spectra.target.hooks import any_hooked
from spectra.target.joint import Part
from spectra.target.native.attention import BLOCK, Chains, Shared, Slots
from spectra.target.native.codes import Codes
from spectra.target.native.library import Library, native_library, native_reason
from spectra.target.native.llama import LlamaStep, StepSequence, is_llama_shaped, values_read
from spectra.target.native.matrix import BF16, BITS4, BITS8, FLOAT, Matrix
from spectra.target.native.modules import READ, ModuleSteps, matrices, widths
from spectra.target.native.parameters import fill_parameters
from spectra.target.parameter_state import parameter_state
from spectra.target.quantized import quantized_by
from spectra.verify.picks import Scores

LANES = 16
"""Numbers of the widest vectors of fp32 that torch computes with."""

FORMATS = {FLOAT: "fp32", BF16: "bf16", BITS4: "4 bits", BITS8: "8 bits"}
WHOLE = "it takes a model that is whole on the CPU"
MAX_SHARE = 0.4  # of the machine's memory that packed copies may take


class Steps(Protocol):
    """Computes steps of one model."""

    layout: Layout

    @property
    def matrices(self) -> Sequence[Matrix]:
        """The packed weights that a step reads."""
        ...

    def attach(self, model: Any) -> Callable[[], None]:
        """Make the model ready; what is returned makes it as it was."""
        ...

    def forward(self, target: ForwardTarget, part: Part, *, prefill: bool = False) -> torch.Tensor:
        """See `HuggingFaceTarget.forward`."""
        ...

    def forward_together(self, target: ForwardTarget, parts: Sequence[Part]) -> list[Scores]:
        """See `HuggingFaceTarget.forward_together`."""
        ...


class NativeSteps:
    """A model's `steps`, packed again when what they read of it changes; codes are given up then for the numbers.

    A change through a parameter's `data` is found where it touches one of the samples of `parameter_state`.
    codes: parameters that stay quantised, by name. checkable: the model can also be run by torch, to compare with.
    """

    def __init__(self, library: Library, model: Any, codes: Mapping[str, Codes]) -> None:
        self.library, self.codes = library.with_threads(torch.get_num_threads()), codes
        self.checkable = not any(p.is_meta for p in model.parameters())
        self._pack(model)

    def _pack(self, model: Any) -> None:
        whole = LlamaStep.of(self.library, model, self.codes)
        if whole is None and not self.checkable:
            fill_parameters(model, self.codes)
            self.checkable = True
        self.steps: Steps = ModuleSteps(self.library, model, self.codes) if whole is None else WholeSteps(whole)
        self._state = self._state_of(model)

    def _state_of(self, model: Any) -> tuple[object, ...]:
        kinds = ((type(module), type(module).forward) for module in model.modules())
        buffers = model.buffers() if self.whole else ()  # the other models' own forward reads, and may write, them
        read = values_read(model) if self.whole else ()
        return parameter_state(joined(model.parameters(), buffers)), *kinds, *read

    @property
    def layout(self) -> Layout:
        return self.steps.layout

    @property
    def facts(self) -> dict[str, object]:
        """kernels: instructions they are made of. weights: formats. calls: of the library, one a step or a module."""
        calls = "step" if self.whole else "modules"
        held = ", ".join(sorted({FORMATS[matrix.view.format] for matrix in self.steps.matrices}))
        return {"kernels": self.library.isa, "weights": held, "calls": calls}

    def read_seconds(self) -> float:
        """Seconds in which the threads of a step read all packed weights once, nothing computed."""
        return self.library.read_seconds(matrix.data for matrix in self.steps.matrices)

    @property
    def nbytes(self) -> int:
        """Bytes of packed weights."""
        return sum(matrix.nbytes for matrix in self.steps.matrices)

    def attach(self, model: Any) -> Callable[[], None]:
        if any_hooked(model):
            raise SpectraError("model", "hooks were put on it after it was loaded; load it again or take step eager")
        if why := unread(model) or of_ones_own(model):
            raise SpectraError("model", f"it was changed after it was loaded: {why}; wrap it again")
        if self._state != self._state_of(model):
            fill_parameters(model, self.codes, missing=True)
            self.codes, self.checkable = {}, True
            self._pack(model)
        return self.steps.attach(model)

    @property
    def whole(self) -> bool:
        """Every row of a step or of a prefill is computed alike: where the slots come from does not matter."""
        return isinstance(self.steps, WholeSteps)


class WholeSteps:
    """`Steps` of a Llama-shaped model, each one call. The model's own modules do not run."""

    def __init__(self, step: LlamaStep) -> None:
        self.step = step
        self.layout = Layout(1, step.dtype, shared=BLOCK)
        self._known: WeakKeyDictionary[SlabCache, Slots] = WeakKeyDictionary()

    @property
    def matrices(self) -> Sequence[Matrix]:
        return self.step.matrices

    def attach(self, model: Any) -> Callable[[], None]:
        return lambda: None

    def forward(self, target: ForwardTarget, part: Part, *, prefill: bool = False) -> torch.Tensor:
        if not prefill:
            return self.forward_together(target, [part])[0].logits
        count = len(part.tokens)
        return self.step.step([self._sequence(part.cache, count)], part.tokens, Chains.run(count), part.rows)[0]

    def forward_together(self, target: ForwardTarget, parts: Sequence[Part]) -> list[Scores]:
        tokens: list[int] = []
        rows: list[int] = []
        for part in parts:
            rows += [len(tokens) + row for row in part.rows]
            tokens += part.tokens
        sequences = [self._sequence(part.cache, len(part.tokens)) for part in parts]
        logits, best = self.step.step(sequences, tokens, Chains.of_trees([part.chains for part in parts]), rows)
        if len(parts) == 1:
            return [Scores(logits, best)]
        ends = accumulate(len(part.rows) for part in parts)
        places = [slice(end - len(part.rows), end) for part, end in zip(parts, ends, strict=True)]
        return [Scores(logits, best[place], place) for place in places]

    def _sequence(self, cache: SlabCache, rows: int) -> StepSequence:
        others = cache.others
        shared = None if others is None else Shared(self._slots(others), cache.shared)
        return StepSequence(self._slots(cache), cache.length, rows, shared)

    def _slots(self, cache: SlabCache) -> Slots:
        found = self._known.get(cache)
        if found is None:
            found = self._known[cache] = Slots(*cache.reserve(*self.step.cache_shape, torch.device("cpu")))
        return found


def native_steps(
    target: ForwardTarget, step: str, codes: Mapping[str, Codes], known: NativeSteps | None
) -> NativeSteps | None:
    """What computes the target's steps where step is "native" or "auto"; None: torch does. known: from an earlier call.

    Raises SpectraError for a "native" that is not possible.
    """
    why = obstacle(target) if step in ("auto", "native") else f"step {step} was asked for"
    if why:
        if step == "native":
            raise SpectraError("step", f"native is not possible: {why}; use auto or eager")
        return None
    library = native_library()
    assert library is not None
    if known is not None and (known.codes is codes or not (known.codes or codes)):
        return known
    return NativeSteps(library, target.model, codes)


def obstacle(target: ForwardTarget) -> str:
    """Why the library cannot compute this target's steps, or ""."""
    model = target.model
    if target.spread:
        return WHOLE
    if any_hooked(model):
        return "hooks sit on the model"
    if target.mixture:
        return "it is a mixture of experts"
    if why := unread(model) or of_ones_own(model):
        return why
    if not matrices(model):
        return "the model has no linear layers"
    if not is_llama_shaped(model, {}) and (odd := odd_width(model)):
        return f"a width of {odd} is no multiple of {LANES}, and torch computes its end otherwise than the rest"
    if sum(layer.get_parameter("weight").nbytes for layer in matrices(model).values()) > MAX_SHARE * _memory():
        return "there is no memory for packed copies of the weights"
    return "" if native_library() is not None else native_reason() or ""


def odd_width(model: Any) -> int:
    """A width between the model's products, where torch computes row by row, that is no multiple of LANES; 0: none.

    torch's vectors run on over the rows of such a width, so which numbers stand at their end depends on how many rows
    there are, and the end is rounded otherwise. `ModuleSteps` fills up few rows only.
    """
    return next((size for size in widths(model) if size % LANES), 0)


def unread(model: Any) -> str:
    """Why the library cannot read the weights, or ""."""
    if {p.device.type for p in model.parameters()} - {"cpu", "meta"}:
        return WHOLE
    if model.dtype not in READ:
        return f"the CPU step computes in bf16 and fp32, and the model is in {str(model.dtype).removeprefix('torch.')}"
    if quantized := quantized_by(model):
        return f"its weights are quantised ({quantized})"
    return ""


def _memory() -> int:
    """Bytes of memory this machine has; 0 where the system does not tell."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 0
