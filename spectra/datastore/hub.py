"""Data sets of the Hugging Face hub, streamed: `hf:NAME[:SPLIT[:PART]]`, at the revision the hub names first.

PART: a folder of the data set where it holds a slash, else one of its configurations. A data set that is a loading
script, which `datasets` no longer runs, is read from the hub's own conversion to Parquet.
"""

from collections.abc import Iterator
from typing import Any

from spectra.errors import SpectraError

RECIPES = {
    "ultrachat": "hf:HuggingFaceH4/ultrachat_200k:train_sft",
    "thestack": "hf:bigcode/the-stack-smol:train:data/python",
}
"""The corpora of the paper's two stores."""
CONVERTED = "refs/convert/parquet"
"""The branch on which the hub keeps a data set as Parquet, in a folder for each configuration."""


def hub_facts(place: str) -> dict[str, Any]:
    """Name and revision, so that a store says exactly what it was made of."""
    return {"name": place, "revision": _revision(place)[0]}


def hub_rows(place: str) -> Iterator[tuple[str, Any]]:
    """(where, row) of a data set, streamed."""
    try:
        from datasets import load_dataset
    except ImportError as error:
        raise SpectraError("corpus", f"{place} needs the datasets package; pip install datasets") from error
    name, split, part = _parts(place)
    revision, converted = _revision(place)
    which = {"data_dir" if converted or "/" in part else "name": part} if part else {}
    try:
        rows = load_dataset(name, **which, split=split, streaming=True, revision=CONVERTED if converted else revision)
        for number, row in enumerate(rows, 1):
            yield f"{place} row {number}", row
    except Exception as error:
        raise _unreachable(place, error) from error


def _revision(place: str) -> tuple[str | None, bool]:
    """(the commit to read, whether it is of the hub's conversion)."""
    name = _parts(place)[0]
    script = f"{name.split('/')[-1]}.py"
    try:
        from huggingface_hub import HfApi

        info = HfApi().dataset_info(name, timeout=10)
        scripted = any(file.rfilename == script for file in info.siblings or ())
        if scripted:
            info = HfApi().dataset_info(name, revision=CONVERTED, timeout=10)
    except Exception as error:  # each kind of unreachable hub fails in its own way
        raise _unreachable(place, error) from error
    return info.sha, scripted


def _parts(place: str) -> tuple[str, str, str]:
    """(name, split, part)."""
    name, split, part = [*place.removeprefix("hf:").split(":", 2), "", ""][:3]
    if not name:
        raise SpectraError("corpus", f"{place} names no data set; write hf:OWNER/NAME")
    return name, split or "train", part


def _unreachable(place: str, error: Exception) -> SpectraError:
    first = (str(error).strip().splitlines() or [type(error).__name__])[0]
    return SpectraError("corpus", f"{place} cannot be read ({first[:160]}); check the name and the connection")
