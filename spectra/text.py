"""Token ids to text while they arrive: a token may be part of a character, so ids wait until they decode cleanly."""

from collections.abc import Callable, Iterable, Sequence

PENDING = "\ufffd"
LOOKBACK = 6


class TextStream:
    """decode: ids -> text (a tokenizer's). Pieces concatenate to the text of all ids."""

    def __init__(self, decode: Callable[[Sequence[int]], str]) -> None:
        self._decode = decode
        self._done: list[int] = []
        self._waiting: list[int] = []

    def push(self, ids: Iterable[int]) -> list[tuple[int, str]]:
        """(number of tokens, text) for each piece that these ids complete."""
        pieces = []
        for token in ids:
            self._waiting.append(token)
            text = self._text()
            if text.endswith(PENDING) and len(self._waiting) < LOOKBACK:
                continue
            pieces.append(self._take(text))
        return pieces

    def flush(self) -> list[tuple[int, str]]:
        """What still waits, as it is."""
        return [self._take(self._text())] if self._waiting else []

    def _text(self) -> str:
        """Text of the waiting ids; the last few before them give it its leading space or its joined character."""
        context = self._done[-LOOKBACK:]
        return self._decode([*context, *self._waiting])[len(self._decode(context)) :]

    def _take(self, text: str) -> tuple[int, str]:
        piece = (len(self._waiting), text)
        self._done += self._waiting
        self._waiting = []
        return piece
