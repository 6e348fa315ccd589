"""Data sets of the Hugging Face hub, streamed: `hf:NAME[:SPLIT[:PART]]`, at the revision the hub names first.

PART: a folder of the data set where it holds a slash, else one of its configurations.
"""

from collections.abc import Iterator
from typing import Any

from spectra.errors import SpectraError

RECIPES = {
    "ultrachat": "hf:HuggingFaceH4/ultrachat_200k:train_sft",
    "thestack": "hf:bigcode/the-stack-smol:train:data/python",
}
"""The corpora of the paper's two stores."""


def hub_facts(place: str) -> dict[str, Any]:
    """Name and revision, so that a store says exactly what it was made of."""
    name = _parts(place)[0]
    try:
        from huggingface_hub import HfApi

        revision = HfApi().dataset_info(name, timeout=10).sha
    except Exception as error:  # each kind of unreachable hub fails in its own way
        raise _unreachable(place, error) from error
    return {"name": place, "revision": revision}


def hub_rows(place: str) -> Iterator[tuple[str, Any]]:
    """(where, row) of a data set, streamed."""
    try:
        from datasets import load_dataset
    except ImportError as error:
        raise SpectraError("corpus", f"{place} needs the datasets package; pip install datasets") from error
    name, split, part = _parts(place)
    which = {"data_dir" if "/" in part else "name": part} if part else {}
    revision = hub_facts(place)["revision"]
    try:
        rows = load_dataset(name, **which, split=split, streaming=True, revision=revision)
        for number, row in enumerate(rows, 1):
            yield f"{place} row {number}", row
    except Exception as error:
        raise _unreachable(place, error) from error


def _parts(place: str) -> tuple[str, str, str]:
    """(name, split, part)."""
    name, split, part = [*place.removeprefix("hf:").split(":", 2), "", ""][:3]
    if not name:
        raise SpectraError("corpus", f"{place} names no data set; write hf:OWNER/NAME")
    return name, split or "train", part


def _unreachable(place: str, error: Exception) -> SpectraError:
    first = (str(error).strip().splitlines() or [type(error).__name__])[0]
    return SpectraError("corpus", f"{place} cannot be read ({first[:160]}); check the name and the connection")
