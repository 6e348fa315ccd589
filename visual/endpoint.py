"""Any OpenAI-compatible server instead of the own engine, for the Chat tab: what it writes and how fast.

A server tells neither token ids nor where a token came from, so every token counts as the model's and no text is
coloured.
"""

import time
from base64 import b64encode
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any, NamedTuple

import httpx

from spectra.errors import SpectraError
from spectra.guess import Source
from spectra.metrics import PlainRate
from spectra.settings import AnswerRequest, Value
from spectra.trace import StepTrace, Trace, TreeTrace
from spectra.tree import TokenTree
from visual.engine import Pieces, ProgressCallback
from visual.http_stream import Connection, Line, heard, lines_of, listed, no_page, reason_of, whole_replies
from visual.said import Said, ServerFailureError, WholeCharacters, said_in, shortened, without, words_in

UNKNOWN = -1
"""The id of every token: the server tells none."""
HEAD_SECONDS = 180.0
"""Within which an answer begins: a server may load its model first, or read a long prompt on a CPU."""
TIMEOUT = httpx.Timeout(HEAD_SECONDS, connect=10.0)
LONGEST_ID = 200
"""Characters of a model's id, which the page shows."""
NAMED = 3
"""The most models that a refusal names."""
LONGEST_END = 40
"""Characters of the word for why an answer ended."""
OWN_ENDS = "stop", "eos_token", "stop_sequence"
"""Words for an answer's own end; the last two are those of older versions of TGI."""
ANSWER_BYTES, TOKEN_BYTES = 100_000, 2_000
"""The most that is read of an answer, and more for each token that it was asked for."""
ANSWER_PIECES, TOKEN_PIECES = 1_000, 10
"""The most pieces of an answer, and more for each token: some servers send letters, and a browser draws each."""
FIRST_SECONDS = 0.05
"""What comes within them of the first piece counts as come with it: pieces of one packet have no time between them."""
FIRST_PIECES = 50
"""For more pieces that is as much longer: a thousand that a proxy held back take longer to be read."""
LEAST_SECONDS = 1e-6
"""Of a piece that came after those: with others in one packet, it is still one that took time."""
END_SECONDS = 5.0
"""Within which a server that told why the answer ended says the rest: the count of its tokens, and that it is over."""
SERVED = "served"
NOTE = "{model} answers from {url}. A server does not tell who guessed a token: colours need this page's own engine."


class Endpoint:
    """A `Backend`. url: with or without /v1, with NAME:PASSWORD@ where the server asks for them; those are in no text.

    key: sent as a bearer token. model: of those that the server lists; None for the first. Raises SpectraError when no
    model answers or that one is not listed, and for a key that no header can hold.
    """

    def __init__(
        self, url: str, key: str = "", client: httpx.Client | None = None, *, model: str | None = None
    ) -> None:
        key = key.strip()
        if not (key.isascii() and key.isprintable()):
            raise SpectraError("OPENAI_API_KEY", "it holds characters that no key has; copy it again")
        self._client = client or connected()
        self._client.headers["Accept-Encoding"] = "identity"
        self._secrets: tuple[str, ...] = (key,) if key else ()
        keeps_none = CookieJar(DefaultCookiePolicy(allowed_domains=[]))  # all visitors share the client
        self._client.cookies = keeps_none  # type: ignore[assignment]
        if key:
            self._client.headers["Authorization"] = f"Bearer {key}"
        given = address(url.strip())
        if given.userinfo:
            self._client.auth = given.username, given.password
            basic = b64encode(f"{given.username}:{given.password}".encode()).decode()
            self._secrets += tuple(filter(None, (basic, given.password or given.username)))
        url = str(given.copy_with(userinfo=b""))
        self.url = url.rstrip("/").removesuffix("/v1")
        try:
            names = model_names(listed(self._client, f"{self.url}/v1/models"))
        except (httpx.HTTPError, ValueError) as error:
            why = shortened(without(self._secrets, str(error)))
            raise SpectraError("endpoint", f"{url} lists no model ({why}); start a server there") from error
        self.model = names[0] if model is None else model
        if self.model not in names:
            known = without(self._secrets, _some_of(names))
            raise SpectraError("endpoint-model", f"{self.model[:LONGEST_ID]!r} is not listed there; give {known}")
        self.chosen = self.model
        self.methods: Mapping[str, str] = {SERVED: f"{self.model} at {self.url}"}
        self.plain = PlainRate(0.0, 0)
        self.settings: Mapping[str, Mapping[str, Value]] = {SERVED: {}}

    @property
    def note(self) -> str:
        """Why nothing is coloured, in a sentence."""
        return NOTE.format(model=self.model, url=self.url)

    def measure(self, context: int) -> PlainRate:
        """Raises SpectraError: a server decodes its own way."""
        raise SpectraError("endpoint", "a server's plain decoding is not measured from here; name a model")

    def builds(self, request: AnswerRequest) -> bool:
        return False

    def ready(self, request: AnswerRequest, on_progress: ProgressCallback) -> None:
        """A server lacks nothing that could be built here."""

    def answer(self, request: AnswerRequest) -> "ServedAnswer":
        """The next turn. What the request says of caches and warm starts is left to the server."""
        sampling = {
            "temperature": request.sampling.temperature,
            "top_p": request.sampling.top_p,
            "seed": request.sampling.seed,
        }
        body = {
            "model": self.model,
            "messages": list(request.messages),
            "stream": True,
            "stream_options": {"include_usage": True},
            "max_tokens": request.max_new_tokens,
            **sampling,
        }
        if request.sampling.greedy:
            del body["top_p"]  # it changes nothing there, and TGI refuses 1
        settings = {"max_tokens": request.max_new_tokens, **sampling, "told": None}
        trace = Trace(request.method, self.model, request.prompt, (), settings=settings)
        return ServedAnswer(self._client, f"{self.url}/v1/chat/completions", body, trace, self._secrets)

    def in_turn(self, requests: Sequence[AnswerRequest]) -> "Generator[ServedAnswer]":
        """See `Backend.in_turn`."""
        yield from map(self.answer, requests)

    def start_over(self, visitor: str) -> None:
        """Nothing is kept here."""


