"""What a datastore is made of: files, source trees and hub data sets, one stream of texts. Nothing is held whole.

A place is a file (its kind goes by its name), a folder of Python sources, `stdlib` or `hf:NAME[:SPLIT[:PART]]`.
"""

import hashlib
import os
import platform
import sysconfig
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from spectra.datastore.build import readers
from spectra.datastore.build.hub import PREFIX, hub_facts, hub_rows
from spectra.datastore.build.readers import Row, Text, texts_of
from spectra.datastore.sources import digest
from spectra.errors import SpectraError
from spectra.io.hashes import file_sha256

STDLIB = "stdlib"
NOT_LIBRARY = {"test", "tests", "idle_test", "site-packages", "dist-packages", "__pycache__"}


@dataclass
class Corpus:
    """One pass over `places`, in order. A file that cannot be read or a malformed row raises SpectraError.

    where: field -> values; rows of jsonl, parquet and hub data sets are taken when each field has one of them.
    exclude: hashes of prompts; texts that answer one are left out. excluded: how many were.
    skip_bad: malformed rows and undecodable sources are counted in `bad` instead. filtered: rows `where` left out.
    position: bytes read so far, of `size` (0: not known).
    """

    places: Sequence[str]
    where: Mapping[str, Sequence[str]] = field(default_factory=dict)
    skip_bad: bool = False
    exclude: frozenset[bytes] = frozenset()
    bad: int = 0
    filtered: int = 0
    excluded: int = 0
    position: int = 0

    def __post_init__(self) -> None:
        if not self.places:
            raise SpectraError("corpus", "it names nothing; give files, a folder, stdlib or hf:NAME")
        for place in self.places:
            if not place.strip():
                raise SpectraError("corpus", "a name is blank; give files, a folder, stdlib or hf:NAME")
            if not place.startswith(PREFIX):
                files_of(place)

    @property
    def size(self) -> int:
        """Bytes of all files."""
        local = [place for place in self.places if not place.startswith(PREFIX)]
        return sum(file.stat().st_size for place in local for file in files_of(place))

    def facts(self) -> list[dict[str, Any]]:
        """name, bytes and sha256 of each place (a hub data set: name and revision). Reads every file once."""
        return [hub_facts(place) if place.startswith(PREFIX) else _facts(place) for place in self.places]

    def __iter__(self) -> Iterator[Text]:
        self.bad = 0
        self.filtered = 0
        self.excluded = 0
        self.position = 0
        for place in self.places:
            if place.startswith(PREFIX):
                yield from self._rows(hub_rows(place))
                continue
            for file in files_of(place):
                before = self.position
                yield from self._file(file, before)
                self.position = before + file.stat().st_size

    def _file(self, file: Path, before: int) -> Iterator[Text]:
        def read_to(position: int) -> None:
            self.position = before + position

        kind = readers.kind_of(file)
        try:
            if kind == "py":
                yield from self._source(file)
            elif kind == "txt":
                yield from map(Text, readers.paragraphs(file, read_to))
            elif kind == "parquet":
                yield from self._rows(readers.parquet_rows(file, self.where, read_to))
            else:
                yield from self._rows(readers.json_rows(file, read_to))
        except readers.UNREADABLE as error:
            problem = f"{file} cannot be read ({readers.reason(error)}); give a whole file"
            raise SpectraError("corpus", problem) from error

    def _rows(self, rows: Iterable[Row]) -> Iterator[Text]:
        for place, data in rows:
            if isinstance(data, dict) and not all(str(data.get(name)) in self.where[name] for name in self.where):
                self.filtered += 1
                continue
            try:
                texts = list(texts_of(data))
            except ValueError as error:
                self._complain(f"{place} {error}", error)
                continue
            for text in texts:
                if text.prompt is not None and self.exclude and digest(text.prompt) in self.exclude:
                    self.excluded += 1
                else:
                    yield text

    def _source(self, file: Path) -> Iterator[Text]:
        try:
            yield Text(readers.source(file))
        except (SyntaxError, UnicodeError, LookupError) as error:  # the last: of a codec that is none of text
            self._complain(f"{file} is not Python source text", error)

    def _complain(self, problem: str, error: Exception) -> None:
        if not self.skip_bad:
            raise SpectraError("corpus", f"{problem}; mend it or pass --skip-bad") from error
        self.bad += 1


def files_of(place: str) -> list[Path]:
    """The files of a place, sorted."""
    path = _path_of(place)
    if not os.path.exists(path):  # noqa: PTH110 - Path.exists raises for a name that is too long
        raise SpectraError("corpus", f"{place[:80]} is not there; give files, a folder, stdlib or hf:NAME")
    if path.is_dir():
        below = sorted(file for file in path.rglob("*.py") if file.is_file())
        if place == STDLIB:
            below = [file for file in below if not NOT_LIBRARY & set(file.relative_to(path).parts)]
        if not below:
            raise SpectraError("corpus", f"{path} holds no *.py file; name files of other kinds one by one")
        return below
    if not path.is_file():
        raise SpectraError("corpus", f"{place} is a device or a pipe; give files, a folder, stdlib or hf:NAME")
    readers.kind_of(path)
    return [path]


def _path_of(place: str) -> Path:
    return Path(sysconfig.get_paths()["stdlib"]) if place == STDLIB else Path(place)


def _facts(place: str) -> dict[str, Any]:
    files = files_of(place)
    path = _path_of(place)
    size = sum(file.stat().st_size for file in files)
    try:
        if not path.is_dir():
            return {"name": path.name, "bytes": size, "sha256": file_sha256(path)}
        listing = "".join(f"{file.relative_to(path).as_posix()} {file_sha256(file)}\n" for file in files)
    except OSError as error:
        raise SpectraError("corpus", f"{error.filename} cannot be read ({error.strerror}); make it readable") from error
    name = f"Python {platform.python_version()} standard library" if place == STDLIB else f"{path.resolve().name}/"
    return {"name": name, "bytes": size, "files": len(files), "sha256": hashlib.sha256(listing.encode()).hexdigest()}
