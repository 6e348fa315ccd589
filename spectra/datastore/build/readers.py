"""Files to rows, a piece at a time, and rows to texts, each with the prompt it answers.

Reads jsonl and txt (plain, .gz, .xz, .bz2), parquet and Python source.
"""

import bz2
import codecs
import gzip
import lzma
import tokenize
import zlib
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NamedTuple

from spectra.errors import SpectraError
from spectra.io.bounded import ByLines, lines_of, open_regular
from spectra.io.json_text import parse_json

UNREADABLE = (OSError, EOFError, lzma.LZMAError, zlib.error, UnicodeDecodeError)
"""What reading raises for a file that is cut short, damaged or not to be opened."""
KINDS = {".jsonl": "jsonl", ".ndjson": "jsonl", ".txt": "txt", ".parquet": "parquet", ".py": "py"}
PACKED: dict[str, Any] = {".gz": gzip.open, ".xz": lzma.open, ".bz2": bz2.open}
LONGEST = 1 << 20
"""Characters of a paragraph after which it is cut, so that no file is held whole."""

ANSWERS = ("assistant", "text", "content", "answer", "response", "completion", "output")
PROMPTS = ("user", "prompt", "instruction", "question")
MESSAGES = "messages"
FIELDS = (*ANSWERS, *PROMPTS, MESSAGES)

ReadTo = Callable[[int], object]
"""Is called with the bytes of the file that were read so far."""


@dataclass(frozen=True, slots=True)
class Text:
    """prompt: what it answers, where that is known."""

    text: str
    prompt: str | None = None


class Row(NamedTuple):
    """A row of a data set. place: where it stands, for messages. data: not a dict where the line is no JSON object."""

    place: str
    data: Any


def kind_of(file: Path) -> str:
    """The file's kind by its name, compressed or not. Raises SpectraError naming `corpus` for an unknown one."""
    if kind := _known_kind(file):
        return kind
    raise SpectraError("corpus", f"{file.name} is of no known kind; give jsonl or txt (also .gz, .xz), parquet or py")


def is_jsonl(file: Path) -> bool:
    """Whether its name, compressed or not, is that of jsonl."""
    return _known_kind(file) == "jsonl"


def _known_kind(file: Path) -> str | None:
    suffixes = [suffix.lower() for suffix in file.suffixes]
    if suffixes and suffixes[-1] in PACKED and KINDS.get(suffixes[-2] if suffixes[1:] else "") in ("jsonl", "txt"):
        return KINDS[suffixes[-2]]
    return KINDS.get(suffixes[-1]) if suffixes else None


def reason(error: BaseException) -> object:
    """Why a file cannot be read, for one of UNREADABLE."""
    return getattr(error, "strerror", None) or error


def json_rows(file: Path, read_to: ReadTo = lambda position: None) -> Iterator[Row]:
    """A row for each line that is not blank."""
    for number, line in enumerate(_pieces(file, lines_of, read_to), 1):
        if line.strip():
            try:
                data = parse_json(line)
            except ValueError:
                data = None
            yield Row(f"{file} line {number}", data)


def paragraphs(file: Path, read_to: ReadTo) -> Iterator[str]:
    """Text between blank lines."""
    decode = codecs.getincrementaldecoder("utf-8")().decode
    held: list[str] = []
    length = 0
    for line in _pieces(file, _cut_lines, read_to):
        text = decode(line)
        blank = not text.strip()
        if held and (blank or length >= LONGEST):
            yield "".join(held).strip("\r\n")
            held = []
            length = 0
        if not blank:
            held.append(text)
            length += len(text)
    decode(b"", True)
    if held:
        yield "".join(held).strip("\r\n")


def parquet_rows(file: Path, wanted: Collection[str], read_to: ReadTo) -> Iterator[Row]:
    """Rows with the columns that matter, a few hundred at a time. wanted: more columns than those of FIELDS."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise SpectraError("corpus", f"{file.name} needs pyarrow; pip install pyarrow") from error
    try:
        with pyarrow.parquet.ParquetFile(file) as table:
            columns = [name for name in table.schema_arrow.names if name in FIELDS or name in wanted]
            bytes_a_row = file.stat().st_size / max(1, table.metadata.num_rows)
            number = 0
            for batch in table.iter_batches(batch_size=256, columns=columns):
                for data in batch.to_pylist():
                    number += 1
                    yield Row(f"{file} row {number}", data)
                read_to(int(number * bytes_a_row))
    except pyarrow.ArrowException as error:
        raise SpectraError("corpus", f"{file} cannot be read ({error}); give a whole file") from error


def source(file: Path) -> str:
    """A Python file's text, in the encoding it declares."""
    with tokenize.open(file) as lines:
        return lines.read()


def texts_of(row: Any) -> Iterator[Text]:
    """The first of ANSWERS a row has, else the assistant's turns of its messages.

    Raises ValueError saying what is wrong with the row.
    """
    if not isinstance(row, dict):
        raise ValueError("is not a JSON object")
    for name in ANSWERS:
        if row.get(name) is not None:
            yield Text(_text(row[name], name), prompt_of(row))
            return
    turns = row.get(MESSAGES)
    if turns is None:
        raise ValueError(f"has none of the fields {', '.join(ANSWERS)}, {MESSAGES}")
    if not isinstance(turns, list) or not all(isinstance(turn, dict) for turn in turns):
        raise ValueError(f"has {MESSAGES} that are not a list of turns")
    prompt = None
    for turn in turns:
        if turn.get("role") == "user":
            prompt = _text(turn.get("content"), "content")
        elif turn.get("role") == "assistant":
            yield Text(_text(turn.get("content"), "content"), prompt)


def prompt_of(row: dict[str, Any]) -> str | None:
    """The first of PROMPTS that is text."""
    return next((encodable(row[name]) for name in PROMPTS if isinstance(row.get(name), str)), None)


def encodable(text: str) -> str:
    """Without half a surrogate pair, which JSON can hold: a question mark stands for it."""
    return text.encode("utf-8", "replace").decode()


def _text(value: Any, name: str) -> str:
    if not isinstance(value, str):
        raise ValueError(f"has a {name} that is not text")
    return encodable(value)


def _cut_lines(file: ByLines) -> Iterator[bytes]:
    """Lines, longer ones in pieces of 1 MiB."""
    return iter(lambda: file.readline(LONGEST), b"")


def _pieces(file: Path, read: Callable[[ByLines], Iterator[bytes]], read_to: ReadTo) -> Iterator[bytes]:
    """What `read` makes of the file, unpacked if it is packed."""
    with ExitStack() as open_files:
        raw: IO[bytes] = open_files.enter_context(open_regular(file))
        stream = raw
        if file.suffix.lower() in PACKED:
            stream = open_files.enter_context(PACKED[file.suffix.lower()](raw, "rb"))
        for piece in read(stream):
            read_to(raw.tell())
            yield piece
