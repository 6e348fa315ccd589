"""ROUGE-1, ROUGE-2 and ROUGE-L as F1 of one text against one reference (Lin 2004).

Words are runs of letters and digits in lower case; no stemming, no splitting into sentences.
"""

import re
from collections import Counter
from collections.abc import Sequence

NAMES = ("ROUGE-1", "ROUGE-2", "ROUGE-L")


def rouge(text: str, reference: str) -> tuple[float, float, float]:
    """(ROUGE-1, ROUGE-2, ROUGE-L), each from 0 to 1."""
    ours, theirs = words(text), words(reference)
    pairs = [(_shared_grams(ours, theirs, n), max(0, len(ours) - n + 1), max(0, len(theirs) - n + 1)) for n in (1, 2)]
    one, two, longest = [_f1(*counts) for counts in [*pairs, (_common(ours, theirs), len(ours), len(theirs))]]
    return one, two, longest


def words(text: str) -> list[str]:
    return re.findall(r"[^\W_]+", text.lower())


def _shared_grams(ours: Sequence[str], theirs: Sequence[str], n: int) -> int:
    """n-grams the two have in common, each as often as in both."""
    first, second = (Counter(tuple(side[i : i + n]) for i in range(len(side) - n + 1)) for side in (ours, theirs))
    return (first & second).total()


def _common(ours: Sequence[str], theirs: Sequence[str]) -> int:
    """Length of the longest common subsequence."""
    row = [0] * (len(theirs) + 1)
    for word in ours:
        above = 0
        for at, other in enumerate(theirs, 1):
            above, row[at] = row[at], above + 1 if word == other else max(row[at], row[at - 1])
    return row[-1]


def _f1(shared: int, ours: int, theirs: int) -> float:
    return 2 * shared / (ours + theirs) if shared else 0.0
