"""The card of a datastore: what it was made of, for which tokenizer, and checksums of every file and of itself.

Reading a card checks the card and the files' presence and sizes; `altered_files` reads every byte. No torch.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import NoneType
from typing import Any, TypeVar

from spectra.datastore.layout import CARD, TRIE
from spectra.errors import SpectraError
from spectra.io.bounded import read_whole
from spectra.io.hashes import file_sha256, json_sha256
from spectra.io.json_text import parse_json
from spectra.io.workdir import beside

Found = TypeVar("Found")
FORMAT, VERSION = "spectra-datastore", 1
CHECKED_BYTES = 64_000_000
"""Stores up to this size are checked byte for byte when they are opened; of larger ones the trie, which could end the
process where it is damaged, and the rest by `verify` only."""
SHAPE = {
    **dict.fromkeys(("name", "model", "tokenizer_sha256", "licence", "command"), str),
    **dict.fromkeys(("sources", "bytes"), int),
    "refined": bool,
    "kept": {"texts": int, "tokens": int},
    "seen": {"texts": int, "tokens": int},
    "index": dict.fromkeys(("order", "contexts", "successors", "ngrams"), int),
    "perplexity": {"edges": [float], "scored": [int], "kept": [int], "cutoff": (float, NoneType)},
    "corpus": [({"name": str, "revision": str}, {"name": str, "bytes": int, "sha256": str})],
    "dropped": {str: int},
    "settings": {},
    "files": {str: {"bytes": int, "sha256": str}},
}
"""What a card must hold: a kind of value, one of several, a list of one, a mapping with these names or any (`str`). A
number may be whole where `float` stands.
"""


def seal(card: Mapping[str, Any]) -> dict[str, Any]:
    """The card with its own checksum. A file's name need not be Unicode; what is none of it becomes question marks."""
    whole = json.loads(json.dumps(card, ensure_ascii=False).encode(errors="replace"))
    return {**whole, "sha256": card_sha256(whole)}


def card_sha256(card: Mapping[str, Any]) -> str:
    """Checksum of everything in the card but the checksum itself."""
    return json_sha256({key: card[key] for key in card if key != "sha256"})


def read_card(folder: Path) -> dict[str, Any]:
    """The card of a finished store. Raises SpectraError naming what is missing, cut short or altered."""
    return settled(folder, dict)


def settled(folder: Path, read: Callable[[dict[str, Any]], Found]) -> Found:
    """What `read` makes of the card of a finished store, while the files are that store's: asked again where another
    store took the folder meanwhile. Raises SpectraError like `read_card`, and what `read` raises.
    """
    while True:
        card = _sealed_card(folder)
        failed = None
        try:
            _check_files(folder, card)
            found = read(card)
        except (SpectraError, OSError) as error:
            failed = error
        if _sealed_card(folder)["sha256"] != card["sha256"]:
            continue
        if failed is not None:
            raise failed
        return found


def _sealed_card(folder: Path) -> dict[str, Any]:
    """The card, whatever the other files are. Raises SpectraError unless it is one and as it was sealed."""
    path = folder / CARD
    try:
        card = parse_json(read_whole(path), parse_constant=_no_constant)
    except FileNotFoundError:
        raise SpectraError("datastore", f"{folder} {_absence(folder)}") from None
    except OSError as error:
        fix = "name the folder of a finished datastore, one that may be read"
        raise SpectraError("datastore", f"{path} cannot be read ({error.strerror}); {fix}") from error
    except ValueError as error:
        raise SpectraError("datastore", f"{path} is not JSON; build it again") from error
    if not isinstance(card, dict) or card.get("format") != FORMAT:
        raise SpectraError("datastore", f"{path} is not the card of a datastore; name the folder of a finished one")
    if card.get("version") != VERSION:
        raise SpectraError(
            "datastore", f"{folder} has version {card.get('version')}, this program reads {VERSION}; build it again"
        )
    if not _is_as_sealed(card):
        raise SpectraError("datastore", f"{path} was altered (its checksum does not fit); build it again")
    if not _fits(card, SHAPE) or not all(_is_plain(name) for name in card["files"]):
        raise SpectraError("datastore", f"{path} lacks facts or holds others than a card has; build it again")
    return card


