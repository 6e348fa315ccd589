"""One sequence of a batch, as it is asked for."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from spectra.method import Method
from spectra.settings import Limits, Sampling

OPTIONS = ("processors", "prefix")
"""What `Request.options` may hold."""


@dataclass(frozen=True, slots=True)
class Request:
    """A prompt and how it is answered; the fields are `decode`'s.

    method: one of its own, for it learns as it goes. limits: None is 256 new tokens and the target's end-of-sequence
    ids. options: handed to `target.start`, see `OPTIONS`. name: what errors call it, "" for its number.
    """

    prompt: Sequence[int]
    method: Method
    sampling: Sampling = field(default_factory=Sampling)
    limits: Limits | None = None
    explain: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)
    name: str = ""

    def called(self, number: int) -> str:
        """The name of the request of this number in an error."""
        return self.name or f"request {number}"
