"""Which model to load and what its methods may draft from, as the options of a command say.

`ModelOptions` refuses bad values when it is made, before torch is loaded, as far as that is possible.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from spectra.budget.step_cost import StepCost
from spectra.budget.weights import read_weights
from spectra.datastore.card import check_tokenizer, read_card
from spectra.datastore.memory import check_no_store
from spectra.errors import SpectraError
from spectra.io.bounded import open_regular
from spectra.io.files import check_writable_folder, holds_file
from spectra.io.hashes import tokenizer_sha256
from spectra.method import Method
from spectra.methods.presets import METHODS, make_method
from spectra.methods.resources import Resources, load_resources
from spectra.settings import MethodSettings, Sampling
from spectra.target.choices import GGUF_MAGIC, GPU_STEPS, check_choices, check_device_name, unless_embedded
from spectra.target.hub_cache import is_there, may_be_a_model
from spectra.target.notices import quiet_transformers
from spectra.target.placement import Placement

if TYPE_CHECKING:
    from spectra.target.huggingface import HuggingFaceTarget

log = logging.getLogger("spectra")


CONFIGS = ("config.json", "adapter_config.json")
"""One of these is in a folder that transformers loads a model from."""


def check_model(model: str | None, placement: Placement | None = None) -> None:
    """Raise SpectraError unless it is there or the hub may have it; of several, one is enough. None: the embedded."""
    model = unless_embedded(model)
    if model is None:
        return
    if not model.strip():
        raise SpectraError("model", "it is blank; give a hub id or a folder, or leave it out for the embedded model")
    if not any(map(may_be_a_model, (model, *model.split(",")))):
        raise SpectraError(
            "model", f"{model[:80]!r} is not there, and no hub id; give a folder, a GGUF file or a hub id"
        )
    if placement and may_be_a_model(model) and Path(model.strip()).is_file():
        raise SpectraError("device_map", f"{model} is a file, which goes to one device; leave the map out")
    if is_there(model.strip()):
        check_holds_model(Path(model.strip()))


def check_holds_model(place: Path) -> None:
    """Raise SpectraError for a folder without a config, and for what is no folder and does not begin as a GGUF file."""
    if place.is_dir():
        if not any(holds_file(place, name, "model") for name in CONFIGS):
            raise SpectraError("model", f"{place} holds no model: config.json is missing; give a model's folder")
        return
    begin = b""
    if place.is_file():  # a pipe would be waited for
        try:
            with open_regular(place) as file:
                begin = file.read(len(GGUF_MAGIC))
        except OSError as error:
            raise SpectraError("model", f"{place} cannot be read ({error.strerror}); give another one") from error
    if begin != GGUF_MAGIC:
        raise SpectraError("model", f"{place} is no GGUF file; give one, a folder or a hub id")


def check_draft(draft: Path | str, field_name: str = "draft") -> None:
    """Raise SpectraError unless it is a model's folder, or the hub may have it."""
    if not may_be_a_model(str(draft)):
        raise SpectraError(field_name, f"{str(draft)[:80]!r} is not there, and no hub id; give a model's folder")
    if is_there(str(draft)) and not holds_file(Path(draft), "config.json", field_name):
        raise SpectraError(field_name, f"{draft} holds no model: config.json is missing; give a model's folder")


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A target with its tokenizer, and what methods may draft from. step_cost: T(q) to plan by, if not the target's."""

    target: HuggingFaceTarget
    resources: Resources
    step_cost: StepCost | None = None

    def method(
        self, name: str, *, nodes: int | None = None, sampling: Sampling | None = None, together: int = 1
    ) -> Method:
        """A fresh method by a preset's name, see `make_method`."""
        return make_method(
            name, self.target, self.resources,
            nodes=nodes, sampling=sampling, step_cost=self.step_cost, together=together,
        )  # fmt: skip

    def check_methods(
        self, names: Collection[str], *, nodes: int | None = None, sampling: Sampling | None = None
    ) -> None:
        """Raise SpectraError for a method that lacks its datastore or draft model here."""
        for name in names:
            self.method(name, nodes=nodes, sampling=sampling)


