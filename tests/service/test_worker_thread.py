"""Work in a worker thread: its result or its error, in a thread that is gone afterwards, and only one however deep."""

import _thread
import signal
import threading
import time
import weakref
from contextlib import suppress

import pytest
from uncollected import Held, uncollected

from spectra.service.worker_thread import in_worker_thread


@in_worker_thread
def thread():
    return threading.current_thread()


@in_worker_thread
def nested():
    return thread(), threading.current_thread()


def test_another_thread_does_it_and_is_gone():
    done = thread()
    assert done is not threading.current_thread()
    assert not done.is_alive()


def test_work_within_stays_in_its_thread():
    inner, outer = nested()
    assert inner is outer


def test_an_error_reaches_the_caller():
    @in_worker_thread
    def fail(word, *, mark):
        raise LookupError(word + mark)

    with pytest.raises(LookupError, match="gone!"):
        fail("gone", mark="!")


def test_what_failed_does_not_stay_in_memory_with_its_error():
    """A model that a GPU has no room for, for example."""
    held = []

    @in_worker_thread
    def fail():
        model = Held()
        held.append(weakref.ref(model))
        raise LookupError

    with uncollected():
        with suppress(LookupError):
            fail()
        assert held[0]() is None


@pytest.fixture
def interruptible():
    """A shell lets what it starts in the background ignore Ctrl-C: a test waited for it until its time was up."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def signalled():
    signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)


@pytest.mark.parametrize("interrupt", [signalled, _thread.interrupt_main], ids=["while it waits", "before it waits"])
@pytest.mark.usefixtures("interruptible")
def test_work_whose_caller_is_interrupted_is_given_up(interrupt):
    """As while a model is loaded: a thread inside torch when the interpreter ended had the process aborted.

    The second notes the signal without ending the caller's wait, as one does that comes just before it: it was lost.
    """
    threads = []

    @in_worker_thread
    def endless():
        threads.append(threading.current_thread())
        time.sleep(0.1)  # the caller waits by now
        interrupt()
        while True:
            time.sleep(0.01)

    with pytest.raises(KeyboardInterrupt):
        endless()
    assert [thread.is_alive() for thread in threads] == [False]