def _is_as_sealed(card: Mapping[str, Any]) -> bool:
    try:
        return bool(card.get("sha256") == card_sha256(card))
    except ValueError:  # nested too deeply
        return False


def _absence(folder: Path) -> str:
    """What is wrong with a folder without a card, and the fix."""
    if folder.is_dir():
        return f"has no {CARD}; name the folder of a finished datastore"
    old = beside(folder, "old")
    if (old / CARD).is_file():
        return f"was being replaced when that was stopped; build it again, or rename {old} to it"
    return "is not there; name the folder of a finished datastore"


def _check_files(folder: Path, card: Mapping[str, Any]) -> None:
    """Raise SpectraError unless the files are there in the sizes of the card."""
    for name, facts in card["files"].items():
        file = folder / name
        size = file.stat().st_size if file.is_file() else None
        if size is None:
            raise SpectraError("datastore", f"{folder} lacks {name}; build it again")
        if size != facts["bytes"]:
            raise SpectraError("datastore", f"{file} has {size} bytes, the card says {facts['bytes']}; build it again")


def check_tokenizer(card: Mapping[str, Any], sha256: str, model: str = "this model") -> None:
    """Raise SpectraError unless the store's ids mean the same to the tokenizer with this checksum."""
    if card["tokenizer_sha256"] != sha256:
        raise SpectraError(
            "datastore",
            f"{card['name']} was built for the tokenizer of {card['model']}, which is not that of {model}; "
            "build one with the --model that is given here, or none for the embedded model",
        )


def check_bytes(folder: Path, card: Mapping[str, Any]) -> None:
    """Raise SpectraError where a byte of a small store, or of any trie, is not the one its card was sealed with."""
    files = card["files"]
    small = sum(facts["bytes"] for facts in files.values()) <= CHECKED_BYTES
    for name in altered_files(folder, card, files if small else files.keys() & {TRIE}):
        raise SpectraError("datastore", f"{folder / name} was altered; build it again")


def altered_files(folder: Path, card: Mapping[str, Any], names: Iterable[str] | None = None) -> Iterator[str]:
    """Which of these files, or of all, do not have the bytes that the card was sealed with. Raises SpectraError where
    one cannot be read.
    """
    for name in card["files"] if names is None else names:
        try:
            same = file_sha256(folder / name) == card["files"][name]["sha256"]
        except OSError as error:
            problem = f"{folder / name} cannot be read ({error.strerror}); make it readable or build it again"
            raise SpectraError("datastore", problem) from error
        if not same:
            yield name


def _no_constant(text: str) -> None:
    raise ValueError(f"{text} is not a number")


def _fits(value: Any, shape: Any) -> bool:
    """Whether data has a shape, see `SHAPE`."""
    if isinstance(shape, tuple):
        return any(_fits(value, one) for one in shape)
    if isinstance(shape, dict) and str in shape:
        rows = value.items() if isinstance(value, dict) else [(None, None)]
        return all(_fits(name, str) and _fits(one, shape[str]) for name, one in rows)
    if isinstance(shape, dict):
        return isinstance(value, dict) and all(name in value and _fits(value[name], shape[name]) for name in shape)
    if isinstance(shape, list):
        return isinstance(value, list) and all(_fits(one, shape[0]) for one in value)
    if shape is str:
        return isinstance(value, str) and value == value.encode(errors="replace").decode()
    if shape in (int, float):
        return isinstance(value, int | shape) and not isinstance(value, bool) and 0 <= value < 2**63
    return isinstance(value, shape)


def _is_plain(name: str) -> bool:
    """Whether it is the name of a file in the folder itself."""
    return name == Path(name).name and name.isprintable()


def describe_files(folder: Path) -> dict[str, dict[str, Any]]:
    """name -> bytes and sha256, for every file in the folder but the card."""
    files = sorted(path for path in folder.iterdir() if path.name != CARD)
    return {path.name: {"bytes": path.stat().st_size, "sha256": file_sha256(path)} for path in files}
