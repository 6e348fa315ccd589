"""Tokens a pass of a tree of drafts along an answer that was written anyway, exactly.

An accepted draft and a draw from the residual have the target's law together, so the rule decides only how many passes
an answer takes, never which answer it is: the mean over all that could have been drawn is a sum, without a draw.
"""

from collections.abc import Sequence

from spectra.expansion import Place, Shape


def expected_passes(chances: Sequence[Sequence[Sequence[float]]], shape: Shape) -> float:
    """Mean forward passes to write n tokens.

    chances[t][w - 1][i]: that token t, being what it is, was accepted as the i-th of w drafts. shape: what is drafted.
    """
    count = len(chances)
    passes = [0.0] * (count + 1)  # [t]: for the tokens from t on, where a pass begins at t
    later: dict[Place, list[float]] = {place: [0.0] * (count + 1) for place in shape}  # where t is tested at a place
    for t in range(count - 1, -1, -1):
        for place in shape:
            taken = chances[t][shape[place] - 1]
            value = (1.0 - sum(taken)) * passes[t + 1]
            for rank, chance in enumerate(taken):
                below = later.get((*place, rank))
                value += chance * (below[t + 1] if below else passes[min(t + 2, count)])  # a leaf: one more token
            later[place][t] = value
        passes[t] = 1.0 + (later[()][t] if later else passes[t + 1])
    return passes[0]
