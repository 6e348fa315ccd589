"""What a visitor asked for, checked once. The page's ranges are narrower than the library's."""

from dataclasses import dataclass
from typing import Any

from spectra.errors import SpectraError
from spectra.settings import check_number

MOST_TOKENS = 2048
MOST_CHARACTERS = 20_000


@dataclass(frozen=True, slots=True)
class Request:
    """Raises `SpectraError` naming the field that is out of range."""

    prompt: str
    method: str
    max_new_tokens: int
    temperature: float
    seed: int
    top_p: float = 1.0

    def __post_init__(self) -> None:
        if not self.prompt.strip():
            raise SpectraError("prompt", "it is empty; write what the model should answer")
        if len(self.prompt) > MOST_CHARACTERS:
            raise SpectraError("prompt", f"{len(self.prompt)} characters; give at most {MOST_CHARACTERS}")
        check_number("max_new_tokens", self.max_new_tokens, 1, MOST_TOKENS, whole=True)
        check_number("temperature", self.temperature, 0, 2)
        check_number("seed", self.seed, 0, 2**53 - 1, whole=True)

    @classmethod
    def of(cls, prompt: object, method: object, max_new_tokens: object, temperature: object, seed: object) -> "Request":
        """From the fields of the form, whatever they hold."""
        return cls(
            prompt=str(prompt or ""),
            method=str(method or ""),
            max_new_tokens=_number("max_new_tokens", max_new_tokens),
            temperature=_number("temperature", temperature),
            seed=_number("seed", seed),
        )


def _number(field: str, value: object) -> Any:
    """A browser sends 256 as 256.0, and an empty field as None; the rest is left for the check to refuse."""
    if value is None:
        raise SpectraError(field, "it is empty; give a number")
    return int(value) if isinstance(value, float) and value.is_integer() else value
