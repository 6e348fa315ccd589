"""What methods may draft from besides the text: datastores and draft models in a target's token ids. Handed to them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from spectra.budget.weights import BUILT_IN, FILE, Weights, read_weights
from spectra.drafters.continuations import NGramStore
from spectra.drafters.draft_model import Draft
from spectra.drafters.near_certain import TableOf
from spectra.drafters.remembering import Recalled, Remembered
from spectra.errors import SpectraError
from spectra.io.hashes import tokenizer_sha256

if TYPE_CHECKING:
    from spectra.datastore.store import Store
    from spectra.target.huggingface import HuggingFaceTarget

Drafts = Sequence[Draft] | Callable[[], Sequence[Draft]]


def folders(field: str, given: Iterable[str | os.PathLike[str]]) -> list[str]:
    """Their names. Raises SpectraError for `field` where one stands for a list: its letters are no folders."""
    if isinstance(given, str | os.PathLike):
        raise SpectraError(field, f"{os.fspath(given)!r} is no list; give [{os.fspath(given)!r}]")
    try:
        return [os.fspath(one) for one in given]
    except TypeError:
        raise SpectraError(field, f"{given!r} is no list of paths; give one") from None


def path(field: str, given: str | os.PathLike[str]) -> Path:
    """Raises SpectraError for `field` where it is none, or blank."""
    if not isinstance(given, str | os.PathLike):
        raise SpectraError(field, f"{given!r} is no path; give one")
    if not os.fspath(given).strip():
        raise SpectraError(field, "it is blank; give a path, `.` for this folder")
    if "\0" in os.fspath(given):
        raise SpectraError(field, f"{given!r} has a NUL character, which no path has; give one without")
    return Path(given)


class Resources:
    """stores: datastores. drafts: draft models, the best first, or a function that loads them when first asked for.

    memory: finished answers, which those of this process join. weights: what guesses of this model are worth.
    near_certain: the table of the refined stores, where it is kept for longer than this.
    """

    def __init__(
        self,
        stores: Sequence[NGramStore] = (),
        drafts: Drafts = (),
        memory: Remembered | None = None,
        weights: Weights = BUILT_IN,
        near_certain: TableOf | None = None,
    ) -> None:
        self.stores = stores
        self.near_certain = near_certain or TableOf(stores)
        self.memory = memory
        self.weights = weights
        self._drafts = drafts

    @property
    def drafts(self) -> Sequence[Draft]:
        """The draft models, the best first. Where they load when first asked for, raises what loading raises."""
        if callable(self._drafts):
            self._drafts = self._drafts()
        return self._drafts

    def rehearsing(self) -> Resources:
        """The same for answers that nobody asked for: they do not join the memory."""
        memory = None if self.memory is None else Recalled(self.memory)
        return Resources(self.stores, lambda: self.drafts, memory, self.weights, self.near_certain)

    def with_stores(self, more: Sequence[NGramStore]) -> Resources:
        """The same and these stores, which come first."""
        return Resources([*more, *self.stores], lambda: self.drafts, self.memory, self.weights)

    def with_drafts(self, drafts: Drafts) -> Resources:
        """The same with these draft models in the place of its own."""
        return Resources(self.stores, drafts, self.memory, self.weights, self.near_certain)


def load_resources(
    target: HuggingFaceTarget,
    datastores: Iterable[str | os.PathLike[str]] | None = (),
    drafts: Iterable[str | os.PathLike[str]] = (),
    remember: str | os.PathLike[str] | None = None,
    estimates: str | os.PathLike[str] | None = None,
) -> Resources:
    """Open what fits a target that has a tokenizer.

    datastores: folders of stores; () are those that come with the project and fit the tokenizer, None is none. drafts:
    folders or hub ids of draft models, the best first; without any those that come with the project, loaded when
    a method asks for them. remember: a folder whose answers are guessed from, and which finished answers join.
    estimates: a file of `python -m spectra.bench fit`; without one what lies beside the first store, else what is built
    in. Raises SpectraError for what is missing, damaged or made for another tokenizer.
    """
    from spectra.datastore.shipped import stores_for
    from spectra.target.draft_model import load_drafts

    wanted = None if datastores is None else folders("datastores", datastores)
    named = folders("drafts", drafts)
    if wanted is not None and target.tokenizer is None:
        raise SpectraError("datastores", "this target has no tokenizer to compare with theirs; give None for no store")
    stores = [] if wanted is None else stores_for(tokenizer_sha256(target.tokenizer), wanted, model=target.name)
    memory = None if remember is None else memory_of(target, remember)
    given = load_drafts(named, target) if named else lambda: load_drafts((), target)
    return Resources(stores, given, memory, weights_for(stores, estimates))


def weights_for(stores: Sequence[Store], estimates: str | os.PathLike[str] | None = None) -> Weights:
    """Of the file named, else of the first store that has one in its folder, else those built in."""
    beside = (store.folder / FILE for store in stores)
    file = next((one for one in beside if one.is_file()), None) if estimates is None else path("estimates", estimates)
    return BUILT_IN if file is None else read_weights(file)


def memory_of(target: HuggingFaceTarget, folder: str | os.PathLike[str]) -> Remembered:
    """What is remembered in a folder of this model's answers, opened once for a model in memory.

    A target without a tokenizer has a memory of its own: its name alone says what its token ids mean.
    """
    from spectra.datastore.memory import open_memory
    from spectra.target.known_models import learned_of

    known = learned_of(target.model).memories
    place = str(path("remember", folder).resolve())
    if place not in known:
        tokenizer = "" if target.tokenizer is None else tokenizer_sha256(target.tokenizer)
        known[place] = open_memory(Path(place), tokenizer, target.name, vocabulary=target.vocabulary)
    found: Remembered = known[place]
    return found
