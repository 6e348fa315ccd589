"""What the lines of an OpenAI-compatible server tell: text, how much there is of it, why it ended, or a failure."""

from typing import NamedTuple

from spectra.io.json_text import parse_json

THOUGHTS = "reasoning_content", "reasoning"
"""Where servers put what a model thinks before it answers."""
FIELDS = b"data", b"error"
"""Of the lines that tell something. llama.cpp tells of a failure in the second."""


class ServerFailureError(Exception):
    """A server refused, or failed in the middle of an answer. what: which, in a word or two. told: what it says."""

    def __init__(self, what: str, told: str) -> None:
        super().__init__(what, told)
        self.what, self.told = what, told


class Said(NamedTuple):
    """What a line tells. total: tokens of the whole answer, 0 where it does not say. finish: why it ended, or "".

    text: may end, or begin, with half of a character. thought: whether it holds some of what the model thinks before
    it answers. unseen: tokens of such thoughts in the total, be they sent or not.
    """

    total: int = 0
    finish: str = ""
    text: str = ""
    thought: bool = False
    unseen: int = 0


def said_in(line: bytes) -> Said:
    """Raises ValueError for what no such server sends, and ServerFailureError where it tells of a failure."""
    field, _, data = line.partition(b":")
    if field not in FIELDS or not data.strip():
        return Said()
    event = parse_json(data.decode(errors="replace"))
    try:
        failed = field == b"error" or event.get("object") == "error"
        if failure := event if failed else event.get("error"):
            told = failure.get("message") if isinstance(failure, dict) else failure
            raise ServerFailureError("failed", str(told))
        choices = event.get("choices") or []
        usage = event.get("usage") or {}
        total = usage.get("completion_tokens") or 0
        unseen = (usage.get("completion_tokens_details") or {}).get("reasoning_tokens") or 0
        deltas = [choice.get("delta") or {} for choice in choices]
        texts = [delta.get("content") or "" for delta in deltas]
        thought = any(delta.get(name) for delta in deltas for name in THOUGHTS)
        reasons = [choice.get("finish_reason") or "" for choice in choices]
    except (AttributeError, TypeError) as error:
        raise ValueError("an event of another form") from error
    numbers = isinstance(total, int) and isinstance(unseen, int)
    if not numbers or not all(isinstance(one, str) for one in (*texts, *reasons)):
        raise ValueError("an event of another form")
    return Said(total, next(filter(None, reversed(reasons)), ""), "".join(texts), thought, unseen)


class WholeCharacters:
    """Text in pieces, of which one may end in the middle of a character: JSON can hold halves of those beyond U+FFFF,
    and servers in JavaScript cut there. A half whose other one does not come is a question mark.
    """

    def __init__(self) -> None:
        self.rest = ""

    def take(self, piece: str) -> str:
        """The next piece, as far as its characters are whole."""
        text = self.rest + piece
        self.rest = text[-1:] if "\ud800" <= text[-1:] <= "\udbff" else ""
        units = text.removesuffix(self.rest).encode("utf-16-le", "surrogatepass")
        return units.decode("utf-16-le", "surrogatepass").encode(errors="replace").decode()


def without(secrets: tuple[str, ...], text: str) -> str:
    """The text with asterisks for each of these: some servers say the key again that they refuse."""
    for secret in secrets:
        text = text.replace(secret, "***")
    return text


def shortened(text: str) -> str:
    """The beginning of what a server says, on a line."""
    return " ".join(text.split())[:200]
