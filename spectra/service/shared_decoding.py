"""Answers that several threads iterate, decoded together: one worker thread does all steps on one target.

An answer joins when it is first asked for a step and leaves between two steps. Between two steps a run of a prompt is
read, of several prompts where many came at once, so that a long prompt does not keep the others from their steps. The
worker ends with the last answer, and then the target is free.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from typing import Any

from spectra.batch.decode_many import decode_queue
from spectra.batch.queue import check_request, fits, open_session, sequence_of
from spectra.batch.request import Request
from spectra.decode import Decoding
from spectra.errors import TargetBusyError
from spectra.method import Group, Method, ReadingSession, SharedTarget
from spectra.service.worker_thread import WorkerThread
from spectra.settings import Limits, Sampling, check_functions, check_number
from spectra.trace import StepTrace

AT_ONCE = 32
"""Answers together, at most."""
AHEAD = 2
"""Steps that the worker may have done before they are taken, where several decode. One who decodes alone is asked for
each: nothing else is done during its steps."""
IDLE_SECONDS = 0.1
"""Between two looks for something to do, at most."""
READING_SECONDS = 0.25
"""Between two steps no further prompt is read after so long. Who came with many others waits for their prompts, and not
for a step of those before it after each."""
PASSED_OVER = 3
"""Runs of shorter prompts, at most, from one of the prompt that came first to its next: those might come for ever."""
CACHE_BYTES = 2 << 30
"""Of the KV caches of all; who does not fit waits, the first never."""


class DecodingThread(WorkerThread):
    """Does the steps of a `SharedDecoding`, and waits for those of none: it might be the one that is to do them."""


def within_a_step() -> bool:
    """Whether this is called from one of any `SharedDecoding`, as by a stopping criterion."""
    return isinstance(threading.current_thread(), DecodingThread)


class SharedDecoding:
    """at_once: the most answers together, 1 to 4096. cache_bytes: see `CACHE_BYTES`.

    Raises SpectraError for what is no target, and for a number out of range.
    """

    def __init__(self, target: SharedTarget, *, at_once: int = AT_ONCE, cache_bytes: int = CACHE_BYTES) -> None:
        check_functions("target", target, ("group",), '`load_target("MODEL")`')
        check_number("at_once", at_once, 1, 4096, whole=True)
        check_number("cache_bytes", cache_bytes, 1, 2**63 - 1, whole=True)
        self._target, self._at_once, self._cache_bytes = target, at_once, cache_bytes
        self.changed = threading.Condition()
        self._waiting: list[SharedSteps] = []
        self._works = False

    def decode(
        self,
        prompt: Sequence[int],
        method: Method,
        *,
        sampling: Sampling | None = None,
        limits: Limits | None = None,
        explain: bool = False,
        **session_options: Any,
    ) -> SharedSteps:
        """See `spectra.decode.decode`; the tokens are the same. Its errors are raised where the first step is asked
        for; TargetBusyError while somebody holds the target by other means.
        """
        sampling = Sampling() if sampling is None else sampling
        return SharedSteps(self, Request(prompt, method, sampling, limits, explain, session_options))

    def join(self, one: SharedSteps) -> None:
        """Wait for a place. Called with `changed` held."""
        if not self._works:
            DecodingThread(self._work).start()  # where that fails nobody waits for it
            self._works = True
        self._waiting.append(one)

    def leave(self, one: SharedSteps) -> bool:
        """Whether it only waited and does so no more. Called with `changed` held."""
        with suppress(ValueError):
            self._waiting.remove(one)
            return True
        return False

    def next_waiting(self, group: Group, running: int) -> SharedSteps | None:
        """The first of those that wait, taken out of the queue, where there is a place and room for its cache.

        Who could share what is being read just now waits for it, and lets those behind pass. With its error where it
        cannot be said how much it takes.
        """
        with self.changed:
            waiting = self._waiting[:] if running < self._at_once else []
        one = next((each for each in waiting if not shares_soon(group, each.request)), None)
        if one is None:
            return None
        try:
            if not one.checked:  # it may wait for many steps; its start checks again what may change meanwhile
                check_request(self._target, group, one.request)
                one.checked = True
            if running and not fits(self._target, group, one.request, self._cache_bytes):
                return None
        except BaseException as error:  # noqa: BLE001 - raised where its steps are asked for
            one.error = error
        with self.changed:
            return one if self.leave(one) else None

    @property
    def anyone_waits(self) -> bool:
        return bool(self._waiting)

    def _work(self) -> None:
        while self._serve():
            continue

    def _serve(self) -> bool:
        """Decode until nobody is left; False where nobody came meanwhile."""
        queue = None
        try:
            group = self._target.group()
            try:
                queue = SharedQueue(self, self._target, group)
                for number, step in decode_queue(self._target, group, queue):
                    queue.give(number, step)
            finally:
                group.close()
        except BaseException as error:  # noqa: BLE001 - raised where the steps are asked for
            self._fail(queue, error)
        with self.changed:
            for one in queue.over if queue else ():
                one.over = True
            self._works = bool(self._waiting)
            self.changed.notify_all()
            return self._works

    def _fail(self, queue: SharedQueue | None, error: BaseException) -> None:
        """All that decode, or before that all that wait, get the error."""
        with self.changed:
            failed = list(queue.answers.values()) if queue else self._waiting[:]
            for one in failed:
                one.error, one.over = one.error if one.left else error, True
            if not queue:
                self._waiting = []


def shares_soon(group: Group, request: Request) -> bool:
    """Whether an answer reads now what its prompt begins with. False for what is no prompt."""
    if request.options.get("prefix") is not None:
        return False
    try:
        return group.is_being_read(request.prompt)
    except BaseException:  # noqa: BLE001 - its own start says what is wrong
        return False


@dataclass(slots=True)
class HalfRead:
    """An answer whose prompt is not read to its end. runs: of it that were read."""

    session: ReadingSession
    runs: int = 0


class SharedQueue:
    """Who of the answers decodes, see `Running`. Used by the worker only.

    answers: those that read or decode, by number. over: those whose end is reported once the target is free.
    """

    def __init__(self, owner: SharedDecoding, target: SharedTarget, group: Group) -> None:
        self._owner, self._target, self._group = owner, target, group
        self._numbers = count()
        self._readings: dict[int, HalfRead] = {}
        self._passed_over = 0
        self._sequences: dict[int, Decoding] = {}
        self.answers: dict[int, SharedSteps] = {}
        self.over: list[SharedSteps] = []

    def running(self) -> dict[int, Decoding]:
        """Those whose steps are asked for; waits where there is none."""
        while True:
            self._let_go()
            self._read()
            self._tell()
            with self._owner.changed:
                if not self.answers and not self._owner.anyone_waits:
                    return {}
                shared = len(self.answers) > 1
                ready = [number for number in self._sequences if self.answers[number].wants_a_step(shared)]
                if ready:
                    self._count_others(ready)
                    return {number: self._sequences[number] for number in ready}
                if self.answers and not self._readings and not any(map(self._ends, self.answers)):
                    self._owner.changed.wait(IDLE_SECONDS)

    def no_more(self) -> bool:
        """Another visitor may ask at any time."""
        return False

    def give(self, number: int, step: StepTrace) -> None:
        with self._owner.changed:
            if not self.answers[number].left:  # those before it that were not taken are gone
                self.answers[number].steps.append(step)
            self._owner.changed.notify_all()

    def failed(self, number: int, error: BaseException) -> None:
        """The answer ends with its error; the others go on."""
        with self._owner.changed:
            answer = self.answers[number]
            if not answer.left:
                answer.error, answer.left = error, True

    def _count_others(self, numbers: Iterable[int]) -> None:
        """Note for these who takes turns with them. Called with `changed` held."""
        for number in numbers:
            self.answers[number].others = max(self.answers[number].others, len(self.answers) - 1)

    def _ends(self, number: int) -> bool:
        decodes = number in self._sequences
        return self.answers[number].left or (decodes and bool(self._sequences[number].finish))

    def _let_go(self) -> None:
        """Close the sequences that ended or were left."""
        for number in [number for number in self.answers if self._ends(number)]:
            one = self._readings.pop(number, None) or self._sequences.pop(number)
            answer = self.answers.pop(number)
            self.over.append(answer)
            try:
                one.session.close()
            except BaseException as error:  # noqa: BLE001 - of a `Prefix(on_leave=...)`; raised where its steps are asked for
                if answer.error is None:
                    answer.error = error

    def _tell(self) -> None:
        """Tell the end of those that are over; the last ones wait until the target is free."""
        with self._owner.changed:
            if self.answers or self._owner.anyone_waits:
                for one in self.over:
                    one.over = True
                self.over.clear()
                self._owner.changed.notify_all()

    def _let_in(self) -> None:
        """The next one, its prompt not read yet; an error is its own."""
        one = self._owner.next_waiting(self._group, len(self.answers))
        if one is None:
            return
        try:
            if one.error is not None:
                raise one.error
            session = open_session(self._target, self._group, one.request, reads=False)
        except BaseException as error:  # noqa: BLE001 - raised where its steps are asked for
            one.error = error
            self.over.append(one)
            return
        number = next(self._numbers)
        self._readings[number], self.answers[number] = HalfRead(session), one

    def _read(self) -> None:
        """Of each prompt a run at most, those that come meanwhile too."""
        end = time.monotonic() + READING_SECONDS
        had: set[int] = set()
        self._let_in()
        while waiting := [number for number in self._readings if number not in had]:
            number = self._next_read(waiting)
            had.add(number)
            self._read_run(number)
            if time.monotonic() >= end:
                return
            self._let_in()

    def _read_run(self, number: int) -> None:
        one = self._readings[number]
        with self._owner.changed:
            self._count_others([number])
        try:
            one.runs += 1
            if one.session.read_on():
                request = self.answers[number].request
                self._sequences[number] = sequence_of(self._target, request, one.session)
                del self._readings[number]
        except BaseException as error:  # noqa: BLE001 - raised where its steps are asked for
            self.failed(number, error)

    def _next_read(self, waiting: Sequence[int]) -> int:
        """Whose prompt: the one of which the fewest runs were read, so that a short one need not wait for a long one;
        now and then the one that came first."""
        first = waiting[0]
        least = min(waiting, key=lambda number: self._readings[number].runs)
        passes_over = least != first and self._passed_over < PASSED_OVER
        self._passed_over = self._passed_over + 1 if passes_over else 0
        return least if passes_over else first


class SharedSteps(Iterator[StepTrace]):
    """The steps of one answer. others: the most that decoded beside it in any of them.

    steps: done and not taken yet. over: no more will come. left: nobody wants more. error: what ended it. checked: its
    request was.
    """

    def __init__(self, owner: SharedDecoding, request: Request) -> None:
        self._owner, self.request = owner, request
        self.others = 0
        self.steps: deque[StepTrace] = deque()
        self.over = self.left = self.checked = False
        self.error: BaseException | None = None
        self._joined = self._asks = False

    def wants_a_step(self, shared: bool) -> bool:
        """Whether the worker is to do one now. Called with `changed` held."""
        return len(self.steps) < AHEAD if shared else self._asks and not self.steps

    def __next__(self) -> StepTrace:
        if within_a_step():
            raise TargetBusyError(
                "a step is asked for from within a shared step; ask when that one is over, or use `decode`"
            )
        with self._owner.changed:
            if not self._joined and not self.over:
                self._owner.join(self)
                self._joined = True
            if not self.steps and not self.over:
                self._asks = True
                self._owner.changed.notify_all()
                self._owner.changed.wait_for(lambda: self.steps or self.over)
                self._asks = False
            if self.steps:
                step = self.steps.popleft()
                self._owner.changed.notify_all()
                return step
            self._raise_error()
        raise StopIteration

    def _raise_error(self) -> None:
        """Once. Called with `changed` held."""
        error, self.error = self.error, None
        try:
            if isinstance(error, StopIteration) or not isinstance(error, Exception | None):
                raise RuntimeError(f"{type(error).__name__} was raised in this answer's steps") from error
            if error is not None:
                raise error
        finally:
            del error  # it holds this frame, and the caches of what failed would stay with them

    def close(self) -> None:
        """Leave after the step in hand. The sequence is closed when this returns, but for a call from within a step, of
        this answer or another. Raises what fails when its cache is left. Safe to call twice.
        """
        with self._owner.changed:
            self.steps.clear()
            self.error = None  # of a step that nobody takes
            if not self._joined or self._owner.leave(self):
                self.over = True
            self.left = True
            self._owner.changed.notify_all()
            self._owner.changed.wait_for(lambda: self.over or within_a_step())
            self._raise_error()
