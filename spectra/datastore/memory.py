"""Finished answers kept in a folder: a datastore that rolls on with use, shared by processes, bounded in bytes.

A file holds the token ids of some answers and is whole or absent; a process writes only files of its own and reads all.
Writing and indexing happen in a thread of their own. The texts lie in the folder as they are: who may read it may read
the answers. No torch.
"""

import atexit
import json
import logging
import os
import queue
import re
import secrets
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spectra.datastore.layout import CARD, CORPUS
from spectra.datastore.text_index import ORDER, SEPARATOR, TextIndex
from spectra.drafters.continuations import Lookup, successors
from spectra.errors import SpectraError
from spectra.io.arrays import write_array
from spectra.io.bounded import open_regular, read_whole
from spectra.io.files import clear_left_behind, cure, write_text
from spectra.io.hashes import json_sha256
from spectra.io.json_text import parse_json

FORMAT, VERSION = "spectra-memory", 1
MAX_BYTES = 4_000_000
FILE_BYTES = 64_000
"""A file that has reached this size is left alone, and the next answer begins another."""
MIN_TOKENS = 8
AT_EXIT = 5.0
"""Seconds that the end of the program waits for what is being written."""
TAIL = 8
"""Answers since the last whole index go into a small one, up to this part of the whole."""

log = logging.getLogger("spectra")


class _Part(NamedTuple):
    """A file as it was read. stamp: changes when the file does."""

    stamp: tuple[int, int]
    tokens: NDArray[np.uint32]


class Memory:
    """`NGramStore` over what models answered before. Make one with `open_memory`, one a process and folder.

    folder: of one model and tokenizer. max_bytes: of all files together; the oldest go. vocabulary: token ids are below
    it. What was added when the program ends is written before it does.
    """

    order = ORDER
    refined = True
    name = "finished answers"

    def __init__(self, folder: Path, max_bytes: int = MAX_BYTES, vocabulary: int = SEPARATOR) -> None:
        self.folder = folder
        self.max_bytes = max_bytes
        self.vocabulary = vocabulary
        self.worth = 1.0
        """Running mean of what a step's guesses brought, for whoever asks."""
        self._parts: dict[str, _Part] = {}
        self._indexed: dict[str, int] = {}
        """File -> how many of its tokens the whole index has; files only grow."""
        self._indexes: tuple[TextIndex, ...] = ()
        self._mine: list[NDArray[np.uint32]] = []
        self._name = ""
        self._wanted: queue.Queue[NDArray[np.uint32] | None] = queue.Queue()
        self._read()
        self._index()
        self._writer = threading.Thread(target=self._work, name="spectra-memory", daemon=True)
        self._writer.start()
        atexit.register(self._finish)

    def __len__(self) -> int:
        """Tokens that it knows."""
        return sum(index.size for index in self._indexes)

    def successors(self, context: Sequence[int]) -> Lookup:
        """See `SuccessorCounts.successors`."""
        return successors(self._indexes, context)

    def texts_with(self, tokens: Sequence[int]) -> None:
        """It keeps no perplexities, so it does not tell."""

    def add(self, answer: Sequence[int]) -> None:
        """Remember a finished answer, soon. Short ones teach nothing and are left out."""
        if len(answer) >= MIN_TOKENS:
            self._wanted.put(np.asarray(answer, np.uint32))

    def flush(self) -> None:
        """Wait until all that was added is in the folder and in the index."""
        self._wanted.join()

    def _finish(self) -> None:
        """`flush` for a few seconds at most, where the thread runs: not in a process that was forked."""
        until = time.monotonic() + AT_EXIT
        while self._wanted.unfinished_tasks and self._writer.is_alive() and time.monotonic() < until:
            time.sleep(0.005)

    def _work(self) -> None:
        while True:
            answer = self._wanted.get()
            try:
                if answer is not None and not self._known(answer):
                    self._write(answer)
                self._read()
                self._trim()
                self._index()
            except OSError as error:
                log.warning("remember: %s cannot be written (%s); the answer is forgotten", self.folder, error)
            finally:
                self._wanted.task_done()

    def _known(self, answer: NDArray[np.uint32]) -> bool:
        """Whether this very answer is there."""
        run = answer.tobytes()
        return any(run in part.tokens.tobytes() for part in self._parts.values())

    def _write(self, answer: NDArray[np.uint32]) -> None:
        """Into this process's newest file, or a new one where that is full or gone."""
        if not self._name or not (self.folder / self._name).exists() or sum(map(len, self._mine)) * 4 > FILE_BYTES:
            self._name = f"{self._newest():020d}-{secrets.token_hex(4)}.npy"
            self._mine = []
        mine = [*self._mine, answer, np.array([SEPARATOR], np.uint32)]
        temporary = self.folder / f".{self._name}.{os.getpid()}"
        try:
            with temporary.open("wb") as file:
                write_array(file, np.concatenate(mine))
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(self.folder / self._name)
        finally:
            temporary.unlink(missing_ok=True)
        self._mine = mine

    def _newest(self) -> int:
        """What a new file's name begins with: the time, or more where the clock was set back, so that it is the last to
        go."""
        known = (name.partition("-")[0] for name in self._parts)
        return max([time.time_ns(), *(int(number) + 1 for number in known if re.fullmatch("[0-9]{20}", number))])

    def _read(self) -> None:
        """Files that came, changed or went, those of other processes included."""
        parts: dict[str, _Part] = {}
        for path in sorted(self.folder.glob("[0-9]*.npy")):
            try:
                status = path.stat()
                stamp = status.st_mtime_ns, status.st_size
                old = self._parts.get(path.name)
                parts[path.name] = old if old is not None and old.stamp == stamp else self._part(path, stamp)
            except FileNotFoundError:
                continue  # another process let it go
            except (OSError, ValueError) as error:
                log.warning("remember: %s is left out (%s)", path, error)
        self._parts = parts

    def _part(self, path: Path, stamp: tuple[int, int]) -> _Part:
        """Raises ValueError for a file that holds ids of no token."""
        tokens = _tokens(path)
        if ((tokens >= self.vocabulary) & (tokens != SEPARATOR)).any():
            raise ValueError(f"it holds token ids outside 0..{self.vocabulary - 1}")
        return _Part(stamp, tokens)

    def _trim(self) -> None:
        total = sum(part.stamp[1] for part in self._parts.values())
        for name in sorted(self._parts):
            if total <= self.max_bytes:
                return
            total -= self._parts.pop(name).stamp[1]
            (self.folder / name).unlink(missing_ok=True)

    def _index(self) -> None:
        """New files go into the small index until it is worth making the whole one anew."""
        parts = [(part.tokens, self._indexed.get(name, 0)) for name, part in self._parts.items()]
        fresh = [tokens[known:] for tokens, known in parts if len(tokens) > known]
        if sum(map(len, fresh)) > sum(self._indexed.values()) // TAIL:
            self._indexes = (TextIndex(tokens for tokens, _ in parts),)
            self._indexed = {name: len(part.tokens) for name, part in self._parts.items()}
        elif fresh:
            self._indexes = (self._indexes[0], TextIndex(fresh))


