"""Files to rows and texts, a piece at a time: jsonl and txt (plain, .gz, .xz, .bz2), parquet, Python source."""

import bz2
import codecs
import gzip
import json
import lzma
import tokenize
import zlib
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any

from spectra.datastore.rows import FIELDS
from spectra.errors import SpectraError

UNREADABLE = (OSError, EOFError, lzma.LZMAError, zlib.error, UnicodeDecodeError)
"""What reading raises for a file that is cut short, damaged or not to be opened."""
KINDS = {".jsonl": "jsonl", ".ndjson": "jsonl", ".txt": "txt", ".parquet": "parquet", ".py": "py"}
PACKED: dict[str, Any] = {".gz": gzip.open, ".xz": lzma.open, ".bz2": bz2.open}
LONGEST = 1 << 20
"""Characters of a paragraph after which it is cut, so that no file is held whole."""

Told = Callable[[int], None]


def kind_of(file: Path) -> str:
    suffixes = [suffix.lower() for suffix in file.suffixes]
    if suffixes and suffixes[-1] in PACKED and KINDS.get(suffixes[-2] if suffixes[1:] else "") in ("jsonl", "txt"):
        return KINDS[suffixes[-2]]
    if suffixes and suffixes[-1] in KINDS:
        return KINDS[suffixes[-1]]
    raise SpectraError("corpus", f"{file.name} is of no known kind; give jsonl or txt (also .gz, .xz), parquet or py")


def json_rows(file: Path, told: Told) -> Iterator[tuple[str, Any]]:
    """(where, row) of each line that is not blank; a line that is not JSON gives a row that is no object."""
    for number, line in enumerate(_lines(file, told), 1):
        if line.strip():
            try:
                row = json.loads(line)
            except (ValueError, RecursionError):
                row = None
            yield f"{file} line {number}", row


def paragraphs(file: Path, told: Told) -> Iterator[str]:
    """Text between blank lines."""
    decode = codecs.getincrementaldecoder("utf-8")().decode
    held: list[str] = []
    length = 0
    for line in _lines(file, told):
        text = decode(line)
        if text.strip() and length < LONGEST:
            held.append(text)
            length += len(text)
        else:
            if held:
                yield "".join(held).strip("\r\n")
            held, length = ([text], len(text)) if text.strip() else ([], 0)
    decode(b"", True)
    if held:
        yield "".join(held).strip("\r\n")


def parquet_rows(file: Path, wanted: Collection[str], told: Told) -> Iterator[tuple[str, Any]]:
    """(where, row) with the columns that matter, a few hundred rows at a time."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise SpectraError("corpus", f"{file.name} needs pyarrow; pip install pyarrow") from error
    try:
        with pyarrow.parquet.ParquetFile(file) as table:
            columns = [name for name in table.schema_arrow.names if name in FIELDS or name in wanted]
            number, each = 0, file.stat().st_size / max(1, table.metadata.num_rows)
            for batch in table.iter_batches(batch_size=256, columns=columns):
                for row in batch.to_pylist():
                    number += 1
                    yield f"{file} row {number}", row
                told(int(number * each))
    except pyarrow.ArrowException as error:
        raise SpectraError("corpus", f"{file} cannot be read ({error}); give a whole file") from error


def source(file: Path) -> str:
    """A Python file's text, in the encoding it declares."""
    with tokenize.open(file) as lines:
        return lines.read()


def _lines(file: Path, told: Told) -> Iterator[bytes]:
    """Lines (those of a txt in pieces of 1 MiB at most); `told` hears how far the file was read."""
    whole = kind_of(file) == "jsonl"
    with ExitStack() as open_files:
        raw: IO[bytes] = open_files.enter_context(file.open("rb"))
        stream = raw
        if file.suffix.lower() in PACKED:
            stream = open_files.enter_context(PACKED[file.suffix.lower()](raw, "rb"))
        while line := stream.readline(-1 if whole else LONGEST):
            told(raw.tell())
            yield line
