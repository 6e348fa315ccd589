"""Checksums of files, of data as JSON and of tokenizers: one way to take each, so that they can be compared."""

import hashlib
import json
from pathlib import Path
from typing import Any

from spectra.io.bounded import open_regular


def canonical(data: object) -> bytes:
    """The one way to write `data` as JSON that checksums are taken of. Raises ValueError for what is nested too deeply,
    which may just have been read."""
    try:
        return json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def json_sha256(data: object) -> str:
    """Of data, by its canonical JSON, in hexadecimal."""
    return hashlib.sha256(canonical(data)).hexdigest()


def file_sha256(path: Path) -> str:
    """Of a file's bytes, in hexadecimal. Raises OSError as `open_regular` does."""
    with open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def tokenizer_sha256(tokenizer: Any) -> str:
    """Checksum of what ids mean: the vocabulary with its added tokens."""
    return json_sha256([tokenizer.get_vocab(), tokenizer.get_added_vocab()])
