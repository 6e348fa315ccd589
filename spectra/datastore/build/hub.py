"""Data sets of the Hugging Face hub, streamed: `hf:NAME[:SPLIT[:PART]]`, at the revision the hub names first.

PART: a folder of the data set where it holds a slash, else one of its configurations. A data set that is a loading
script, which `datasets` no longer runs, is read from the hub's own conversion to Parquet.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from spectra.datastore.build.readers import Row
from spectra.errors import SpectraError

PREFIX = "hf:"
CONVERTED = "refs/convert/parquet"
"""The branch on which the hub keeps a data set as Parquet, in a folder for each configuration."""


@dataclass(frozen=True, slots=True)
class CorpusRecipe:
    """A corpus that has a name of its own. about: what it is, and what it is not, for the command's help."""

    place: str
    about: str


RECIPES = {
    "ultrachat": CorpusRecipe(
        "hf:HuggingFaceH4/ultrachat_200k:train_sft",
        "answers of UltraChat 200k, a filtered part of UltraChat, for chat",
    ),
    "the-stack-smol": CorpusRecipe(
        "hf:bigcode/the-stack-smol:train:data/python",
        "the Python files of the-stack-smol, a sample of 10,000 random files a language out of The Stack; the paper's "
        "code store is made from The Stack itself (3.1 TB in all), so this one knows less",
    ),
}


@dataclass(frozen=True, slots=True)
class DataSet:
    """The parts of a place."""

    name: str
    split: str
    part: str

    @classmethod
    def of(cls, place: str) -> "DataSet":
        name, _, rest = place.removeprefix(PREFIX).partition(":")
        split, _, part = rest.partition(":")
        if not name:
            raise SpectraError("corpus", f"{place} names no data set; write hf:OWNER/NAME")
        return cls(name, split or "train", part)


def hub_facts(place: str) -> dict[str, Any]:
    """Name and revision, so that a store says exactly what it was made of."""
    revision, _ = _revision(place)
    return {"name": place, "revision": revision}


def hub_rows(place: str) -> Iterator[Row]:
    """The rows of a data set, streamed."""
    try:
        from datasets import load_dataset
    except ImportError as error:
        raise SpectraError("corpus", f"{place} needs the datasets package; pip install datasets") from error
    data = DataSet.of(place)
    revision, converted = _revision(place)
    which = {}
    if data.part:
        which["data_dir" if converted or "/" in data.part else "name"] = data.part
    if converted:
        revision = CONVERTED
    try:
        rows = load_dataset(data.name, **which, split=data.split, streaming=True, revision=revision)
        for number, row in enumerate(rows, 1):
            yield Row(f"{place} row {number}", row)
    except Exception as error:
        raise _unreachable(place, error) from error


def _revision(place: str) -> tuple[str | None, bool]:
    """(the commit to read, whether it is of the hub's conversion)."""
    name = DataSet.of(place).name
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


def _unreachable(place: str, error: Exception) -> SpectraError:
    first = (str(error).strip().splitlines() or [type(error).__name__])[0]
    return SpectraError("corpus", f"{place} cannot be read ({first[:160]}); check the name and the connection")
