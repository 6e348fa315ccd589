"""What methods may draft from besides the text: datastores and draft models in a target's token ids. Handed to them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from spectra.drafters.continuations import NGramStore
from spectra.drafters.draft_model import Draft

if TYPE_CHECKING:
    from spectra.target.huggingface import HuggingFaceTarget

Drafts = Sequence[Draft] | Callable[[], Sequence[Draft]]


class Resources:
    """stores: datastores. drafts: draft models, the best first, or a function that loads them when first asked for."""

    def __init__(self, stores: Sequence[NGramStore] = (), drafts: Drafts = ()) -> None:
        self.stores = stores
        self._drafts = drafts

    @property
    def drafts(self) -> Sequence[Draft]:
        if callable(self._drafts):
            self._drafts = self._drafts()
        return self._drafts

    def with_stores(self, more: Sequence[NGramStore]) -> Resources:
        """The same and these stores, which come first."""
        return Resources([*more, *self.stores], lambda: self.drafts)


def load_resources(
    target: HuggingFaceTarget,
    datastores: Iterable[str | os.PathLike[str]] | None = (),
    drafts: Iterable[str | os.PathLike[str]] = (),
) -> Resources:
    """Open what fits a target that has a tokenizer.

    datastores: folders of stores; () are those that come with the project and fit the tokenizer, None is none. drafts:
    folders or hub ids of draft models, the best first; without any those that come with the project, loaded when
    a method asks for them. Raises SpectraError for what is missing, damaged or made for another tokenizer.
    """
    from spectra.datastore.shipped import fitting_stores
    from spectra.target.draft_model import load_drafts

    stores = [] if datastores is None else fitting_stores(target.tokenizer, datastores, model=target.name)
    named = list(drafts)
    return Resources(stores, load_drafts(named, target) if named else lambda: load_drafts((), target))
