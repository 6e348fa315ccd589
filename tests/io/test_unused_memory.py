"""Memory between pieces that are in use goes back to the system, and not at every call."""

import subprocess
import sys
from pathlib import Path

import pytest

from spectra.io.unused_memory import SECONDS, UnusedMemory

ROOT = Path(__file__).parents[2]
STATM = Path("/proc/self/statm")
PIECES = """
import resource
from pathlib import Path
from spectra.io.unused_memory import UnusedMemory

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()

unused = UnusedMemory()
unused.give_back()
# written to, for zeros may lie in pages that were never used
pairs = [(bytes([n % 256]) * 100_000, bytes([n % 256]) * 1000) for n in range(2000)]
kept = [small for _, small in pairs]
del pairs
before = resident()
unused.give_back()
assert resident() > before - 50e6, "only a moment has passed"
UnusedMemory().give_back()
assert resident() < before - 100e6, (resident(), before)
assert len(kept) == 2000
"""


@pytest.mark.skipif(UnusedMemory()._trim is None or not STATM.exists(), reason="another C library than glibc")
def test_what_lies_between_pieces_in_use_is_given_back():
    """In a process of its own: where memory has holes already, what is kept lies in those, not between the pieces."""
    done = subprocess.run([sys.executable, "-c", PIECES], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_it_is_done_at_most_every_ten_seconds(monkeypatch):
    now, calls = [100.0], []
    unused = UnusedMemory(clock=lambda: now[0])
    monkeypatch.setattr(unused, "_trim", calls.append, raising=False)
    for seconds in (0.0, 1.0, SECONDS - 1.5, 0.5, 0.0, SECONDS):
        now[0] += seconds
        unused.give_back()
    assert len(calls) == 3


def test_where_the_allocator_is_another_nothing_happens(monkeypatch):
    monkeypatch.setattr("ctypes.CDLL", lambda name: object())
    UnusedMemory().give_back()