def address(url: str) -> httpx.URL:
    """Raises SpectraError for what is none, without what stands before an `@` or after a `?`: it may be a password."""
    try:
        given = httpx.URL(url)
        if given.query or given.fragment:
            problem = "its address has a ? or a #, which cannot be kept; leave it and what follows away"
            raise SpectraError("endpoint", problem)
        if given.scheme in ("http", "https") and given.host:
            return given
    except (httpx.InvalidURL, UnicodeError):  # the second: of bytes that are no UTF-8
        pass
    shown = url.rpartition("@")[2][:80]
    problem = f"{shown!r} is no address; start a server there and give one such as http://127.0.0.1:8000"
    hint = ", with %2F for a / in its password" if "@" in url else ""
    raise SpectraError("endpoint", problem + hint)


def connected() -> httpx.Client:
    """Raises SpectraError where the certificates cannot be read that the environment names."""
    try:
        return httpx.Client(timeout=TIMEOUT, limits=httpx.Limits(max_keepalive_connections=0))
    except OSError as error:
        why = f"its certificates cannot be read ({error.strerror}); name a file of them, or leave it unset"
        raise SpectraError("SSL_CERT_FILE", why) from error


def model_names(models: Any) -> list[str]:
    """The ids of these that are names; some servers list them without more. Raises ValueError where there is none."""
    known = models.get("data") if isinstance(models, Mapping) else models
    if not (isinstance(known, list) and known):
        raise ValueError(words_in(models) or "its list is empty")
    ids = [one.get("id") if isinstance(one, Mapping) else None for one in known]
    names = [name for name in ids if isinstance(name, str) and name.isprintable() and 0 < len(name) <= LONGEST_ID]
    if not names:
        raise ValueError("its id is no name")
    return names


def _some_of(names: Sequence[str]) -> str:
    """As a choice."""
    shown = " or ".join(names[:NAMED])
    return shown if len(names) <= NAMED else f"{shown}, or one of {len(names) - NAMED} more"


class Lap(NamedTuple):
    """Seconds of a piece, of the prefill before it where it is the first."""

    seconds: float = 0.0
    prefill: float = 0.0


class AnswerClock:
    """The seconds of an answer's pieces: of the first since it was asked for, of another since the one before.

    Of what came at once with the first there are none: pieces of one packet have no time between them.
    """

    def __init__(self) -> None:
        self._began = time.perf_counter()
        self._first = self._last = self._said = 0.0
        self._pieces = 0

    def note(self, at: float) -> None:
        """Then the server said something: text, a thought or why the answer ended."""
        self._said = at

    def silence(self, at: float) -> float:
        """Seconds from that on."""
        return at - self._said

    def lap(self) -> Lap:
        """Of the piece that was noted last."""
        if self._pieces:
            at_once = FIRST_SECONDS * max(1.0, self._pieces / FIRST_PIECES)
            later = self._said - self._first >= at_once
            lap = Lap(max(self._said - self._last, LEAST_SECONDS) if later else 0.0)
        else:
            self._first = self._said
            lap = Lap(prefill=self._said - self._began)
        self._last = self._said
        self._pieces += 1
        return lap

    def rest(self) -> Lap:
        """From the last piece to the end that was noted; of an answer without pieces, all of them."""
        if self._pieces:
            return Lap(self._said - self._last)
        return Lap(prefill=(self._said or time.perf_counter()) - self._began)


