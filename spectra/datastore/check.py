"""What is wrong with a datastore: the card, the bytes of every file, the index, the tokenizer. No torch."""

from pathlib import Path
from typing import Any

import numpy as np

from spectra.datastore.card import altered_files, check_tokenizer, read_card
from spectra.datastore.finish import CORPUS, TEXTS
from spectra.datastore.language import Language
from spectra.datastore.store import Store
from spectra.errors import SpectraError


def problems(folder: Path) -> list[str]:
    """A line for each; empty when the store is whole."""
    try:
        card = read_card(folder)
    except SpectraError as error:
        return [str(error)]
    found = [f"datastore: {folder / name} was altered; build it again" for name in altered_files(folder, card)]
    try:
        if len(Store.open(folder)) != card["index"]["contexts"]:
            found.append(f"datastore: {folder} holds another index than its card says; build it again")
    except SpectraError as error:
        found.append(str(error))
    return found or list(_text_problems(folder, card))


def tokenizer_problems(folder: Path, language: Language) -> list[str]:
    """What keeps this tokenizer from using the store."""
    try:
        check_tokenizer(read_card(folder), language.sha256, language.model)
    except SpectraError as error:
        return [str(error)]
    return []


def _text_problems(folder: Path, card: dict[str, Any]) -> list[str]:
    texts, tokens = (np.load(folder / name, mmap_mode="r", allow_pickle=False) for name in (TEXTS, CORPUS))
    ends = np.cumsum(texts["length"], dtype=np.int64)
    whole = len(texts) == card["kept"]["texts"] and len(tokens) == card["kept"]["tokens"] == int(ends[-1])
    return [] if whole else [f"datastore: {folder}: {TEXTS} and {CORPUS} do not fit together; build it again"]
