"""Which datastores go with a tokenizer: those the user names, else the ones that come with the project."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from spectra.datastore.card import FILE, check_tokenizer, read_card, tokenizer_sha256
from spectra.datastore.store import Store

FOLDER = Path(__file__).parents[2] / "datastores"


def fitting_stores(
    tokenizer: Any, given: Iterable[str | os.PathLike[str]] = (), *, model: str = "this model", folder: Path = FOLDER
) -> list[Store]:
    """The stores named, and those in `folder` that fit unless a refined one was named.

    Raises SpectraError for a named one that is missing, damaged or made for another tokenizer, and for a damaged one.
    """
    sha256 = tokenizer_sha256(tokenizer)
    stores = []
    for path in given:
        store = Store.open(Path(path))
        check_tokenizer(store.card, sha256, model)
        stores.append(store)
    if any(store.refined for store in stores):
        return stores
    for card in sorted(folder.glob(f"*/{FILE}")):
        if read_card(card.parent)["tokenizer_sha256"] == sha256 and (store := Store.open(card.parent)).refined:
            stores.append(store)
    return stores
