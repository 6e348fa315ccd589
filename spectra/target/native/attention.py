"""Attention by absolute position in the CPU library: bits do not depend on slots, on other rows or on threads."""

import ctypes
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from itertools import chain as joined

import numpy as np
import numpy.typing as npt
import torch

from spectra.target.native.library import Library

BLOCK = 64  # positions that attention takes together, as in csrc/attention.h


@dataclass(frozen=True, slots=True)
class Chains:
    """Per row its own ancestors among the rows of this step, from the first down, itself last.

    offsets: int64 [rows + 1], nodes: int32 [offsets[-1]]. Arrays of the standard library: a step of one row is so short
    that numpy's and torch's would be a tenth of it.
    """

    offsets: "array[int]"
    nodes: "array[int]"

    @classmethod
    def _from(cls, offsets: npt.ArrayLike, nodes: npt.ArrayLike) -> "Chains":
        made = array("q"), array("i")
        for part, numbers, kind in zip(made, (offsets, nodes), (np.int64, np.int32), strict=True):
            part.frombytes(np.asarray(numbers, kind).tobytes())
        return cls(*made)

    @classmethod
    def of(cls, chains: "Sequence[Sequence[int]] | Chains") -> "Chains":
        """Raises ValueError where a row is not the last of its chain or ancestors do not come in order."""
        if isinstance(chains, Chains):
            return chains
        offsets = np.cumsum([0, *map(len, chains)])
        nodes = np.fromiter(joined.from_iterable(chains), np.int32, int(offsets[-1]))
        if np.diff(offsets).min(initial=1) < 1 or not np.array_equal(nodes[offsets[1:] - 1], np.arange(len(chains))):
            raise ValueError("a row is not the last of its own chain")
        rising = np.diff(nodes, prepend=-1) > 0
        rising[offsets[:-1]] = nodes[offsets[:-1]] >= 0  # where a chain begins
        if not rising.all():
            raise ValueError("the ancestors of a row are not in order")
        return cls._from(offsets, nodes)

    @classmethod
    def run(cls, rows: int) -> "Chains":
        """Rows that follow one another, as in a prompt."""
        numbers = np.arange(rows, dtype=np.int32)
        below = numbers <= numbers[:, None]
        return cls._from(np.append(0, np.cumsum(numbers + 1)), np.broadcast_to(numbers, below.shape)[below])

    @classmethod
    def of_trees(cls, several: Sequence[Sequence[Sequence[int]]]) -> "Chains":
        """`together` of the chains of whole trees, which are right by construction."""
        chains = [chain for tree in several for chain in tree]
        return cls(array("q", accumulate(map(len, chains), initial=0)), array("i", joined.from_iterable(chains)))

    @classmethod
    def together(cls, several: "Sequence[Chains]") -> "Chains":
        """Rows of several sequences, one after the other; rows are counted inside their sequence."""
        if len(several) == 1:
            return several[0]
        starts = np.cumsum([0, *(one.offsets[-1] for one in several)])
        offsets = [np.array(one.offsets[:-1]) + start for one, start in zip(several, starts[:-1], strict=True)]
        return cls._from(np.concatenate([*offsets, starts[-1:]]), np.concatenate([one.nodes for one in several]))

    @property
    def places(self) -> tuple[int, int]:
        """Addresses of offsets and nodes."""
        return self.offsets.buffer_info()[0], self.nodes.buffer_info()[0]

    def __len__(self) -> int:
        return len(self.offsets) - 1


class SlotsView(ctypes.Structure):
    """`Slots` of csrc/attention.h."""

    _fields_ = (
        ("keys", ctypes.c_void_p),
        ("values", ctypes.c_void_p),
        ("layer_stride", ctypes.c_int64),
        ("head_stride", ctypes.c_int64),
        ("slot_stride", ctypes.c_int64),
    )


