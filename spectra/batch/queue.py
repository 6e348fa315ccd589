"""Who of a batch is decoded, and who waits for a place or for room in memory."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NoReturn

from spectra.batch.request import OPTIONS, Request
from spectra.decode import Decoding
from spectra.errors import SpectraError
from spectra.method import Group, ReadingSession, Session, SharedTarget, check_parts
from spectra.settings import Limits, Sampling


class RequestQueue:
    """The requests of a batch, in order. See `decode_many`."""

    def __init__(
        self,
        target: SharedTarget,
        group: Group,
        requests: Iterable[Request],
        *,
        at_once: int,
        cache_bytes: int | None,
    ) -> None:
        self._target, self._group = target, group
        self._at_once, self._cache_bytes = at_once, cache_bytes
        self._running: dict[int, Decoding] = {}
        self._taken: dict[int, Request] = {}
        """Of those that decode."""
        self._owners: dict[int, int] = {}
        if not isinstance(requests, Iterable):
            raise SpectraError("requests", f"a {type(requests).__name__} is no list of them; give `[Request(...)]`")
        self._untaken: int | None = None
        """Requests that are not taken yet; None for not known."""
        self._checked = isinstance(requests, Sequence)
        if self._checked:
            requests = list(requests)  # as they are now: those that are checked are those that are decoded
            self._untaken = len(requests)
            self._check_all(requests)
        self._requests: Iterator[tuple[int, Request]] = enumerate(requests)
        self._waiting: tuple[int, Request] | None = None
        """Taken from the requests, and not decoded for lack of memory."""

    def running(self) -> dict[int, Decoding]:
        """The sequences of the next step by number, without those that ended, with those that there is room for."""
        for number in [number for number, one in self._running.items() if one.finish]:
            del self._taken[number]
            self._running.pop(number).session.close()
            self._owners = {drafter: owner for drafter, owner in self._owners.items() if owner != number}
        while len(self._running) < self._at_once:
            self._waiting = self._waiting or self._next()
            if self._waiting is None:
                break
            number, request = self._waiting
            if self._running and not fits(self._target, self._group, request, self._cache_bytes):
                break
            self._check_drafters(number, request, self._owners)
            self._waiting, self._taken[number] = None, request
            try:
                self._running[number] = begin(self._target, self._group, request)
            except BaseException as error:  # noqa: BLE001 - raised with the name of the request
                self.failed(number, error)
        return dict(self._running)

    def no_more(self) -> bool:
        """Whether nobody waits. Not known, and False, where the requests are an iterator that has not ended."""
        return self._waiting is None and self._untaken == 0

    def _next(self) -> tuple[int, Request] | None:
        taken = next(self._requests, None)
        if taken is None:
            self._untaken = 0
        elif self._untaken is not None:
            self._untaken -= 1
        if taken is not None and not self._checked:
            self._check(*taken)
        return taken

    def failed(self, number: int, error: BaseException) -> NoReturn:
        """Ends the batch. The error names the request: one of ours in its text, another one in a note."""
        request, cause = self._taken[number], error
        if isinstance(error, StopIteration):
            kinds = ", ".join(type(drafter).__name__ for drafter in request.method.drafters)
            fix = "catch it there, or ask by `next(values, None)`"
            error = SpectraError("method", f"its budget or a drafter of it ({kinds}) raised StopIteration; {fix}")
        if isinstance(error, SpectraError):
            raise _of(request.called(number), error) from cause
        if isinstance(error, Exception):  # Ctrl-C is nobody's
            error.add_note(f"raised in {request.called(number)}")
        raise error

    def _check_bytes(self, number: int, request: Request) -> None:
        """Raises SpectraError for a cache that could never fit."""
        if self._cache_bytes is None:
            return
        need = bytes_of(self._target, self._group, request)
        if need > self._cache_bytes:
            raise SpectraError(
                "cache_bytes",
                f"{request.called(number)} needs {need:,} bytes of KV cache alone, {self._cache_bytes:,} are allowed; "
                "allow more, shorten its prompt or ask for fewer new tokens",
            )

    def _check_all(self, requests: Sequence[Request]) -> None:
        seen: dict[int, int] = {}
        for number, request in enumerate(requests):
            self._check(number, request)
            self._check_drafters(number, request, seen)

    def _check(self, number: int, request: Request) -> None:
        """Raises SpectraError, with the number, for what is no request and for one that the target cannot answer."""
        if not isinstance(request, Request):
            kind = type(request).__name__
            raise SpectraError("requests", f"number {number} is a {kind}; give `Request(prompt, method)` for each")
        try:
            check_request(self._target, self._group, request)
        except SpectraError as error:
            raise _of(request.called(number), error) from error
        self._check_bytes(number, request)

    @staticmethod
    def _check_drafters(number: int, request: Request, owners: dict[int, int]) -> None:
        """Note whose drafters these are. Raises SpectraError where another sequence has one of them."""
        for drafter in request.method.drafters:
            owner = owners.setdefault(id(drafter), number)
            if owner != number:
                raise SpectraError(
                    "method", f"requests {owner} and {number} share a {type(drafter).__name__}; make a method for each"
                )


def _of(name: str, error: SpectraError) -> SpectraError:
    """The error, with whose it is."""
    return SpectraError(error.field, f"of {name}: {error.problem}")


def check_request(target: SharedTarget, group: Group, request: Request) -> None:
    """Raise SpectraError for parts of another kind, an option that is not known, and what the group cannot answer."""
    options = request.options
    check_parts(target, request.method, request.sampling, request.limits)
    if not isinstance(options, Mapping):
        raise SpectraError("options", f"a {type(options).__name__} is none; give a dict of {' and '.join(OPTIONS)}")
    if unknown := [name for name in options if name not in OPTIONS]:
        raise SpectraError("options", f"{unknown[0]!r} is none; give {' or '.join(OPTIONS)}")
    group.check(request.prompt, limits_of(target, request).max_new_tokens, **options)


def begin(target: SharedTarget, group: Group, request: Request) -> Decoding:
    """The sequence of a request, its prompt read. Raises SpectraError for bad input."""
    return sequence_of(target, request, open_session(target, group, request))


def open_session(target: SharedTarget, group: Group, request: Request, *, reads: bool = True) -> ReadingSession:
    """Its session. reads: with the prompt read. Raises SpectraError for bad input."""
    method, limits = request.method, limits_of(target, request)
    return group.start(
        request.prompt,
        limits.max_new_tokens,
        method.max_nodes + 1,
        request.sampling or Sampling(),
        top_k=method.top_k,
        reads=reads,
        **request.options,
    )


def sequence_of(target: SharedTarget, request: Request, session: Session) -> Decoding:
    """The sequence of a session that has read the prompt. Where drafters fail at it the session is closed."""
    limits = limits_of(target, request)
    try:
        return Decoding(session, request.prompt, request.method, limits, explain=request.explain, trees=target.trees)
    except BaseException:
        session.close()
        raise


def bytes_of(target: SharedTarget, group: Group, request: Request) -> int:
    """What the KV cache of a request takes where it shares nothing; one of its own that is larger is used as it is."""
    new, prefix = limits_of(target, request).max_new_tokens, request.options.get("prefix")
    need = group.cache_bytes(len(request.prompt), new, request.method.max_nodes + 1)
    return need if prefix is None else max(need, prefix.size)


def fits(target: SharedTarget, group: Group, request: Request, cache_bytes: int | None) -> bool:
    """Whether its cache has room beside those of the open sequences. cache_bytes: of all, None for no limit."""
    if cache_bytes is None:
        return True
    shared = group.shared_bytes(request.prompt) if request.options.get("prefix") is None else 0
    return group.held_bytes() + bytes_of(target, group, request) - shared <= cache_bytes


def limits_of(target: SharedTarget, request: Request) -> Limits:
    """The limits of a request: its own, else the default."""
    return request.limits or Limits(eos=target.eos)
