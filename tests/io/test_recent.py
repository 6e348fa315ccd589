"""A few values by key: the least recently used goes first, and whoever owns something is told that it left."""

import threading

import pytest

from spectra.io.recent import Recent


def test_the_least_recently_used_goes_first():
    kept = Recent(2)
    for key in "abacb":
        assert kept.get_or_make(key, key.upper) == key.upper()
    assert ("a" in kept, "b" in kept, "c" in kept) == (False, True, True)
    assert kept.get_or_make("c", lambda: "made again") == "C"


def test_a_look_is_a_use_and_a_peek_is_not():
    kept = Recent(2)
    kept.put("a", 1)
    kept.put("b", 2)
    assert kept.get("a") == 1 and kept.peek("b") == 2 and kept.get("none") is None and kept.peek("none") is None
    kept.put("c", 3)
    assert ("a" in kept, "b" in kept, "c" in kept) == (True, False, True)


def test_every_value_that_leaves_is_told_once():
    dropped = []
    kept = Recent(2, dropped.append)
    for key, value in (("a", 1), ("a", 2), ("b", 3), ("c", 4)):
        kept.put(key, value)
    assert dropped == [1, 2]
    kept.drop("b")
    kept.drop("b")
    assert dropped == [1, 2, 3] and len(kept) == 1
    kept.clear()
    assert dropped == [1, 2, 3, 4] and len(kept) == 0


def test_trimming_leaves_the_one_used_last():
    kept = Recent(9)
    for size in (3, 1, 5):
        kept.put(size, size)
    kept.trim(lambda sizes: sum(sizes) <= 6)
    assert (3 in kept, 1 in kept, 5 in kept) == (False, True, True)
    kept.trim(lambda sizes: False)
    assert len(kept) == 1 and 5 in kept


def test_a_value_is_made_once_however_many_ask():
    kept, made, barrier = Recent(2), [], threading.Barrier(4)

    def make():
        made.append(1)
        return object()

    def ask():
        barrier.wait()
        kept.get_or_make("a", make)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1


def test_a_value_that_cannot_be_made_leaves_the_others():
    kept = Recent(1)
    kept.put("a", 1)
    with pytest.raises(ZeroDivisionError):
        kept.get_or_make("b", lambda: 1 // 0)
    assert "a" in kept and "b" not in kept
