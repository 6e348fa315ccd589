"""A model spread over devices, as `from_pretrained` takes it (accelerate's big model inference). No torch."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from spectra.errors import SpectraError
from spectra.io.files import check_writable_folder
from spectra.io.json_text import read_json

DEVICE_MAPS = ("auto", "balanced", "balanced_low_0", "sequential")
"""What accelerate computes a map for."""
SIZE = r"\d+(\.\d+)?[KMG]i?B"
DEVICES = ("cpu", "cuda", "mps", "xpu", "hpu", "mtia", "npu", "xla")
"""Kinds of device that torch computes on; whether one is there is asked when the model is loaded."""
PLACE = rf"disk|\d+|({'|'.join(DEVICES)})(:\d+)?"
"""What a device map may name."""


@dataclass(frozen=True, slots=True)
class Placement:
    """Where the parts of a model go that does not fit, or should not be, on one device.

    device_map: one of DEVICE_MAPS, or a JSON file of module name -> device ("cuda:0", 0, "cpu", "disk").
    max_memory: DEVICE=SIZE each, "0=20GiB" or "cpu=60GiB" for example; of a map that is computed. offload_folder: for
    what goes to disk.
    """

    ENVIRONMENT: ClassVar = "SPECTRA"
    device_map: str | None = None
    max_memory: tuple[str, ...] = ()
    offload_folder: Path | None = None

    def __post_init__(self) -> None:
        _ = self.memory, self.map  # refuses what they cannot be
        if self.device_map is None and (self.max_memory or self.offload_folder):
            field = "max_memory" if self.max_memory else "offload_folder"
            raise SpectraError(field, "it goes with a device map; give --device-map auto too")
        if self.max_memory and self.device_map not in DEVICE_MAPS:
            raise SpectraError("max_memory", f"{self.device_map} says itself what goes where; leave one of them out")
        if self.offload_folder is None and "disk" in _values(self.map):
            raise SpectraError("offload_folder", "the device map puts a part on disk; say in which folder")
        if self.offload_folder is not None and self.offload_folder.exists() and not self.offload_folder.is_dir():
            raise SpectraError("offload_folder", f"{self.offload_folder} is not a folder; give one")
        if self.offload_folder is not None:
            check_writable_folder(self.offload_folder, "offload_folder")

    def __bool__(self) -> bool:
        return self.device_map is not None

    @property
    def several(self) -> bool:
        """Whether a map that was given names more than one device; unknown, and False, where it is computed."""
        return len(set(_values(self.map))) > 1

    @property
    def kinds(self) -> set[str]:
        """Of the devices that a given map names, "cuda" for a number; unknown, and none, where it is computed."""
        named = (str(place).partition(":")[0] for place in _values(self.map) if place != "disk")
        return {"cuda" if name.isdigit() else name for name in named}

    @property
    def map(self) -> str | dict[str, int | str] | None:
        """As transformers takes it. Raises SpectraError for a file that holds none."""
        if self.device_map is None or self.device_map in DEVICE_MAPS:
            return self.device_map
        file = Path(self.device_map)
        try:
            found = read_json(file)
        except OSError as error:
            raise SpectraError(
                "device_map",
                f"{self.device_map!r} is neither {', '.join(DEVICE_MAPS)} nor a readable file ({error.strerror}); "
                "give one of these",
            ) from error
        except ValueError as error:
            raise SpectraError("device_map", f"{file} is not JSON; give an object of module name to device") from error
        good = isinstance(found, dict) and all(type(place) in (int, str) for place in found.values())
        if not good or not found:
            raise SpectraError("device_map", f"{file} is no object of module name to device; give one")
        for place in found.values():
            if not re.fullmatch(PLACE, str(place)):
                raise SpectraError("device_map", f"{file} names {place!r}; a device is 0, cuda:0, cpu or disk")
        return {name: int(place) if str(place).isdecimal() else place for name, place in found.items()}

    @property
    def memory(self) -> dict[int | str, str] | None:
        """Bytes by device, None where nothing is said. Raises SpectraError naming the part that is wrong."""
        parsed: dict[int | str, str] = {}
        for one in self.max_memory:
            device, equals, size = (part.strip() for part in one.partition("="))
            if not equals or not re.fullmatch(r"\d+|cpu|mps", device) or not re.fullmatch(SIZE, size):
                raise SpectraError("max_memory", f"{one!r} is not DEVICE=SIZE; write for example 0=20GiB,cpu=60GiB")
            key = int(device) if device.isdigit() else device
            if key in parsed:
                raise SpectraError("max_memory", f"{device} is there twice; give each device once")
            parsed[key] = size
        return parsed or None

    def arguments(self) -> dict[str, Any]:
        """Keyword arguments for `from_pretrained`; none for a model on one device."""
        given = {"device_map": self.map, "max_memory": self.memory, "offload_folder": self.offload_folder}
        return {name: value for name, value in given.items() if value is not None}


def _values(device_map: str | dict[str, int | str] | None) -> tuple[int | str, ...]:
    return tuple(device_map.values()) if isinstance(device_map, dict) else ()