class Slots:
    """keys, values: [layers, kv_heads, capacity, dim], of one dtype and equal strides. Looked at once, for every step.

    dtype: of both. model: (layers, kv_heads, dim).
    """

    __slots__ = ("capacity", "dtype", "keys", "model", "values", "view")

    def __init__(self, keys: torch.Tensor, values: torch.Tensor) -> None:
        if keys.stride() != values.stride() or keys.stride(-1) != 1 or keys.dtype != values.dtype:
            raise ValueError("keys and values are not laid out alike")
        self.keys, self.values = keys, values
        self.dtype = keys.dtype
        layers, kv_heads, self.capacity, dim = keys.shape
        self.model = layers, kv_heads, dim
        self.view = SlotsView(keys.data_ptr(), values.data_ptr(), *keys.stride()[:3])


@dataclass(frozen=True, slots=True)
class Shared:
    """slots: of another sequence; its first `length` positions, whole blocks, are this sequence's too."""

    slots: Slots
    length: int


class SequenceView(ctypes.Structure):
    """`Sequence` of csrc/attention.h."""

    _fields_ = (
        ("own", SlotsView),
        ("others", SlotsView),
        ("shared", ctypes.c_int64),
        ("length", ctypes.c_int64),
        ("first_row", ctypes.c_int64),
        ("rows", ctypes.c_int64),
    )

    @classmethod
    def of(
        cls, slots: Slots, length: int, rows: int, *, first_row: int = 0, shared: Shared | None = None
    ) -> "SequenceView":
        """slots: of the positions that are not shared."""
        others, read = SlotsView(), 0
        if shared is not None:
            others, read = shared.slots.view, shared.length
            if shared.slots.dtype != slots.dtype or shared.slots.model != slots.model:
                raise ValueError("the shared slots are not of the same model")
            if read % BLOCK or not 0 <= read <= min(length, shared.slots.capacity):
                raise ValueError(f"{read} positions cannot be shared: whole blocks of {BLOCK}, all of them committed")
        if length - read + rows > slots.capacity:
            raise ValueError(f"{length - read} + {rows} slots, but the cache has {slots.capacity}")
        return cls(slots.view, others, read, length, first_row, rows)


class HeadsView(ctypes.Structure):
    """`Heads` of csrc/attention.h."""

    _fields_ = (
        ("heads", ctypes.c_int),
        ("kv_heads", ctypes.c_int),
        ("dim", ctypes.c_int),
        ("scaling", ctypes.c_float),
        ("window", ctypes.c_int64),
    )


def attend(
    library: Library,
    query: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    length: int,
    chains: Sequence[Sequence[int]] | Chains,
    scaling: float,
    window: int | None = None,
) -> torch.Tensor:
    """Each row attends to the committed slots [0, length) and to its own ancestors: [q, heads, dim] as query's dtype.

    query: [q, heads, dim] bf16 or fp32. keys, values: one layer's [kv_heads, capacity, dim] in bf16 or fp32, strides
    allowed; the rows of this step stand at slots length and on. window: the last so many positions are read.
    """
    tree = Chains.of(chains)
    x = query.detach().float().contiguous()
    rows, heads, dim = x.shape
    if rows != len(tree) or heads % keys.shape[0] or dim != keys.shape[2]:
        raise ValueError(f"query {tuple(x.shape)}, keys {tuple(keys.shape)} and {len(tree)} chains do not fit")
    out = torch.empty_like(x)
    if rows:
        library.calls.spectra_attend(
            ctypes.byref(SequenceView.of(Slots(keys[None], values[None]), length, rows)),
            ctypes.byref(HeadsView(heads, keys.shape[0], dim, scaling, window or 0)),
            *map(ctypes.c_void_p, tree.places),
            ctypes.c_void_p(x.data_ptr()),
            int(keys.dtype == torch.float32),
            ctypes.c_void_p(out.data_ptr()),
            library.threads,
        )
    return out.to(query.dtype)
