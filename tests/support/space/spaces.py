"""Stands in for the package `spaces` on a ZeroGPU Space: calls run in forks, and all that passes between is pickled.

Like the real one: it asks for `FACTOR` times the seconds it is told and refuses more than `MOST`; the fork is made at a
function's first call and used again while it is idle; a generator's values come through a queue; an exception arrives
as `gr.Error` that has its class only; the device is there inside alone (here: no module of a model can be called
outside); the visitor is found by gradio's context; a fork that runs out of seconds is killed, and one that dies ends
its call.
"""

import inspect
import multiprocessing
import os
import pickle
import threading
import time

import gradio as gr
from gradio.context import LocalContext
from torch.nn.modules.module import register_module_forward_pre_hook

FORK = multiprocessing.get_context("fork")
asked: list[dict] = []
"""Of each call: its seconds, whether a visitor was known, the process that ran it."""
FACTOR, MOST = 1.5, 120
"""Of some GPUs, and of a visitor without an account."""
refusal: list[str] = []
"""Why the next call gets no GPU."""
keep_workers = [True]
workers: list["Worker"] = []
INSIDE = "SPACES_INSIDE"


def end_workers():
    """No fork outlives what called it: each holds the open files and pipes of this process."""
    while workers:
        process = workers.pop().process
        process.kill()
        process.join()


def hide_device():
    """Computing outside of a call is an error until what this returns is called."""

    def check(*_):
        if INSIDE not in os.environ:
            raise RuntimeError("CUDA is used outside of a lent call")

    return register_module_forward_pre_hook(check).remove


class Worker:
    """A fork that runs one function, call after call."""

    def __init__(self, task):
        self.arguments, self.results = FORK.SimpleQueue(), FORK.SimpleQueue()
        self.stop = FORK.Event()
        self.process = FORK.Process(target=self._serve, args=(task,), daemon=True)
        self.process.start()
        workers.append(self)

    def result(self, over):
        """The next thing that it sends; None where it is gone, and it is ended at `over`."""
        while not self.results._reader.poll(0.05):
            if time.monotonic() > over:
                self.process.kill()
            if not self.process.is_alive() and not self.results._reader.poll(0):
                return None
        return pickle.loads(self.results.get())

    def _serve(self, task):
        os.environ[INSIDE] = "1"
        while True:
            args, kwargs = pickle.loads(self.arguments.get())
            self.stop.clear()
            thread = threading.Thread(target=self._iterate, args=(task, args, kwargs))
            thread.start()
            thread.join()
            self.results.put(pickle.dumps(("end", None)))

    def _iterate(self, task, args, kwargs):
        try:
            values = task(*args, **kwargs)
            for value in values:
                if self.stop.is_set():
                    values.close()
                    break
                self.results.put(pickle.dumps(("value", value)))
        except Exception as error:  # noqa: BLE001 - whatever it is, its class arrives
            self.results.put(pickle.dumps(("error", type(error).__name__)))


def GPU(task=None, *, duration=60, size=None):  # the real name
    """The decorator, for generator functions."""
    if task is None:
        return lambda task: GPU(task, duration=duration, size=size)
    assert inspect.isgeneratorfunction(task)
    idle = []

    def handler(*args, **kwargs):
        seconds = duration(*args, **kwargs) if callable(duration) else duration
        asked.append({"seconds": seconds, "visitor": LocalContext.request.get(None) is not None})
        if (requested := round(FACTOR * seconds)) > MOST:
            raise gr.Error(f"The requested GPU duration ({requested}s) is larger than the maximum allowed")
        if refusal:
            raise gr.Error(refusal.pop(), title="ZeroGPU quota exceeded", print_exception=False)
        worker = idle.pop() if idle else None
        if worker is None or not worker.process.is_alive():
            worker = Worker(task)
        asked[-1]["process"] = worker.process.pid
        worker.arguments.put(pickle.dumps((args, kwargs)))
        over = time.monotonic() + seconds
        ended = False
        try:
            while True:
                result = worker.result(over)
                if result is None or time.monotonic() > over:
                    raise gr.Error("GPU task aborted", title="ZeroGPU worker error", print_exception=False)
                kind, value = result
                if kind == "end":
                    ended = True
                    return
                if kind == "error":
                    raise gr.Error(value, title="ZeroGPU worker error")
                yield value
        except GeneratorExit:
            worker.stop.set()
            while not ended:
                result = worker.result(over)
                ended = result is None or result[0] == "end"
            raise
        finally:
            if ended and keep_workers[0] and worker.process.is_alive():
                idle.append(worker)
            else:
                worker.process.kill()

    return handler


if os.environ.get("SPACES_ZERO_GPU"):
    hide_device()
