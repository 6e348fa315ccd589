"""JSON from outside: how many values it has is known before they are made, and nothing looks for garbage in them."""

import gc
import json
from contextlib import suppress
from typing import Any

import pytest
from damage import values
from hypothesis import given

from spectra.io.json_text import most_values, parse_json


def counted(data: Any) -> int:
    """Values and keys."""
    if isinstance(data, dict):
        return 1 + len(data) + sum(map(counted, data.values()))
    return 1 + sum(map(counted, data)) if isinstance(data, list) else 1


@given(values)
def test_no_value_is_missed(data: Any) -> None:
    """One for each value, and at most one more for each list and each key."""
    for encoding in ("utf-8", "utf-16", "utf-32-be"):
        text = json.dumps(data).encode(encoding)
        assert counted(data) <= most_values(text) <= 2 * counted(data)


def test_nothing_is_collected_meanwhile() -> None:
    """Looking for garbage took 3 of 3.6 seconds of a race file, in which no other thread goes on."""
    assert gc.isenabled()
    before = rounds()
    assert len(parse_json("[" + "[]," * 100_000 + "0]")) == 100_001
    assert rounds() - before <= 3  # what follows


def rounds() -> int:
    return sum(generation["collections"] for generation in gc.get_stats())


@pytest.mark.parametrize("collects", [True, False])
def test_collecting_is_left_as_it_was(collects: bool) -> None:
    before = gc.isenabled()
    (gc.enable if collects else gc.disable)()
    try:
        for text in ("[]", "[", "[" * 100_000):
            with suppress(ValueError):
                parse_json(text)
            assert gc.isenabled() == collects
    finally:
        (gc.enable if before else gc.disable)()
