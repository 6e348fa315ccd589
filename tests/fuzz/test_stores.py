"""A store's folder with a byte flipped, a file cut or a card changed and sealed anew: told, never guessed from."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import stores
from damage import changed, flip, is_one_short_line, places, values
from hypothesis import example, given
from hypothesis import strategies as st
from words import save_model

from spectra.datastore.card import read_card, seal
from spectra.datastore.examine import describe_card, problems
from spectra.datastore.layout import CARD
from spectra.datastore.shipped import stores_for
from spectra.datastore.store import Store
from spectra.errors import SpectraError


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("whole")
    corpus = stores.write_rows(place / "corpus.jsonl", stores.rows(12))
    assert stores.build(corpus, place / "store", save_model(place / "model"), "--keep", "8") == 0
    return place / "store"


@pytest.fixture
def copy(whole: Path, tmp_path: Path) -> Path:
    return tmp_path / "store"


def fresh(whole: Path, copy: Path) -> Path:
    shutil.rmtree(copy, ignore_errors=True)
    return Path(shutil.copytree(whole, copy))


def is_refused(folder: Path) -> None:
    for found in problems(folder):
        assert len(found) <= 700 and len(found.splitlines()) == 1
    assert problems(folder)
    with pytest.raises(SpectraError) as refused:
        Store.open(folder)
    assert refused.value.field == "datastore" and is_one_short_line(refused.value)


def test_as_it_is(whole: Path) -> None:
    assert problems(whole) == []
    assert Store.open(whole).successors([1, 2, 3]) is not None


@given(st.integers(0, 7), st.integers(0, 2**20), st.integers(1, 255))
def test_a_flipped_byte(whole: Path, copy: Path, which: int, at: int, mask: int) -> None:
    folder = fresh(whole, copy)
    files = sorted(file for file in folder.iterdir() if file.stat().st_size)
    file = files[which % len(files)]
    before = read_card(folder)
    flip(file, at, mask)
    if file.name == CARD and read_or_none(folder) == before:
        return  # white space between two values
    is_refused(folder)


@pytest.mark.all_cases
def test_every_byte(whole: Path, copy: Path) -> None:
    """One bit of each, all files through."""
    folder = fresh(whole, copy)
    before = read_card(folder)
    for file in sorted(folder.iterdir()):
        for at in range(file.stat().st_size):
            flip(file, at, 1 << at % 8)
            if file.name != CARD or read_or_none(folder) != before:
                with pytest.raises(SpectraError) as refused:
                    Store.open(folder)
                assert refused.value.field == "datastore" and is_one_short_line(refused.value)
            flip(file, at, 1 << at % 8)
    assert problems(folder) == []


def read_or_none(folder: Path) -> dict[str, Any] | None:
    try:
        return read_card(folder)
    except SpectraError:
        return None


@given(st.integers(0, 9), st.integers(0, 2**20))
def test_a_file_cut_short_or_gone(whole: Path, copy: Path, which: int, length: int) -> None:
    folder = fresh(whole, copy)
    files = sorted(file for file in folder.iterdir() if file.stat().st_size)
    file = files[which % len(files)]
    size = file.stat().st_size
    if length % 7:
        file.write_bytes(file.read_bytes()[: length % size])
    else:
        file.unlink()
    is_refused(folder)


CARD_PLACES = [
    *[("files",), ("files", "blocks.npy"), ("files", "blocks.npy", "bytes"), ("index",), ("index", "order")],
    *[("index", "contexts"), ("kept",), ("kept", "texts"), ("seen",), ("dropped",), ("corpus",), ("settings",)],
    *[("name",), ("model",), ("tokenizer_sha256",), ("refined",), ("sources",), ("licence",), ("bytes",)],
    *[("perplexity",), ("perplexity", "edges"), ("perplexity", "cutoff")],
]  # fmt: skip


@given(st.sampled_from(CARD_PLACES), values)
@example(("files",), {"../model/config.json": {"bytes": 1, "sha256": ""}})
@example(("files",), {"\0": {"bytes": 1, "sha256": ""}})
@example(("files", "blocks.npy"), 5)
@example(("index", "order"), "x")
@example(("index", "order"), 10**30)
@example(("kept",), None)
@example(("dropped",), {"": [None]})
@example(("dropped",), {"": "0"})
@example(("dropped",), {"\ud800": True})
@example(("corpus",), [{"name": "x"}])
@example(("perplexity", "cutoff"), None)
@example(("name",), "\ud800")
@example(("name",), "<b>")
def test_a_card_changed_and_sealed_anew(whole: Path, copy: Path, place: tuple[str, ...], value: Any) -> None:
    folder = fresh(whole, copy)
    card = json.loads((folder / CARD).read_text())
    (folder / CARD).write_text(json.dumps(seal(changed(card, place, value))))
    try:
        card = read_card(folder)
        "\n".join(describe_card(card)).encode()
        store = Store.open(folder)
        store.successors([1, 2, 3])
        store.name.encode()
        stores_for(card["tokenizer_sha256"], [folder])
        problems(folder)
    except SpectraError as error:
        assert is_one_short_line(error)


def test_a_card_that_is_nested_as_deeply_as_can_be_read(whole: Path, copy: Path) -> None:
    """It could be read and not written again, which is how its checksum is taken."""
    folder = fresh(whole, copy)
    card = (folder / CARD).read_text().rstrip().removesuffix("}")
    for depth in range(850, 1000):
        (folder / CARD).write_text(f'{card}, "more": {"[" * depth + "]" * depth}}}')
        with pytest.raises(SpectraError) as refused:
            read_card(folder)
        assert is_one_short_line(refused.value)


def test_every_place_of_the_card_is_tried(whole: Path) -> None:
    card = json.loads((whole / CARD).read_text())
    assert set(CARD_PLACES) <= set(places(card)) | {("perplexity", "edges")}