def open_memory(
    folder: Path, tokenizer_sha256: str, model: str, max_bytes: int = MAX_BYTES, vocabulary: int = SEPARATOR
) -> Memory:
    """The memory of one model in a folder that may hold those of several. Raises SpectraError for the field "remember"
    where nothing can be written, or what is there was made for another model or tokenizer.
    """
    check_no_store(folder)
    facts = {"format": FORMAT, "version": VERSION, "model": model, "tokenizer_sha256": tokenizer_sha256}
    place = folder / json_sha256(facts)[:16]
    try:
        place.mkdir(parents=True, exist_ok=True)
        clear_left_behind(place, ".*.npy.*")
        there = parse_json(read_whole(place / CARD)) if (place / CARD).exists() else None
    except (OSError, ValueError) as error:
        other = "give a folder of your own"
        fix = cure(error, other) if isinstance(error, OSError) else other
        raise SpectraError("remember", f"{place} cannot be used ({error}); {fix}") from error
    if there is None:
        write_text(place / CARD, json.dumps(facts, indent=1), "remember")
    elif there != facts:
        raise SpectraError("remember", f"{place} is of {there!s:.80}; give another folder")
    return Memory(place, max_bytes, vocabulary)


def check_no_store(folder: Path) -> None:
    """Raise SpectraError for the folder of a datastore, which what it should not hold would go into, and for one that
    cannot be looked into.
    """
    try:
        store = (folder / CARD).is_file() and (folder / CORPUS).is_file()
    except OSError as error:
        raise SpectraError(
            "remember", f"{folder} cannot be used ({error.strerror}); give a folder of your own"
        ) from error
    if store:
        raise SpectraError("remember", f"{folder} is a datastore; give a folder of your own")


def _tokens(path: Path) -> NDArray[np.uint32]:
    """Raises ValueError for a file that holds no token ids."""
    try:
        with open_regular(path) as file:
            tokens = np.load(file, allow_pickle=False)
    except OSError:
        raise
    except Exception as error:  # numpy reads the header as Python's own parser does, and fails in its many ways
        raise ValueError("it holds no token ids") from error
    if tokens.ndim != 1 or tokens.dtype != np.uint32:
        raise ValueError("it holds no token ids")
    return np.asarray(tokens)
