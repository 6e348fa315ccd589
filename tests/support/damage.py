"""Input as nobody would write it: values of JSON, texts, bytes, and whole files with a place changed."""

import copy
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

ODD = ("__proto__", "constructor", "<script>alert(1)</script>", "\ud800", "\0", "x" * 100_000, "NaN", "1e999", "-0", "​")

texts = st.one_of(st.text(st.characters(), max_size=30), st.sampled_from(ODD))
"""Lone surrogates among them: JSON can hold them."""

numbers = st.one_of(
    st.integers(), st.floats(), st.sampled_from([2**31, 2**53, 2**64, -1, 0, 1e308, float("nan"), float("inf")])
)

values = st.recursive(
    st.one_of(st.none(), st.booleans(), numbers, texts),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(texts, inner, max_size=4)),
    max_leaves=8,
)
"""Anything that `json.loads` can give."""


def places(data: Any) -> list[tuple[Any, ...]]:
    """The way to every part of it, but for all but the first three rows of a list."""
    found: list[tuple[Any, ...]] = [()]
    rows = data.items() if isinstance(data, dict) else enumerate(data[:3]) if isinstance(data, list) else ()
    for name, inner in rows:
        found += [(name, *rest) for rest in places(inner)]
    return found


def changed(data: Any, place: tuple[Any, ...], value: Any) -> Any:
    """A copy in which another value stands there."""
    if not place:
        return value
    other = copy.deepcopy(data)
    inner = other
    for name in place[:-1]:
        inner = inner[name]
    inner[place[-1]] = value
    return other


def flip(file: Path, at: int, mask: int) -> None:
    """Change one byte; `at` counts round and round."""
    data = bytearray(file.read_bytes())
    data[at % len(data)] ^= mask or 1
    file.write_bytes(bytes(data))


def is_one_short_line(error: BaseException) -> bool:
    """What a refusal must be."""
    text = str(error)
    text.encode()
    return 0 < len(text) <= 400 and len(text.splitlines()) == 1
