"""Settings of the proposer inside vLLM, checked once: vLLM's `additional_config={"spectra": {...}}`. No torch."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from spectra.errors import SpectraError
from spectra.settings import check_number

KEY = "spectra"
"""Our place in vLLM's `additional_config`."""
MAXIMA = {"requests": 1_000_000, "tokens": 1_000_000_000, "context": 10_000_000}
"""What the numbers may be at most."""


@dataclass(frozen=True, slots=True)
class ServingSettings:
    """stores: folders of datastores to retrieve from. tokenizer: sha256 of the model's tokenizer, which all must fit
    ("" without stores). requests, tokens: how many requests, and how many tokens of all together, are remembered; the
    least recently used go. context: the last tokens of a prompt that are read.
    """

    stores: tuple[str, ...] = ()
    tokenizer: str = ""
    requests: int = 512
    tokens: int = 200_000
    context: int = 4096

    def __post_init__(self) -> None:
        for name, high in MAXIMA.items():
            check_number(name, getattr(self, name), 1, high, whole=True)
        if not isinstance(self.tokenizer, str):
            raise SpectraError("tokenizer", f"{self.tokenizer!r} is not a checksum; give the sha256 of a tokenizer")
        if self.stores and not self.tokenizer:
            raise SpectraError("tokenizer", "stores were named without it; start with `python -m spectra.serving`")

    @classmethod
    def of(cls, additional_config: object) -> "ServingSettings":
        """From vLLM's `additional_config`; the defaults where it has no entry of SPECTRA's. Raises SpectraError."""
        given = additional_config.get(KEY, {}) if isinstance(additional_config, Mapping) else {}
        if not isinstance(given, Mapping):
            raise SpectraError(KEY, f"{given!r} is not a mapping; give settings by name")
        known = {field.name for field in fields(cls)}
        if unknown := sorted(str(name) for name in set(given) - known):
            raise SpectraError(unknown[0], f"it is no setting; choose from {', '.join(sorted(known))}")
        stores = given.get("stores", ())
        if not isinstance(stores, list | tuple) or not all(isinstance(store, str) for store in stores):
            raise SpectraError("stores", f"{stores!r} is not a list; give one of folders")
        return cls(**{**given, "stores": tuple(stores)})

    def to_dict(self) -> dict[str, Any]:
        """What `of` reads back, as JSON can hold it."""
        return {KEY: {**asdict(self), "stores": list(self.stores)}}
