"""The CPU library: out of a wheel that brought it, or compiled once for this CPU with the compiler at hand and kept in
the cache folder; loaded by ctypes.

A library file is complete or absent: it is written beside its place and renamed, and ends in the SHA-256 of what stands
before. Its name is made of the source, the compiler, the flags and the CPU, so that none of another machine is used.
"""

import ctypes
import errno
import hashlib
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple

import torch

from spectra.errors import SpectraError
from spectra.io.cache_home import cache_home
from spectra.io.files import clear_left_behind, write_text
from spectra.target.native.flags import (
    COMMON,
    COMPILERS,
    FLAGS,
    MAIN,
    SHIPPED,
    is_whole,
    sealed,
    shipped_name,
    source_hash,
)
from spectra.target.native.memory import LargePages
from spectra.verify.noise import noise_key

WORK = ".build."
"""What folders of builds in progress are called, at first."""
OFF = "SPECTRA_NATIVE=0"
"""The reason of a user who turned the library off."""
PATIENCE = 600.0
"""Seconds after which a compiler is given up."""
ROOM = 1 << 20
"""Bytes that a build leaves, at most."""
OF_THE_MACHINE = ("fatal", "no space left on device", "disk quota exceeded", "cannot allocate memory")
"""In an error that says nothing of the source or the flags: the next start tries again."""
NEEDS = {
    "amx_bf16": {"amx_tile", "amx_bf16"},
    "avx512_bf16": {"avx512_bf16"},
    "avx512_fma": {"avx512_bf16"},
    "avx512": {"avx512f", "avx512bw", "avx512vl", "avx512dq"},
    "avx2": {"avx2", "fma", "f16c"},
}
"""CPU features, as /proc/cpuinfo names them, of each path and of those below it."""


class Cpu(NamedTuple):
    """As /proc/cpuinfo tells it."""

    vendor: str
    name: str
    features: tuple[str, ...]


class LibraryError(Exception):
    """Why there is no library, on one line, whatever the environment and a compiler put into it."""

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(message.split()))


class BrokenLibraryError(LibraryError):
    """A file that cannot be loaded."""


class CompilerError(LibraryError):
    """What a compiler says of the source or of the flags. note: the file that can remember it."""

    def __init__(self, message: str, note: Path) -> None:
        super().__init__(message)
        self.note = note


class Library:
    """The loaded library. isa: its path of `FLAGS`. threads: of a call; None: as many as torch uses."""

    def __init__(self, file: Path, isa: str, threads: int | None = None) -> None:
        self.file, self.isa, self._threads = file, isa, threads
        self.pages = LargePages()
        self.calls = ctypes.CDLL(str(file))
        self.calls.spectra_read_seconds.restype = ctypes.c_double
        self.calls.spectra_buffers.restype = ctypes.c_void_p
        self.calls.spectra_draw.restype = ctypes.c_int64
        self.set_torch_threads: Callable[[int], object] = getattr(
            ctypes.CDLL(None), "omp_set_num_threads", torch.set_num_threads
        )
        """Of the thread that calls. `torch.set_num_threads` also says with how many each later one begins."""

    @property
    def threads(self) -> int:
        return self._threads or torch.get_num_threads()

    @property
    def row_block(self) -> int:
        """Rows of a step that products take together: behind every such block a step costs clearly more."""
        return int(self.calls.spectra_row_block())

    @property
    def few_rows(self) -> int:
        """Rows of a step up to which products unpack quantised weights on their way; 0 where none does."""
        return int(self.calls.spectra_few_rows())

    def with_threads(self, threads: int | None) -> "Library":
        """The same library with another number of threads a call."""
        return Library(self.file, self.isa, threads)

    def read_seconds(self, buffers: Iterable[torch.Tensor]) -> float:
        """Seconds that the threads of a call need to read these contiguous tensors once, from front to back."""
        tensors = list(buffers)
        places = (ctypes.c_void_p * len(tensors))(*(tensor.data_ptr() for tensor in tensors))
        sizes = (ctypes.c_int64 * len(tensors))(*(tensor.nbytes for tensor in tensors))
        return float(self.calls.spectra_read_seconds(places, sizes, ctypes.c_int64(len(tensors)), self.threads))

    def draw(self, scores: torch.Tensor, seed: int, position: int) -> int:
        """The token that keyed noise draws from scores [vocabulary]; `NO_NUMBER` where one is no number."""
        if scores.dtype != torch.float32 or not scores.is_contiguous():
            scores = scores.float().contiguous()
        first, second = noise_key(seed, position)
        place, size = ctypes.c_void_p(scores.data_ptr()), ctypes.c_int64(len(scores))
        return int(self.calls.spectra_draw(place, size, ctypes.c_uint32(first), ctypes.c_uint32(second)))


