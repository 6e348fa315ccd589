"""A visitor's file on its way into a store: copied under a plain name; no text, or too much of it, is refused."""

import re
import shutil
from itertools import islice
from pathlib import Path

from spectra.datastore.build.corpus import Corpus
from spectra.datastore.build.settings import BuildSettings
from spectra.datastore.language import Language
from spectra.errors import SpectraError

MAX_BYTES = 2_000_000
MAX_TOKENS = 50_000
KINDS = (".txt", ".jsonl")
TOGETHER = 1000
"""Texts that are made tokens at once. Everything else waits meanwhile: of 2 MB, for hundreds of thousands of them."""


def copy_text(file: Path, folder: Path) -> Path:
    """The file under a name of our own. Raises SpectraError for one that is no text, or too large."""
    kind = file.suffix.lower()
    if kind not in KINDS:
        raise SpectraError("file", f"{kind or 'a file without an ending'} is not read here; give .txt or .jsonl")
    size = file.stat().st_size
    if size > MAX_BYTES:
        raise SpectraError("file", f"{size / 1e6:.1f} MB; give at most {MAX_BYTES / 1e6:g} MB, or a part of it")
    try:
        text = file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise SpectraError("file", "it is not text in UTF-8; save it as UTF-8 and try again") from error
    if not text.strip():
        raise SpectraError("file", "it is empty; give a file with some paragraphs of text")
    if "\0" in text:
        raise SpectraError("file", "it holds bytes that no text has; give plain text or JSON lines")
    copy = folder / f"{plain_name(file.stem)}{kind}"
    shutil.copyfile(file, copy)
    return copy


def check_texts(corpus: Corpus, language: Language, settings: BuildSettings) -> None:
    """Raises SpectraError for too many tokens, for no text, and where every text is too short to be kept."""
    texts = iter(corpus)
    lengths: list[int] = []
    while some := [text.text for text in islice(texts, TOGETHER)]:
        lengths += map(len, language.encode(some))
        if sum(lengths) > MAX_TOKENS:
            more = "" if next(texts, None) is None else " and more"
            raise SpectraError("file", f"{sum(lengths):,} tokens{more}; give at most {MAX_TOKENS:,}: cut the file")
    if not lengths:
        raise SpectraError("file", 'no line of it is an object with a "text"; give one JSON object a line')
    if max(lengths) < settings.min_tokens:
        longest = f"its longest text has {max(lengths)} tokens"
        raise SpectraError("file", f"{longest}; give texts of {settings.min_tokens} tokens or more")


def plain_name(name: str) -> str:
    """A name for a folder, from a file's: letters, digits and hyphens, at most 40."""
    return re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-")[:40] or "text"
