"""Which tokens end an answer, by what a model's config says. No torch."""

from numbers import Integral
from typing import Any

from spectra.errors import SpectraError


def end_ids(said: Any) -> frozenset[int]:
    """Of a config's `eos_token_id`: one id, several or none. Raises SpectraError for what is no token id."""
    ids = list(said) if isinstance(said, list | tuple) else [] if said is None else [said]
    if not all(isinstance(one, Integral) and not isinstance(one, bool) for one in ids):
        raise SpectraError(
            "model", f"its eos_token_id is {said!r}, which is no token id; mend generation_config.json or config.json"
        )
    return frozenset(ids)