def native_library() -> Library | None:
    """The library for this CPU, compiled on first use; None where there cannot be one (`native_reason` says why).

    SPECTRA_NATIVE=0 turns it off, SPECTRA_NATIVE_ISA names the path of `FLAGS` to use. The first call that finds none
    says so on stderr. Raises SpectraError for another SPECTRA_NATIVE than 0 and 1.
    """
    found = _found()
    if isinstance(found, Library):
        return found
    if found != OFF:
        _tell(*_wanted(), found)
    return None


def native_reason() -> str | None:
    """Why `native_library` gives None, on one line; None where it gives a library. Nothing is printed: it may be the
    reason of an error."""
    found = _found()
    return None if isinstance(found, Library) else found


def _found() -> Library | str:
    said = os.environ.get("SPECTRA_NATIVE") or "1"
    if said not in ("0", "1"):
        raise SpectraError("SPECTRA_NATIVE", f"{said!r} is neither 0 nor 1; 0 turns the library off")
    return OFF if said == "0" else _find(*_wanted())


def _wanted() -> tuple[str | None, Path]:
    """The path that the environment names, and the folder of libraries."""
    return os.environ.get("SPECTRA_NATIVE_ISA") or None, cache_home() / "native"


@cache
def _find(isa: str | None, folder: Path) -> Library | str:
    """Tried once a process."""
    try:
        return load(paths_here(isa), folder)
    except LibraryError as error:
        return str(error)


@cache
def _tell(isa: str | None, folder: Path, why: str) -> None:
    """Printed once a process. isa, folder: what was asked for in vain."""
    print(f"no CPU step of our own ({why}); torch computes the steps", file=sys.stderr, flush=True)


def paths_here(isa: str | None = None) -> list[str]:
    """The paths that this CPU has, best first, or only `isa`. Raises LibraryError."""
    features = set(_cpu().features)
    if isa is not None and isa not in FLAGS:
        raise LibraryError(f"SPECTRA_NATIVE_ISA={isa!r} is none of {', '.join(FLAGS)}")
    order = _order()
    there = [path for path in order if all(NEEDS[below] <= features for below in order[order.index(path) :])]
    if isa is None and not there:
        raise LibraryError("the CPU has no AVX2 or is not known")
    if isa is not None and isa not in there:
        raise LibraryError(f"SPECTRA_NATIVE_ISA={isa}, which this CPU lacks; it has {', '.join(there) or 'none'}")
    return there if isa is None else [isa]


def _order() -> list[str]:
    """Paths, best first. Intel's cores take two cycles for a vector of bf16 products, half of one for multiply-adds."""
    vectors = ["avx512_bf16", "avx512_fma"]
    if _cpu().vendor == "GenuineIntel":
        vectors.reverse()
    return ["amx_bf16", *vectors, "avx512", "avx2"]


def load(paths: list[str], folder: Path, extra: tuple[str, ...] = (), shipped: Path = SHIPPED) -> Library:
    """The first of these paths that can be built and used, with `extra` flags. Raises LibraryError: the first error.

    Nothing is compiled where `shipped` has the library, the environment names no compiler as `CXX` and there are no
    `extra` flags. The command of `CXX` is tried before the others. What fails before something can be built is
    remembered, and not compiled again at the next start.
    """
    errors: list[LibraryError] = []
    compiled = bool(extra or os.environ.get("CXX"))
    compilers = (_words(os.environ.get("CXX", "")), *([name] for name in COMPILERS))
    there = dict.fromkeys((path, *words[1:]) for words in compilers if words and (path := shutil.which(words[0])))
    for isa in paths:
        if not compiled and is_whole(file := shipped / shipped_name(isa)):
            try:
                return _open(file, isa)
            except LibraryError as error:  # perhaps of where it lies: one that is compiled may be better off
                errors.append(error)
        for compiler in there:
            try:
                library = _load(isa, folder, compiler, extra)
            except LibraryError as error:
                errors.append(error)
            except subprocess.TimeoutExpired as error:  # what kept it waiting most likely keeps the others too
                hung = Path(compiler[0]).name
                raise LibraryError(f"{hung} did not end within {PATIENCE:.0f} seconds") from error
            else:
                for failed in errors:
                    _remember(failed)
                return library
    raise errors[0] if errors else LibraryError(f"no C++ compiler: none of {', '.join(COMPILERS)} is on the PATH")


