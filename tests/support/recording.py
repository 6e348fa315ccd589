"""What stands in for a GPU in tests: a recorder that replays a function's operations, and a plain flash kernel.

A recording holds what a CUDA graph would: operations on the same memory, with every number that came from the host as
it was. A function that asks for a number on the device, or whose shapes depend on one, is refused, as a graph would.
"""

import torch
from torch.utils._python_dispatch import TorchDispatchMode

WAITS = ("_local_scalar_dense", "nonzero", "masked_select", "lift_fresh", "unique", "is_nonzero", "equal")


class Recorder(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.calls = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        chosen = args[1] if "index.Tensor" in str(function) else ()
        masked = any(x is not None and x.dtype == torch.bool for x in chosen)
        if masked or any(name in str(function) for name in WAITS):
            raise RuntimeError(f"{function} waits for the device")
        out = function(*args, **kwargs)
        self.calls.append((function, args, kwargs, out))
        return out


def record(function):
    """A `Capture`: runs once as a warm-up, then records."""
    function()
    with Recorder() as recorder:
        result = function()

    def replay():
        now = {}

        def known(x):
            """An argument of an operation as it is in this replay: tensors are in it, or in lists of it."""
            return type(x)(map(known, x)) if isinstance(x, list | tuple) else now.get(id(x), x)

        for call, args, kwargs, out in recorder.calls:
            fresh = call(*map(known, args), **{name: known(x) for name, x in kwargs.items()})
            pairs = zip(*(x if isinstance(x, tuple | list) else [x] for x in (out, fresh)), strict=True)
            now |= {id(old): new for old, new in pairs if isinstance(old, torch.Tensor)}
        return known(result)

    return replay


class Counting:
    """A `Capture` that counts; `fails` says what the next ones raise."""

    def __init__(self):
        self.made, self.fails = 0, None

    def __call__(self, function):
        if self.fails:
            raise self.fails
        self.made += 1
        return record(function)


class PlainFlash:
    """A `Context` by one softmax over all slots, those past the length masked. Also in place of `context_kernel`."""

    def __init__(self, query, value, length):
        self.length = length

    def __call__(self, query, key, value, scaling):
        score = scaling * torch.einsum("nhd,shd->nhs", query.double(), key.double())
        score = score.masked_fill(torch.arange(len(key)) >= self.length, float("-inf"))
        out = torch.einsum("nhs,shd->nhd", score.softmax(-1), value.double())
        return out[None].to(query.dtype), score.logsumexp(-1)[None]


def attend_row_by_row(query, key, value, scaling, window, table):
    """In place of `attend_by_position`: each row by itself over its own path, as an operation that a recorder sees."""
    return _row_by_row(query, key, value, float(scaling), -1 if window is None else window, *table)


@torch.library.custom_op("spectra_tests::row_by_row", mutates_args=())
def _row_by_row(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scaling: float, window: int,
    length: torch.Tensor, live: torch.Tensor, positions: torch.Tensor, own: torch.Tensor,
) -> torch.Tensor:  # fmt: skip
    (heads, rows, _), start = query.shape, int(length)
    out = query.new_zeros(heads, rows, value.shape[-1])
    for row in range(int(live)):
        position = int(positions[row])
        slots = torch.cat([torch.arange(start), start + own[row, : position - start + 1]])
        slots = slots[max(0, position - window + 1) if window >= 0 else 0 :]
        asked = query[:, row].unflatten(0, (len(key), -1)).to(key.dtype)
        score = (scaling * asked @ key[:, slots].mT).softmax(-1)
        out[:, row] = (score @ value[:, slots]).flatten(0, 1).to(out.dtype)
    return out
