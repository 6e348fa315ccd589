"""What is known of the models that are in memory, for as long as they are."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from spectra.target.cuda_graphs.steps import StaticSteps
from spectra.target.execution_plan import ExecutionPlan
from spectra.target.native.steps import NativeSteps


@dataclass(slots=True)
class KnownModel:
    """What is known of a model handed to `wrap_model`, so that the drop-in measures, packs and loads once.

    decodes: see `HuggingFaceTarget`. turn: of a thread that prepares the model or answers by the drop-in.
    """

    plans: dict[Path, ExecutionPlan] = field(default_factory=dict)
    steps: dict[Path, StaticSteps | None] = field(default_factory=dict)
    native: NativeSteps | None = None
    drafts: dict[tuple[str, ...], Any] = field(default_factory=dict)
    memories: dict[str, Any] = field(default_factory=dict)
    stores: dict[tuple[str, ...], tuple[Any, Sequence[Any], Any]] = field(default_factory=dict)
    decodes: threading.Lock = field(default_factory=threading.Lock)
    turn: threading.RLock = field(default_factory=threading.RLock)


_learned: WeakKeyDictionary[Any, KnownModel] = WeakKeyDictionary()
_looking = threading.Lock()


def learned_of(model: Any) -> KnownModel:
    """What was measured of this model object before, by whatever target. Models that share a config object, in which a
    session sets their attention, take turns."""
    with _looking:
        if (known := _learned.get(model)) is None:
            mine = _configs(model)
            beside = next((other for one, other in list(_learned.items()) if mine & _configs(one)), None)
            known = KnownModel() if beside is None else KnownModel(decodes=beside.decodes, turn=beside.turn)
            _learned[model] = known
        return known


def _configs(model: Any) -> set[int]:
    return {id(module.config) for module in model.modules() if hasattr(module, "config")}
