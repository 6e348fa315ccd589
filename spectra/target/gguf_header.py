"""What a GGUF file says before its data: metadata and where each tensor lies (ggml/docs/gguf.md, versions 2 and 3).

Arrays of the metadata, a vocabulary as a rule, are passed over: reading them takes seconds.
"""

import mmap
import os
import struct
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import gguf
import torch

from spectra.errors import SpectraError
from spectra.io.bounded import open_regular
from spectra.target.choices import GGUF_MAGIC
from spectra.target.gguf_blocks import BLOCK_TYPES, PLAIN_TYPES

ALIGNMENT = 32
LONGEST = 64  # letters of a tensor's name
MOST_DIMENSIONS = 4  # of a tensor, GGML_MAX_DIMS
STRING, ARRAY = 8, 9
NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
"""Type of a metadata value -> its `struct` format."""


@dataclass(frozen=True, slots=True)
class TensorPlace:
    """shape: outermost first, as torch has it. kind: the name of its block type. start, end: bytes of the file."""

    name: str
    shape: tuple[int, ...]
    kind: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class GgufHeader:
    """metadata: numbers and strings by key. tensors: by name, all inside the file and of a type that is read.
    arrays: the keys whose values were passed over."""

    metadata: Mapping[str, Any]
    tensors: Mapping[str, TensorPlace]
    arrays: Collection[str] = ()


def is_gguf(path: str | os.PathLike[str]) -> bool:
    """Whether the name is that of a GGUF file, or a file is there that begins as one."""
    path = Path(path)
    try:
        if path.suffix == ".gguf":
            return not path.is_dir()
        with open_regular(path) as file:
            return file.read(len(GGUF_MAGIC)) == GGUF_MAGIC
    except (OSError, ValueError):
        return False


def read_header(path: Path) -> GgufHeader:
    """Raises SpectraError naming the file where it is none, is cut, or holds a tensor of a type that is not read."""
    try:
        with open_regular(path) as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return _Reader(data, path.name).header()
    except (OSError, ValueError) as error:
        if isinstance(error, SpectraError):
            raise
        raise SpectraError("model", f"cannot read {path} ({error}); give a whole GGUF file") from error
    except (struct.error, IndexError, OverflowError, RecursionError) as error:
        raise SpectraError("model", f"{path.name} is cut inside its header; fetch it again") from error


class TensorEntry(NamedTuple):
    """An entry of the list of tensors. kind: its type. offset: in the data."""

    name: str
    shape: tuple[int, ...]
    kind: str
    offset: int


@dataclass(slots=True)
class _Reader:
    """Through the bytes of a header. place: the next one."""

    data: mmap.mmap
    name: str
    place: int = 0

    def header(self) -> GgufHeader:
        if self.data[:4] != GGUF_MAGIC:
            raise SpectraError("model", f"{self.name} is no GGUF file; give one, a folder or a hub id")
        self.place = 4
        (version,) = self.numbers("I")
        if version not in (2, 3):
            raise SpectraError("model", f"{self.name} is GGUF of version {version}; convert the model to version 3")
        tensors, entries = self.numbers("QQ")
        metadata, arrays = {}, set()
        for _ in range(entries):
            key = self.text()
            value = self.value(*self.numbers("I"))
            if value is None:
                arrays.add(key)
            else:
                metadata[key] = value
        places = [self.tensor() for _ in range(tensors)]
        alignment = metadata.get("general.alignment", ALIGNMENT)
        if type(alignment) is not int or alignment < 1:
            raise SpectraError("model", f"{self.name} names an alignment of {alignment!r}; fetch it again")
        begin = -(-self.place // alignment) * alignment
        found = {}
        start = begin
        for name, shape, kind, offset in places:
            if name in found:
                raise SpectraError("model", f"{self.name} holds {name} twice; convert the model again")
            if begin + offset != start:
                raise SpectraError(
                    "model", f"{self.name}: the data of {name} is not where it ought to be; fetch it again"
                )
            found[name] = TensorPlace(name, shape, kind, start, start + self.size(name, shape, kind))
            if found[name].end > len(self.data):
                raise SpectraError(
                    "model", f"{self.name} is cut: the data of {name} ends after the file; fetch it again"
                )
            start = -(-found[name].end // alignment) * alignment  # one tensor after the other, each aligned
        return GgufHeader(metadata, found, arrays)

    def numbers(self, layout: str) -> tuple[Any, ...]:
        values = struct.unpack_from(f"<{layout}", self.data, self.place)
        self.place += struct.calcsize(f"<{layout}")
        return values

    def text(self) -> str:
        (length,) = self.numbers("Q")
        self.place += length
        if self.place > len(self.data):
            raise IndexError
        return self.data[self.place - length : self.place].decode("utf-8", "replace")

    def value(self, kind: int) -> Any:
        """The number or string that follows; None for an array."""
        if kind in NUMBERS:
            return self.numbers(NUMBERS[kind])[0]
        if kind == STRING:
            return self.text()
        if kind != ARRAY:
            raise SpectraError("model", f"{self.name} holds metadata of type {kind}; convert the model to version 3")
        inner, count = self.numbers("IQ")
        if inner in NUMBERS:
            self.place += count * struct.calcsize(NUMBERS[inner])
        elif inner == STRING:
            for _ in range(count):
                (length,) = self.numbers("Q")
                self.place += length
        else:
            for _ in range(count):
                self.value(inner)
        return None

    def tensor(self) -> TensorEntry:
        """The next one of the list."""
        name = self.text()
        if len(name) > LONGEST or not name.isprintable():
            raise SpectraError("model", f"{self.name} names a tensor {name[:LONGEST]!r}; fetch it again")
        (dimensions,) = self.numbers("I")
        if dimensions > MOST_DIMENSIONS:
            raise SpectraError("model", f"{self.name}: {name} has {dimensions} dimensions; fetch it again")
        shape = self.numbers(f"{dimensions}Q")[::-1]
        kind, offset = self.numbers("IQ")
        try:
            return TensorEntry(name, shape, gguf.GGMLQuantizationType(kind).name, offset)
        except ValueError:
            return TensorEntry(name, shape, f"number {kind}", offset)

    def size(self, name: str, shape: tuple[int, ...], kind: str) -> int:
        """Bytes of a tensor's data."""
        if not prod(shape):
            raise SpectraError("model", f"{self.name}: {name} has the shape {shape}; fetch it again")
        if kind in PLAIN_TYPES:
            return prod(shape) * torch.finfo(PLAIN_TYPES[kind]).bits // 8
        if kind not in BLOCK_TYPES:
            known = ", ".join([*PLAIN_TYPES, *BLOCK_TYPES])
            raise SpectraError(
                "model", f"{self.name}: {name} has the block type {kind}, which is not read; quantise to one of {known}"
            )
        block = BLOCK_TYPES[kind]
        if len(shape) != 2 or shape[1] % block.weights:
            raise SpectraError("model", f"{self.name}: {name} of type {kind} has the shape {shape}; fetch it again")
        return prod(shape) // block.weights * block.nbytes
