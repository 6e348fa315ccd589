"""Which datastores go with a tokenizer: those the user names, else the ones that come with the project."""

import os
from collections.abc import Iterable
from pathlib import Path

from spectra.datastore.card import check_tokenizer, read_card
from spectra.datastore.layout import CARD
from spectra.datastore.store import Store
from spectra.io.resources import shipped

FOLDER = shipped("datastores")


def stores_for(sha256: str, given: Iterable[str | os.PathLike[str]] = (), *, model: str = "this model") -> list[Store]:
    """The stores named, and those in `FOLDER` that fit unless a refined one was named. sha256: of the tokenizer.

    Raises SpectraError for a named one that is missing, damaged or made for another tokenizer, and for a damaged one.
    """
    stores = []
    for path in given:
        store = Store.open(Path(path))
        check_tokenizer(store.card, sha256, model)
        stores.append(store)
    if any(store.refined for store in stores):
        return stores
    for file in sorted(FOLDER.glob(f"*/{CARD}")):
        card = read_card(file.parent)
        if card["tokenizer_sha256"] == sha256 and card["refined"]:
            stores.append(Store.open(file.parent))
    return stores
