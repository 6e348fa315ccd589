"""Token ids to text while they arrive: a token may be part of a character, so ids wait until they decode cleanly."""

from collections.abc import Callable, Iterable, Sequence

PENDING = "\ufffd"
CHARACTER = 4  # the most tokens one character takes, a byte each
PATIENCE = 2 * CHARACTER


class TextStream:
    """decode: ids -> text (a tokenizer's). Pieces concatenate to the text of all ids."""

    def __init__(self, decode: Callable[[Sequence[int]], str]) -> None:
        self._decode = decode
        self._context: list[int] = []  # ids of the last piece: they give what follows its leading space
        self._waiting: list[int] = []

    def push(self, ids: Iterable[int]) -> list[tuple[int, str]]:
        """(number of tokens, text) for each piece that these ids complete."""
        pieces = []
        for token in ids:
            self._waiting.append(token)
            settled = self._settled()
            if settled:
                pieces.append(self._take(settled))
        return pieces

    def flush(self) -> list[tuple[int, str]]:
        """What still waits, as it is."""
        return [self._take(len(self._waiting))] if self._waiting else []

    def _settled(self) -> int:
        """How many of the waiting ids have a text that no later id can change."""
        count = len(self._waiting)
        whole = self._text(count)
        if not whole.endswith(PENDING):
            return count
        if count >= PATIENCE:  # bytes that are no character; what came before the last few cannot become one
            for fewer in range(count - CHARACTER + 1, 0, -1):
                if whole.startswith(self._text(fewer)):
                    return fewer
        return 0

    def _text(self, count: int) -> str:
        """Text of the first `count` waiting ids."""
        before = self._decode(self._context)
        return self._decode([*self._context, *self._waiting[:count]])[len(before) :]

    def _take(self, count: int) -> tuple[int, str]:
        piece = (count, self._text(count))
        self._context = self._waiting[:count]
        self._waiting = self._waiting[count:]
        return piece
