"""Whether a device map fits a model and this machine, asked before weights are read."""

import logging
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from transformers import AutoModelForCausalLM, PretrainedConfig

from spectra.errors import SpectraError
from spectra.target.placement import DEVICE_MAPS

log = logging.getLogger("spectra")


def try_device(device: Any) -> torch.device:
    """The device, tried by putting one number on it. Raises what torch does where it is not there."""
    place = torch.device(device)
    if place.type == "cpu" and place.index:  # torch takes every number, and there is one CPU
        raise ValueError(f"there is no {place}")
    float(torch.zeros(1, device=place))
    return place


def input_device(model: torch.nn.Module) -> torch.device:
    """Where inputs go: the device of the first parameter that is not on disk."""
    places = (parameter.device for parameter in model.parameters() if parameter.device.type != "meta")
    return next(places, torch.device("cpu"))


def output_embeddings(model: Any) -> torch.Tensor:
    """[vocabulary, hidden] in fp32, on the device where they are multiplied; those on disk are read."""
    from accelerate.utils import align_module_device

    head = model.get_output_embeddings()
    with align_module_device(head):
        weights: torch.Tensor = head.weight.detach().float()
    return weights


def device_name(device: str | torch.device | None) -> str | None:
    """Raises SpectraError for what is no device."""
    if not isinstance(device, str | torch.device | None):
        raise SpectraError("device", f"{device!r} is no device; give its name, such as cpu, cuda or cuda:1")
    return str(device) if isinstance(device, torch.device) else device


def empty_model(config: PretrainedConfig) -> Any:
    """The model without its numbers."""
    with torch.device("meta"):
        return AutoModelForCausalLM.from_config(config)


def check_device_map(model: Any, device_map: Any) -> None:
    """Raise SpectraError for a device that is not here, a module that the model lacks, one that has no place, or
    numbers that two modules share of which only one is on disk.

    A map that is not given by modules is nothing to check.
    """
    if not isinstance(device_map, Mapping):
        return
    check_here("device_map", places_of(device_map))
    if set(device_map.values()) == {"disk"}:
        raise SpectraError("device_map", "it puts all of the model on disk; leave a part of it on a device")
    parameters = [name for name, _ in model.named_parameters()]
    places = {*parameters, *(name for name, _ in model.named_modules())}
    unknown = [name for name in device_map if name not in places]
    if unknown:
        raise SpectraError("device_map", f"the model has no {unknown[0]!r}; give names of its modules, or auto")
    left_out = [name for name in parameters if not any(is_in(name, module) for module in device_map)]
    if left_out:
        raise SpectraError("device_map", f"{left_out[0]} has no place in it; name all modules, or '' for the others")
    first: dict[int, str] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        other = first.setdefault(id(parameter), name)
        if (place_of(name, device_map, other) == "disk") != (place_of(other, device_map) == "disk"):
            raise SpectraError("device_map", f"{other} and {name} are the same numbers; put both on disk, or none")


def flat_map(model: Any, device_map: Mapping[str, Any], name: str = "", place: Any = None) -> dict[str, Any]:
    """The same places, by names of which none holds another: accelerate moves all that a name holds to its place.

    model: the module that has this name. place: of what holds it, None where nothing does.
    """
    place = device_map.get(name, place)
    if not any(other != name and is_in(other, name) for other in device_map):
        return {} if place is None else {name: place}
    flat: dict[str, Any] = {}
    own = [*model.named_parameters(recurse=False), *model.named_buffers(recurse=False), *model.named_children()]
    for part, module in own:
        inner = f"{name}.{part}" if name else part
        flat |= flat_map(module, device_map, inner, place)
    return flat


def places_of(device_map: Any) -> Iterable[Any]:
    """What a map names; nothing where there is none, or it is computed. One for all of the model may be a device."""
    if device_map is None or (isinstance(device_map, str) and device_map in DEVICE_MAPS):
        return ()
    return device_map.values() if isinstance(device_map, Mapping) else (device_map,)


def check_here(field: str, places: Iterable[Any]) -> None:
    """Raise SpectraError for a device that is not here."""
    for place in {str(place): place for place in places if place != "disk"}.values():
        try:
            try_device(place)
        except Exception as error:  # each kind of missing device fails in its own way
            raise SpectraError(field, f"device {place!r} is not available; name those that are here") from error


def check_on_disk(model: Any, device_map: Any, name: str) -> None:
    """Say in one line what is read from disk at every pass. Raises SpectraError where a computed map puts all there."""
    placed = getattr(model, "hf_device_map", None) or {}
    if not is_on_disk(model):
        return
    if not isinstance(device_map, Mapping) and set(placed.values()) == {"disk"}:
        raise SpectraError("max_memory", "no part of the model fits into it beside the largest one; give more")
    parameters = model.named_parameters()
    size = sum(one.nbytes for path, one in parameters if place_of(path, placed) == "disk")
    log.warning("%s: %.2f GB of it are read from disk at every pass", name, size / 1e9)


def is_on_disk(model: Any) -> bool:
    """Whether accelerate reads a part of it from disk at every pass."""
    return "disk" in (getattr(model, "hf_device_map", None) or {}).values()


def place_of(parameter: str, device_map: Mapping[str, Any], tied: str = "") -> Any:
    """By the longest name in the map that it belongs to. tied: what it goes with where it belongs to none."""
    modules = [module for module in device_map if is_in(parameter, module)]
    return device_map[max(modules, key=len)] if modules else place_of(tied, device_map)


def is_in(parameter: str, module: str) -> bool:
    """Whether a parameter belongs to a module, by their dotted names; "" is the whole model."""
    return not module or parameter == module or parameter.startswith(f"{module}.")
