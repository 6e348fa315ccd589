"""Naive sampling as a rule: draw from p, and accept a draft if it is that token (SpecInfer's baseline, 2305.09781,
Table 3). To compare with: the library does it by the walk.

As lossless as the others, and the only one that does not look at q; it accepts less often. It is what the library does
with guesses that carry no probabilities, where the same draw serves the whole tree (`spectra/verify/walk.py`).
"""

from collections.abc import Sequence

import numpy as np

from spectra.verify.rules.draws import Distribution, Tokens, normalised, sample
from spectra.verify.rules.protocol import Verdict


class Naive:
    """Any number of drafts, however they came about; of equal ones the first is accepted."""

    def draft(self, q: Distribution, k: int, generator: np.random.Generator, rows: int = 1) -> Tokens:
        return sample(q, generator, rows * k).reshape(rows, k)

    def verdict(self, p: Distribution, qs: Sequence[Distribution], tokens: Sequence[int]) -> Verdict:
        missing = p.copy()
        chances = []
        for token in tokens:
            chances.append(float(missing[token]))
            missing[token] = 0.0
        return Verdict(tuple(chances), normalised(missing, p))

    def acceptance(self, p: Distribution, q: Distribution, k: int) -> float:
        """1 - sum p(x) (1 - q(x))^k: the chance that the target's draw is among k draws of q."""
        return 1.0 - float((p * (1.0 - q) ** k).sum())
