"""Arithmetic on distributions: draw, normalise, leave tokens out.

A distribution is a float64 array over the vocabulary that sums to one. Randomness comes from the generator handed in.
"""

import numpy as np
from numpy.typing import NDArray

Distribution = NDArray[np.float64]
Tokens = NDArray[np.int64]


def softmax(scores: Distribution, temperature: float = 1.0) -> Distribution:
    """scores [..., V] -> distributions [..., V]; a temperature above 0."""
    weights = np.exp((scores - scores.max(axis=-1, keepdims=True)) / temperature)
    return np.asarray(weights / weights.sum(axis=-1, keepdims=True))


def sample(weights: Distribution, generator: np.random.Generator, rows: int = 1) -> Tokens:
    """`rows` draws, [rows], in proportion to weights [V], or one from each row of weights [rows, V].

    A token of weight zero is never drawn.
    """
    cumulative = np.cumsum(weights, axis=-1)
    if weights.ndim == 1:
        total = cumulative[-1]
        points = np.minimum(generator.random(rows) * total, np.nextafter(total, 0.0))  # the product may round to total
        return np.asarray(cumulative.searchsorted(points, side="right"))
    totals = cumulative[:, -1]
    points = np.minimum(generator.random(rows) * totals, np.nextafter(totals, 0.0))
    return np.asarray((cumulative <= points[:, None]).sum(axis=1))


def normalised(weights: Distribution, otherwise: Distribution) -> Distribution:
    """`weights` scaled to sum to one; `otherwise` where all of them are zero."""
    total = weights.sum()
    return np.asarray(weights / total) if total > 0 else otherwise


def without(q: Distribution, removed: Tokens) -> Distribution:
    """q [V] without the tokens removed [rows, j], normalised: [rows, V].

    Where q has nothing else (q of one token is 1) the others share alike: a draft must come from somewhere, and any
    distribution will do as long as draft and test agree on it. Raises ValueError where no token is left at all.
    """
    if removed.shape[1] >= len(q):
        raise ValueError(f"{removed.shape[1]} tokens taken from a vocabulary of {len(q)} leave none")
    rest = np.repeat(q[None], len(removed), axis=0)
    np.put_along_axis(rest, removed, 0.0, axis=1)
    rest[rest.sum(axis=1) <= 0] = 1.0
    np.put_along_axis(rest, removed, 0.0, axis=1)
    return np.asarray(rest / rest.sum(axis=1, keepdims=True))


def top(scores: Distribution, k: int) -> tuple[int, ...]:
    """The k tokens of the highest score, best first, of equals the lowest id.

    This is what a draft is at temperature 0, where every draw without replacement falls on the best that is left; every
    rule then accepts the target's own token if it is among them.
    """
    return tuple(int(token) for token in np.argsort(-scores, kind="stable")[:k])
