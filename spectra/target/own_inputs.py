"""What a program put between `generate` and a model: a cache of its own, or inputs made by a function of its own."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import torch

from spectra.errors import SpectraError


def check_cache(name: str, cache: Any) -> None:
    """Raise SpectraError for one that is filled, or whose numbers need not be those that the model computed."""
    if _length(cache) > 0:
        raise SpectraError(name, "a filled cache is not supported; leave it out")
    kinds = [type(cache), *map(type, getattr(cache, "layers", None) or ())]
    odd = [one for one in kinds if not one.__module__.startswith("transformers.") or "Quant" in one.__name__]
    if odd:
        raise SpectraError(name, f"{odd[0].__name__} may hold other numbers than the model computed; leave it out")


def _length(cache: Any) -> int:
    try:
        return int(cache.get_seq_length())
    except ValueError:  # it holds recurrent states alone; the model is refused when it is measured
        return 0


def check_prepared(
    model: Any, input_ids: torch.Tensor, given: Mapping[str, Any], places: torch.Tensor, read: Collection[str]
) -> None:
    """Raise SpectraError where the model's `prepare_inputs_for_generation` is none of transformers and makes something
    else of ids and what is `given` beside them than ids, places [rows, ids] (-1: padding) and what is `read`.
    """
    prepare = getattr(model, "prepare_inputs_for_generation", None)
    if prepare is None or str(getattr(prepare, "__module__", "")).startswith("transformers."):
        return
    try:
        made = dict(prepare(input_ids, **{**given, "is_first_iteration": True}))
    except Exception as error:
        what = f"its own prepare_inputs_for_generation fails ({type(error).__name__}: {str(error)[:120]})"
        raise SpectraError("model", f"{what}; call generate without custom_generate") from error
    ids, positions = made.pop("input_ids", None), made.pop("position_ids", None)
    odd = [name for name, value in made.items() if name not in read and name not in given and _says(value)]
    if ids is None or ids.shape != input_ids.shape or not torch.equal(ids, input_ids):
        odd.append("input_ids")
    if positions is not None and not (
        positions.shape[-1] == places.shape[-1] and bool(((positions == places) | (places < 0)).all())
    ):
        odd.append("position_ids")
    if odd:
        what = f"its own prepare_inputs_for_generation makes {odd[0]} of its own"
        raise SpectraError("model", f"{what}; call generate without custom_generate")


def _says(value: Any) -> bool:
    return value is not None and value is not False and not (isinstance(value, Mapping) and not value)
