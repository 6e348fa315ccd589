"""What was seen before is found: equal keys always, similar texts by the shingles they share, in little memory."""

import random
import tracemalloc

import numpy as np
import pytest

from spectra.datastore.build.dedup import BUFFER, Seen, Similar
from spectra.datastore.sources import digest, normalised

KEYS = [327, 515, 577, 246, 176, 52]
"""Last digits of the keys of 0, 1, ... 19."""


def test_seen_agrees_with_a_set():
    draw = random.Random(1)
    seen, wanted = Seen(), set()
    for _ in range(3 * BUFFER):
        key = draw.randrange(2 * BUFFER) << 45
        assert (key in seen) == (key in wanted)
        seen.add(key)
        wanted.add(key)
    assert 2**64 - 1 not in seen
    seen.add(2**64 - 1)
    assert 2**64 - 1 in seen


def test_a_key_takes_about_eight_bytes_and_twice_that_while_merging():
    keys = np.random.default_rng(0).integers(0, 2**63, 20 * BUFFER).tolist()
    tracemalloc.start()
    seen = Seen()
    before = tracemalloc.get_traced_memory()[0]
    for key in keys:
        seen.add(key)
    used, peak = (one - before for one in tracemalloc.get_traced_memory())
    tracemalloc.stop()
    assert used < 9 * len(keys) + 200 * BUFFER
    assert peak < 13 * len(keys)  # the largest merge is of 13 of these 20 buffers


def shared(tokens, share, draw):
    """Tokens of which about `share` of the 5-token shingles of both together are shared (Jaccard)."""
    kept = 2 * share / (1 + share)  # of the shingles of each
    changed = tokens.copy()
    block = int(len(tokens) * (1 - kept))
    if block:
        changed[:block] = draw.integers(0, 50_000, block)
    return changed


@pytest.mark.parametrize(("share", "low", "high"), [(1.0, 1, 1), (0.95, 0.97, 1), (0.8, 0.65, 1), (0.3, 0, 0.05)])
def test_similar_texts_are_found_by_how_much_they_share(share, low, high):
    draw = np.random.default_rng(3)
    similar = Similar()
    found = 0
    for _ in range(100):
        tokens = draw.integers(0, 50_000, 200)
        similar.add(similar.keys(tokens))
        found += similar.known(similar.keys(shared(tokens, share, draw)))
    assert low <= found / 100 <= high


def test_unlike_texts_are_not_similar():
    draw = np.random.default_rng(5)
    similar = Similar()
    for _ in range(500):
        keys = similar.keys(draw.integers(0, 60, draw.integers(3, 100)))
        assert not similar.known(keys)
        similar.add(keys)


def test_keys_are_the_same_on_every_machine():
    assert Similar(0).keys(np.arange(20, dtype=np.uint16)) == Similar(0).keys(np.arange(20, dtype=np.uint32))
    assert Similar(0).keys(np.arange(20)) != Similar(1).keys(np.arange(20))
    assert [key % 1000 for key in Similar(0).keys(np.arange(20))] == KEYS


def test_case_and_white_space_do_not_count():
    assert normalised("  A\tb\n\nC ") == "a b c"
    assert digest("A  b") == digest("a b")
    assert digest("A b") != digest("ab")
    assert len(digest("\ud800")) == 32
