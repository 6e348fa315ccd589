"""What the CPU library is compiled from and with. No imports but Python's own: a build of a wheel has nothing else."""

import hashlib
from pathlib import Path

SOURCE = Path(__file__).parent / "csrc"
MAIN = SOURCE / "native.cpp"
SHIPPED = Path(__file__).parent / "shipped"
"""Where a wheel for one platform has the libraries of all paths."""
COMPILERS = ("c++", "g++", "clang++")
COMMON = ("-std=c++17", "-O2", "-shared", "-fPIC", "-pthread", "-ffp-contract=off", "-fno-math-errno", "-w")
_AVX2 = ("-mavx2", "-mfma", "-mf16c")
_AVX512 = (*_AVX2, "-mavx512f", "-mavx512bw", "-mavx512vl", "-mavx512dq", "-DSPECTRA_AVX512=1")
_ROUNDING = (*_AVX512, "-mavx512bf16", "-DSPECTRA_AVX512_BF16=1")
_PRODUCTS = (*_ROUNDING, "-DSPECTRA_BF16_PRODUCTS=1")
FLAGS = {
    "amx_bf16": (*_PRODUCTS, "-mamx-tile", "-mamx-bf16", "-DSPECTRA_AMX=1"),
    "avx512_bf16": _PRODUCTS,
    "avx512_fma": _ROUNDING,
    "avx512": _AVX512,
    "avx2": _AVX2,
}
"""Compiler flags of each path. The arithmetic of a path is the same for every number of rows.

`avx512_fma` rounds to bf16 by an instruction, as `avx512_bf16` does, but multiplies in fp32.
"""


def source_hash() -> str:
    """Of all that is compiled."""
    return hashlib.sha256(b"\0".join(path.read_bytes() for path in sorted(SOURCE.iterdir()))).hexdigest()


def shipped_name(isa: str) -> str:
    """The file in `SHIPPED`: of this source and these flags only, so that a changed source is compiled."""
    digest = hashlib.sha256(repr((source_hash(), COMMON, FLAGS[isa])).encode()).hexdigest()
    return f"{isa}-{digest[:24]}.so"


def sealed(code: bytes) -> bytes:
    """A library file: the code, then its SHA-256. What stands after an ELF file is not loaded."""
    return code + hashlib.sha256(code).digest()


def is_whole(file: Path) -> bool:
    """Whether a library file is there, and is what was written."""
    if not file.is_file():  # a pipe would be waited for, a device never ends
        return False
    try:
        code = file.read_bytes()
    except OSError:
        return False
    return hashlib.sha256(code[:-32]).digest() == code[-32:]
