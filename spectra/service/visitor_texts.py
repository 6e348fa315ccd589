"""Text that the model writes for a visitor's datastore. What is written stays until the visitor asks for other text."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from spectra.datastore.build.seed_prompts import SEED_PROMPTS
from spectra.datastore.build.selftext import Question, Row, Writing, write_answers
from spectra.errors import SpectraError
from spectra.io.recent import Recent
from spectra.service.disk import disk_told
from spectra.settings import TextOrder

MAX_VISITORS = 64
"""More than are served at once and wait: whose text is being written is never among those that go."""
DRAWN = 0.7
"""Temperature of the texts that are drawn."""


OnWritten = Callable[[int, int], None]
"""Called with the texts that are finished and the tokens of them and of the one in hand. What it raises ends it all."""
Speaker = Callable[[Question, int, Callable[[int], None]], Row]
"""Answers one question by a seed; calls the function with the tokens of each step."""


@dataclass(slots=True)
class Texts:
    """folder: where `file` lies; it goes when the texts do. prompts, max_new_tokens: what the texts go on with."""

    folder: tempfile.TemporaryDirectory[str]
    prompts: tuple[str, ...]
    max_new_tokens: int
    tokens: int = 0

    @property
    def file(self) -> Path:
        return Path(self.folder.name) / "texts.jsonl"

    @property
    def written(self) -> int:
        return len(self.file.read_bytes().splitlines()) if self.file.exists() else 0


class VisitorTexts:
    """The texts of the visitors who asked last."""

    def __init__(self) -> None:
        self._texts: Recent[str, Texts] = Recent(MAX_VISITORS, on_drop=lambda one: one.folder.cleanup())

    def file_of(self, visitor: str) -> Path | None:
        """JSON lines of the texts, None where nothing is written."""
        texts = self._texts.get(visitor)
        return texts.file if texts is not None and texts.file.exists() else None

    def written(self, visitor: str, order: TextOrder) -> int:
        """How many texts of such an order are there already."""
        texts = self._texts.peek(visitor)
        return texts.written if texts is not None and _fits(texts, order) else 0

    def write(self, visitor: str, order: TextOrder, speaker: Speaker, on_written: OnWritten) -> None:
        """Write what is missing of the order, one text after the other. A stop keeps the finished ones.

        Raises SpectraError where the texts are dropped meanwhile, and where the disk refuses them.
        """
        texts = self._texts.get(visitor)
        if texts is None or not _fits(texts, order):
            with disk_told("texts"):
                folder = tempfile.TemporaryDirectory(prefix="spectra-texts-")
            texts = Texts(folder, order.prompts, order.max_new_tokens)
            self._texts.put(visitor, texts)
        count = texts.written
        kept = texts

        def answering(batch: Sequence[Question], seed: int) -> list[Row]:
            finished = kept.tokens

            def on_step(tokens: int) -> None:
                kept.tokens += tokens
                on_written(count, kept.tokens)

            try:
                return [speaker(question, seed, on_step) for question in batch]
            except BaseException:
                kept.tokens = finished
                raise

        def on_texts(more: int) -> None:
            nonlocal count
            count += more
            self._texts.get(visitor)  # a use: others go first
            on_written(count, kept.tokens)

        questions = max(order.texts, count)
        count = 0
        writing = Writing(order.max_new_tokens, (0.0, DRAWN), batch=1)
        with disk_told("texts"):
            try:
                write_answers(answering, questions_of(order.prompts, questions), texts.file, writing, on_texts)
            except FileNotFoundError as error:  # the folder went with the texts
                raise SpectraError("texts", "they were let go while they were written; write them again") from error

    def drop(self, visitor: str) -> None:
        """Let them go."""
        self._texts.drop(visitor)

    def clear(self) -> None:
        self._texts.clear()


def questions_of(prompts: Sequence[str], texts: int) -> list[Question]:
    """So many questions: each prompt greedily, then all of them by drawing, again and again."""
    asked = prompts or SEED_PROMPTS
    return [Question("", asked[n % len(asked)], 0.0 if n < len(asked) else DRAWN) for n in range(texts)]


def _fits(texts: Texts, order: TextOrder) -> bool:
    return (texts.prompts, texts.max_new_tokens) == (order.prompts, order.max_new_tokens)