def _remember(error: LibraryError) -> None:
    if isinstance(error, CompilerError):
        with suppress(SpectraError):
            write_text(error.note, f"{error}\n")


def _words(command: str) -> list[str]:
    """A command as a shell reads it; none where a quotation is not closed."""
    try:
        return shlex.split(command)
    except ValueError:
        return []


def _load(isa: str, folder: Path, compiler: tuple[str, ...], extra: tuple[str, ...]) -> Library:
    flags = (*COMMON, *FLAGS[isa], *extra)
    digest = hashlib.sha256(repr((source_hash(), compiler[1:], _version(compiler), flags, _cpu())).encode()).hexdigest()
    file = folder / f"{isa}-{digest[:24]}.so"
    note = file.with_suffix(".failed")
    if not is_whole(file):
        if why := _noted(note):
            raise LibraryError(why)
        _build([*compiler, *flags, str(MAIN)], file, note)
    try:
        return _open(file, isa)
    except BrokenLibraryError:
        with suppress(OSError):
            file.unlink()  # built again at the next start
        raise


def _open(file: Path, isa: str) -> Library:
    try:
        library = Library(file, isa)
    except (OSError, AttributeError) as error:  # AttributeError: it lacks a function
        raise BrokenLibraryError(f"{file.name} cannot be loaded: {error}") from error
    if library.calls.spectra_prepare():
        raise LibraryError(f"the system does not let a process use {isa}")
    return library


def _noted(note: Path) -> str:
    try:
        return " ".join(note.read_text(encoding="utf-8", errors="replace").split())
    except OSError:
        return ""


def _build(command: list[str], file: Path, note: Path) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        there = os.statvfs(file.parent)
        if there.f_flag & os.ST_NOEXEC:
            raise OSError("no program of its file system may run (noexec)")
        if there.f_blocks and there.f_bavail * there.f_frsize < ROOM:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))  # at once: each compiler would find out by itself
        with tempfile.TemporaryDirectory(dir=file.parent, prefix=WORK) as work:
            clear_left_behind(file.parent, f"{WORK}*")
            made = Path(work) / file.name
            _announce()
            done = _run([*command, "-o", str(made)])
            if done.returncode or not made.is_file():
                lines = done.stderr.splitlines()
                error = next(
                    (one for one in lines if "error" in one or "failed" in one), lines[0] if lines else "no output"
                )
                failed = f"{Path(command[0]).name} failed: {error.strip()}"
                passing = done.returncode < 0 or any(words in error.lower() for words in OF_THE_MACHINE)
                raise LibraryError(failed) if passing else CompilerError(failed, note)
            made.write_bytes(sealed(made.read_bytes()))
            made.replace(file)
    except OSError as error:
        cure = "XDG_CACHE_HOME names another folder for caches"
        raise LibraryError(f"cannot build in {file.parent}: {error.strerror or error}; {cure}") from error


@cache
def _announce() -> None:
    print("compiling the CPU step once (about 20 seconds) ...", file=sys.stderr, flush=True)


@cache
def _version(compiler: tuple[str, ...]) -> str:
    return _run([*compiler, "--version"]).stdout


def _run(command: list[str]) -> "subprocess.CompletedProcess[str]":
    """Its output as text, whatever its bytes are. Raises LibraryError where the program cannot be run."""
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
            env=os.environ | {"LC_ALL": "C"},  # errors in English
            start_new_session=True,
        )
    except OSError as error:
        raise LibraryError(f"{Path(command[0]).name} cannot be run: {error.strerror or error}") from error
    with process:
        try:
            out, errors = process.communicate(timeout=PATIENCE)
        except BaseException:  # given up, or interrupted
            with suppress(OSError):
                os.killpg(process.pid, signal.SIGKILL)  # a compiler has children that do the work
            raise
    return subprocess.CompletedProcess(command, process.returncode, out, errors)


@cache
def _cpu() -> Cpu:
    """No features where the system does not tell them."""
    lines: dict[str, str] = {}
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            key, _, value = line.partition(":")
            lines.setdefault(key.strip(), value.strip())  # of the first core
    return Cpu(lines.get("vendor_id", ""), lines.get("model name", ""), tuple(sorted(lines.get("flags", "").split())))