@dataclass(frozen=True, slots=True)
class ModelOptions:
    """model: a hub id, a folder or a GGUF file; None or "embedded" is the embedded one.

    device: None is a GPU where there is one. dtype, weights, numerics, step: see `load_target`. placement: of a model
    that fits no single device. datastores: folders. drafts: folders or hub ids of draft models. Without any of these it
    is those that come with the project and fit. remember: a folder of finished answers.
    estimates: a file of what guesses are worth.
    """

    ENVIRONMENT: ClassVar = "SPECTRA"
    model: str | None = None
    device: str | None = None
    dtype: str = "auto"
    weights: str = "auto"
    numerics: str = "auto"
    step: str = "auto"
    placement: Placement = field(default_factory=Placement)
    datastores: tuple[Path, ...] = ()
    drafts: tuple[Path, ...] = ()
    remember: Path | None = None
    estimates: Path | None = None

    def __post_init__(self) -> None:
        check_model(self.model, self.placement)
        check_device_name(self.device, self.placement)
        check_choices(
            device=self.device, dtype=self.dtype, weights=self.weights, numerics=self.numerics, step=self.step,
            placement=self.placement,
        )  # fmt: skip
        for draft in self.drafts:
            check_draft(draft)
        if self.remember is not None:
            check_writable_folder(self.remember, "remember")
            check_no_store(self.remember)
        for folder in self.datastores:
            read_card(folder)
        if self.estimates is not None:
            read_weights(self.estimates)

    def check_here(self) -> None:
        """Raise SpectraError for a device, or steps, that this machine does not have, before a model is looked for.

        Loads torch.
        """
        from spectra.target import device_map, load
        from spectra.target.step_choice import check_step

        named = self.placement.map
        device_map.check_here("device_map", named.values() if isinstance(named, dict) else ())
        device_map.check_here("max_memory", self.placement.memory or ())
        one_device = not self.placement or self.step in GPU_STEPS
        check_step(self.step, load.check_device(self.device if one_device else "cpu"))

    def load(self) -> LoadedModel:
        """Load the model, its datastores and the draft models that were named. Raises SpectraError."""
        from spectra.target.load import load_target

        quiet_transformers()
        self.check_tokenizers()
        return self.equipped(load_target(**self.loading(), numerics=self.numerics, step=self.step))

    def check_tokenizers(self) -> None:
        """Raise SpectraError for a datastore or a draft model of another tokenizer than the model's, which is loaded
        alone, and for a draft model that cannot be loaded, as far as its files show it.
        """
        if not (self.datastores or self.drafts):
            return
        from spectra.target import draft_model
        from spectra.target.load import load_tokenizer

        tokenizer, name = load_tokenizer(self.model)
        sha256 = tokenizer_sha256(tokenizer)
        for folder in self.datastores:
            check_tokenizer(read_card(folder), sha256, name)
        for draft in self.drafts:
            draft_model.check_draft(str(draft), sha256, name)

    def loading(self) -> dict[str, Any]:
        """Arguments for `load_network`."""
        return {
            "model": self.model,
            "device": self.device,
            "dtype": self.dtype,
            "weights": self.weights,
            **self.placement.arguments(),
        }

    def equipped(self, target: HuggingFaceTarget) -> LoadedModel:
        """The target with its datastores and the draft models that were named. Raises SpectraError."""
        resources = load_resources(target, self.datastores, self.drafts, self.remember, self.estimates)
        if not resources.stores:
            log.warning(f"no datastore fits {target.name}: method spectra runs as spectra-core")
        return LoadedModel(target, resources)

    def tell_unasked(self, method: str, settings: MethodSettings) -> None:
        """A line each where draft models or datastores were named and the method has no use for them."""
        another = "choose another method, or leave it out"
        if self.drafts and not METHODS[method].asks:
            log.warning(f"{method} asks no draft model: --draft changes nothing; {another}")
        if self.datastores and not METHODS[method].reads and settings.retrieval is None:
            log.warning(f"{method} reads no datastore: --datastore changes nothing; {another}")
