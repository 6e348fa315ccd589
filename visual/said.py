"""What the lines of an OpenAI-compatible server tell: text, how much there is of it, why it ended, or a failure."""

import json
import re
from codecs import BOM_UTF8
from collections.abc import Mapping
from hashlib import sha256
from html import escape, unescape
from typing import Any, NamedTuple
from urllib.parse import quote

from spectra.io.json_text import parse_json

THOUGHTS = "reasoning_content", "reasoning"
"""Where servers put what a model thinks before it answers."""
FIELDS = b"data", b"error"
"""Of the lines that tell something. llama.cpp tells of a failure in the second."""
WORDS = "error", "errors", "message", "detail", "msg", "text", "title", "type"
"""Where refusals say why. vLLM's message may be empty, its type is not."""
FAILURES = "error", "abort"
"""Reasons of an end that is none, in vLLM."""
TITLE = re.compile(r"<title\b[^<>]*>(.*?)(?:</title\b|\Z)", re.DOTALL | re.IGNORECASE)
UNSHOWN = re.compile(r"<!--.*?(?:-->|\Z)|<(title|script|style)\b.*?(?:</\1\b[^<>]*>?|\Z)", re.DOTALL | re.IGNORECASE)
TAG = re.compile(r"<[^>]*>?")
HIDDEN = re.compile(r"[*\u2022\u25cf\u00b7\u2588]+|\.{3,}|\u2026")
"""What servers write in the place of the middle of a key."""
SHOWN_ENDS, LONGEST_SHOWN = 4, 80
"""The fewest characters of a key beside such signs that are not shown, and the most at either side that are looked for:
OpenAI and LiteLLM leave eight of twelve of them, xAI and DeepSeek four."""


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
    line = line.removeprefix(BOM_UTF8)
    if line.startswith(b"{"):  # a whole reply in the place of events
        raise ServerFailureError("does not stream", refusal_in(line.decode(errors="replace")))
    field, _, data = line.partition(b":")
    if field not in FIELDS or not data.strip():
        return Said()
    event = parse_json(data.decode(errors="replace"))
    try:
        check_success(event, failed=field == b"error")
        choices = event.get("choices") or []
        usage = event.get("usage") or {}
        total = number(usage.get("completion_tokens"))
        unseen = number((usage.get("completion_tokens_details") or {}).get("reasoning_tokens"))
        if unseen and number(usage.get("total_tokens")) == number(usage.get("prompt_tokens")) + total + unseen:
            total += unseen  # xAI counts them beside the text, not in it
        pieces = [written(choice.get("delta") or {}) for choice in choices]
        reasons = [choice.get("finish_reason") or "" for choice in choices]
        if not all(isinstance(one, str) for one in (*(text for text, _ in pieces), *reasons)):
            raise TypeError
    except (AttributeError, TypeError) as error:
        raise ValueError("an event of another form") from error
    finish = next(filter(None, reversed(reasons)), "")
    if finish in FAILURES:
        raise ServerFailureError("failed", f"its reason to end is {finish}")
    text = "".join(text for text, _ in pieces)
    return Said(total, finish, text, any(thought for _, thought in pieces), unseen)


def check_success(event: Any, failed: bool) -> None:
    """Raises ServerFailureError where the event tells of a failure: OpenAI's form, vLLM's older one, FastChat's."""
    whole = failed or event.get("object") == "error" or event.get("error_code")
    if failure := event if whole else event.get("error"):
        raise ServerFailureError("failed", words_in(failure) or str(failure))


def refusal_in(body: str) -> str:
    """The message in a refusal's JSON, the words of a page, or all of it where there is neither."""
    try:
        return words_in(parse_json(body)) or body
    except ValueError:
        return words_of(body) or body


def words_in(told: Any, depth: int = 4) -> str:
    """A refusal's word for why, by the first of WORDS that holds some: a text, or a list of what is wrong where, as
    FastAPI and Gemini give it. "" for another form.
    """
    if isinstance(told, str):
        return told if told.strip() else ""
    if isinstance(told, list) and depth:
        return "; ".join(filter(None, (words_in(each, depth - 1) for each in told)))
    if not (isinstance(told, Mapping) and depth):
        return ""
    words = next(filter(None, (words_in(told.get(name), depth - 1) for name in WORDS)), "")
    place = told.get("loc")
    where = ".".join(map(str, place)) if isinstance(place, list) else ""
    return ": ".join(filter(None, [where, words])) if words else ""


def words_of(page: str) -> str:
    """What a proxy's page of HTML says: its body, or its title where that has no words. "" for what is no page."""
    if not page.lstrip("\ufeff \t\r\n").startswith("<"):
        return ""
    title = TITLE.search(page)
    for part in (UNSHOWN.sub(" ", page), title[1] if title else ""):
        if words := " ".join(unescape(TAG.sub(" ", part)).replace("\ufeff", " ").split()):
            return words
    return ""


def number(told: Any) -> int:
    """0 for none. Raises TypeError for what is no whole number."""
    if not (told is None or isinstance(told, int) or (isinstance(told, float) and told.is_integer())):
        raise TypeError
    return int(told or 0)


def written(delta: Any) -> tuple[Any, bool]:
    """Its text, or why the model refuses; and whether it holds thoughts. Mistral sends parts, each one or the other."""
    content = delta.get("content") or delta.get("refusal") or ""
    thought = any(delta.get(name) for name in THOUGHTS)
    if not isinstance(content, list):
        return content, thought
    texts = [part.get("text") or "" for part in content if part.get("type") == "text"]
    return "".join(texts), thought or len(texts) < len(content)


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
    """The text with asterisks for each of these: some servers say the key again that they refuse.

    As it is, in JSON, in an address and in HTML, and its hash, which LiteLLM tells; the longest first, for a shorter
    one may be a part of it. At last its ends, where a server masks the middle itself.
    """
    spelled = {*secrets, *map(escape, secrets)}
    spelled |= {quote(secret, safe="", errors="replace") for secret in secrets}
    spelled |= {json.dumps(secret)[1:-1] for secret in secrets}
    spelled |= {each.replace("/", r"\/") for each in spelled}
    spelled |= {sha256(secret.encode(errors="replace")).hexdigest() for secret in secrets}
    for each in sorted(spelled, key=len, reverse=True):
        text = text.replace(each, "***")
    for secret in secrets:
        text = _without_ends(secret, text)
    return text


def _without_ends(secret: str, text: str) -> str:
    """The text with asterisks for what of the secret stands beside asterisks, dots or bullets."""
    kept = []
    done = 0
    lengths = range(min(len(secret), LONGEST_SHOWN), 0, -1)
    for hidden in HIDDEN.finditer(text):
        start, end = hidden.span()
        before = next((n for n in lengths if text.endswith(secret[:n], done, start)), 0)
        after = next((n for n in lengths if text.startswith(secret[-n:], end)), 0)
        if before + after >= SHOWN_ENDS:
            kept += [text[done : start - before], "***"]
            done = end + after
    return "".join([*kept, text[done:]])


def shortened(text: str) -> str:
    """The beginning of what a server says, on a line."""
    return " ".join(text.split())[:200]