class ServedAnswer:
    """One streamed answer. A piece of text is a step of one token until the server tells how many they were.

    So is a piece of what the model thinks before it answers, which is not shown: the server counts it too. Its token
    goes to the next text.

    secrets: what no message may hold. Iterating gives None for a line without text and for silence: whoever was asked
    to stop need not wait for the next word.
    """

    def __init__(
        self, client: httpx.Client, url: str, body: dict[str, Any], trace: Trace, secrets: tuple[str, ...]
    ) -> None:
        self.trace = trace
        self._secrets = secrets
        self._client = client
        self._url = url
        self._body = body
        self._connection = Connection()
        self._closed = False

    def __iter__(self) -> Iterator[tuple[StepTrace, Pieces] | None]:
        clock = AnswerClock()
        finish = ""
        total = unseen = waiting = thoughts = 0
        whole = WholeCharacters()
        for at, said in self._events():
            total = said.total or total
            unseen = said.unseen or unseen
            thoughts += said.thought
            finish = said.finish[:LONGEST_END].encode(errors="replace").decode() or finish
            if said.finish or said.thought or said.text:
                clock.note(at)
            if said.thought or said.text:
                text = whole.take(said.text)
                waiting += 1
                yield self._step(1, [(waiting, text)] if text else [], clock.lap())
                waiting = 0 if text else waiting
            if not said.text:
                yield None
            if self._closed:
                return
            if finish and clock.silence(at) > END_SECONDS:
                break
        most, counted = self._body["max_tokens"], len(self.trace.steps)
        tokens = max(0, min(total, most)) or counted
        if total:
            seen = tokens if thoughts else max(0, min(total - unseen, tokens))
            self.trace.settings["told"] = {"tokens": tokens, "unseen": tokens - seen}
        if finish in ("", *OWN_ENDS):
            finish = "eos" if finish or tokens < most else "length"
        uncounted = max(0, tokens - counted)
        rest: Pieces = [(waiting + uncounted, "?")] if whole.rest and waiting + uncounted else []
        yield self._step(uncounted, rest, clock.rest(), finish)

    def close(self) -> None:
        self._closed = True

    def _step(self, tokens: int, pieces: Pieces, lap: Lap, finish: str = "") -> tuple[StepTrace, Pieces]:
        step = StepTrace(
            index=len(self.trace.steps),
            tokens=(UNKNOWN,) * tokens,
            sources=(Source.MODEL,) * tokens,
            path=(),
            picks=(UNKNOWN,) * tokens,
            tree=TreeTrace.of(TokenTree(UNKNOWN)),
            seconds=lap.seconds,
            prefill_seconds=lap.prefill,
            finish=finish,
        )
        self.trace.steps.append(step)
        self.trace.pieces += pieces
        return step, pieces

    def _events(self) -> Iterator[tuple[float, Said]]:
        """When each line of the server came and what it says, up to its end. Raises SpectraError for a refusal, for a
        line that breaks, for more than such an answer can be and for one that is cut off.
        """
        ended = False
        left = ANSWER_PIECES + TOKEN_PIECES * int(self._body["max_tokens"])
        try:
            for line in heard(self._lines(), HEAD_SECONDS, self._connection.hang_up):
                data = line.text.removeprefix(b"data:").strip()
                if data == b"[DONE]":
                    return
                said = said_in(line.text)
                ended = ended or bool(said.finish)
                left -= bool(said.text or said.thought)
                if left < 0:
                    raise ValueError("its answer does not end")
                yield line.at, said
            if not ended:
                raise ValueError("it stopped before its end")
        except ServerFailureError as failure:
            told = shortened(without(self._secrets, failure.told))
            raise SpectraError("endpoint", f"it {failure.what} ({told}); see its log") from None
        except (httpx.HTTPError, ValueError) as error:
            if ended and isinstance(error, httpx.HTTPError):
                return  # of an answer that is whole
            told = without(self._secrets, str(error) or type(error).__name__)
            what = "is not reached" if isinstance(error, httpx.ConnectError) else "broke off"
            raise SpectraError("endpoint", f"{self._url} {what} ({told}); ask again") from error

    def _lines(self) -> Generator[Line]:
        """An empty one as soon as the answer begins, then those of the server."""
        most = ANSWER_BYTES + TOKEN_BYTES * int(self._body["max_tokens"])
        trace = {"trace": self._connection.trace}
        request = self._client.build_request("POST", self._url, json=self._body, extensions=trace)
        with closing(self._client.send(request, stream=True)) as response:
            yield Line(time.perf_counter())
            if response.status_code != httpx.codes.OK:
                raise ServerFailureError(f"refused with {response.status_code}", reason_of(response))
            lines = lines_of(response, most)
            if response.headers.get("Content-Type", "").startswith("text/html"):
                lines = no_page(lines)
            yield from whole_replies(lines)
