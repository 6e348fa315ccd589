"""What tests of rules share: pairs of distributions, joint distributions of drafts, exact outputs, and chi-square."""

from itertools import product

import numpy as np
from scipy.special import chdtrc

from spectra.verify.rules.draws import softmax


def random_pairs(count, size, seed=0):
    """`count` (p, q): flat, middling and peaked ones, some alike, some unrelated, some with zeros or p = q."""
    generator = np.random.default_rng(seed)
    for i in range(count):
        p, q = softmax(generator.standard_normal((2, size)) * (1, 3, 8)[i % 3])
        if i % 5 == 1:
            p = softmax(np.log(q) + 0.5 * generator.standard_normal(size))
        if i % 7 == 2:
            p[generator.integers(size)] = 0.0
            q[generator.integers(size)] = 0.0
        if i % 11 == 3:
            p = q.copy()
        if i % 13 == 4:
            p = np.eye(size)[generator.integers(size)]
        if i % 17 == 5:
            q = np.eye(size)[generator.integers(size)]
        yield p / p.sum(), q / q.sum()


PAIRS = {
    "random": (np.array([0.3, 0.25, 0.2, 0.15, 0.07, 0.03]), np.array([0.1, 0.3, 0.15, 0.2, 0.05, 0.2])),
    "peaked": (np.array([0.9, 0.06, 0.02, 0.01, 0.007, 0.003]), np.array([0.62, 0.3, 0.05, 0.02, 0.005, 0.005])),
    "apart": (np.array([0.05, 0.85, 0.04, 0.03, 0.02, 0.01]), np.array([0.93, 0.03, 0.02, 0.01, 0.005, 0.005])),
}


def independent(*qs):
    """{drafts: chance} of one draw from each q."""
    return {
        t: float(np.prod([q[x] for q, x in zip(qs, t, strict=True)])) for t in product(*(range(len(q)) for q in qs))
    }


def distinct(q, k):
    """{drafts: chance} of k draws from q, none of a token that is gone; a q that is used up shares alike."""
    distributions = {(): 1.0}
    for _ in range(k):
        grown = {}
        for before, chance in distributions.items():
            left = [x for x in range(len(q)) if x not in before]
            mass = sum(q[x] for x in left)
            for x in left:
                grown[(*before, x)] = chance * (q[x] / mass if mass > 0 else 1 / len(left))
        distributions = grown
    return distributions


def hubbed(q):
    """{pair: chance} of SpecHub's draw."""
    hub = max(range(len(q)), key=lambda x: (q[x], -x))
    distributions = {}
    for (first, second), chance in distinct(q, 2).items():
        if first == hub:
            distributions[first, second] = chance
        elif second == hub:
            distributions[first, second] = float(q[first])
    return distributions


def output_distribution(rule, p, qs, drafts):
    """(distribution of the next token [V], chance that each draft is accepted [k]), summed over all drafts."""
    distribution, accepted = np.zeros(len(p)), np.zeros(len(qs))
    for tokens, chance in drafts.items():
        if chance > 0:
            verdict = rule.verdict(p, qs, tokens)
            assert min(verdict.chances) >= 0 and abs(verdict.residual.sum() - 1) < 1e-9
            accepted += chance * np.array(verdict.chances)
            np.add.at(distribution, list(tokens), chance * np.array(verdict.chances))
            distribution += chance * (1 - sum(verdict.chances)) * verdict.residual
    return distribution, accepted


def plausibility(counts, distribution):
    """Chi-square's p-value of counts; the rarest cells go together until they expect five counts."""
    order = np.argsort(distribution)
    observed, expected = counts[order], np.asarray(distribution)[order] * counts.sum()
    if observed[expected <= 0].any():
        return 0.0
    rare = int(np.searchsorted(np.cumsum(expected), 5.0)) + 1
    observed = np.append(observed[rare:], observed[:rare].sum())
    expected = np.append(expected[rare:], expected[:rare].sum())
    if len(observed) == 1:
        return 1.0
    return float(chdtrc(len(observed) - 1, ((observed - expected) ** 2 / expected).sum()))
