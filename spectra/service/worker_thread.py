"""Work in a thread that ends with it, so that it leaves none of the threads behind that helped it.

A CPU's kernels keep helpers for every thread that calls them, as long as that one lives. Where there are more of those
than cores they stop waiting for each other actively, and every step takes half as long again. A program that decodes
in a thread for each answer, as the demo does, therefore lets no thread that stays touch the model.
"""

import contextvars
import ctypes
import functools
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

END_SECONDS = 5.0
"""How long work that is given up is waited for."""
LOOK_SECONDS = 1.0
"""How long Ctrl-C goes unnoticed at most: a signal that comes just before a wait begins does not end it."""


class WorkerThread(threading.Thread):
    """Calls `work` in its maker's context and keeps its error, to be raised where it is waited for."""

    def __init__(self, work: Callable[[], None]) -> None:
        super().__init__(daemon=True)
        self._work = work
        self._values = contextvars.copy_context()
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            self._values.run(self._work)
        except Exception as error:  # noqa: BLE001 - raised where it is waited for
            self.error = error
        except SystemExit:
            pass  # given up

    def give_up(self, seconds: float) -> None:
        """End the work before its next line of Python, and wait so long at most until it has ended: a thread that is
        inside torch when the interpreter ends takes the process with it.
        """
        if self.ident is not None:
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self.ident), ctypes.py_object(SystemExit))
        with suppress(RuntimeError):  # it has not begun
            self.join(seconds)


def in_worker_thread(function: Callable[P, R]) -> Callable[P, R]:
    """The function, run in a `WorkerThread` while its caller waits; in the caller's own if that is one already.

    Where the waiting is interrupted, by Ctrl-C for example, the work is given up.
    """

    @functools.wraps(function)
    def call(*arguments: P.args, **options: P.kwargs) -> R:
        if isinstance(threading.current_thread(), WorkerThread):
            return function(*arguments, **options)
        results: list[R] = []
        thread = WorkerThread(lambda: results.append(function(*arguments, **options)))
        try:
            thread.start()
            while thread.is_alive():
                thread.join(LOOK_SECONDS)
        except KeyboardInterrupt:
            thread.give_up(END_SECONDS)
            raise
        error, thread.error = thread.error, None
        if error is None:
            return results[0]
        try:
            raise error
        finally:
            del error  # it holds this frame, and all that failed would stay with them in memory

    return call
