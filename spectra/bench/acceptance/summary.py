"""What the rows of `bench acceptance` come to, by temperature: plain numbers, which `tables.py` shows.

Tokens a pass of a tree of drafts, along an answer that was written anyway, are exact: no draw.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from statistics import mean
from typing import Any

from spectra.bench.acceptance.observer import WIDTHS
from spectra.drafters.tree_shapes import Place, Shape, levels, unbalanced

DEPTHS = range(1, 6)
UNBALANCED = 30
"""Draws of an unbalanced tree: as many as the binary tree of depth 4 has."""
PAIRS = ("rrs", "rrsw", "spechub")
"""Rules for two drafts."""
MANY = ("mss", "naive")
"""Rules for any number of them."""

Position = Mapping[str, Any]
Answer = Sequence[Position]
Drafted = Sequence[Sequence[float]]
"""[w - 1][i]: the chance that what was written was accepted as the i-th of w drafts."""
Chances = Sequence[Drafted]
"""[t]: of each token of an answer."""


def summarise(rows: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Temperature -> figures over all positions of all answers. Above 0 every rule, at 0 the likeliest two instead."""
    found = {}
    for temperature in sorted({row["temperature"] for row in rows}):
        answers = [row["positions"] for row in rows if row["temperature"] == temperature]
        found[f"{temperature:g}"] = _greedy(answers) if temperature == 0 else _sampled(answers)
    return found


def expansion(width: int) -> tuple[int, ...]:
    """SpecInfer's <1,1,k,1,1,1,1,1>."""
    return (1, 1, width, 1, 1, 1, 1, 1)


def _greedy(answers: Sequence[Answer]) -> dict[str, Any]:
    chances = _along(answers, _likeliest)
    vector = [mean(position[1][rank] for answer in chances for position in answer) for rank in range(2)]
    return {
        **_hits(answers),
        "acceptance": {"top 2": vector},
        **_trees({"top 2": chances}, {"top 2": vector}),
        "expansion": {"top k": [_rate(chances, _level(width)) for width in WIDTHS]},
    }


def _sampled(answers: Sequence[Answer]) -> dict[str, Any]:
    every = [seen for answer in answers for seen in answer]
    vectors = {rule: [mean(seen[rule][draft] for seen in every) for draft in range(2)] for rule in PAIRS}
    pairs = {rule: _along(answers, partial(_of_two, rule)) for rule in PAIRS}
    each = {rule: _along(answers, partial(_one_by_one, rule)) for rule in MANY}
    widths = {rule: [mean(seen[rule][width - 1][0] for seen in every) for width in WIDTHS] for rule in MANY}
    if all("both" in seen for seen in every):
        for number, rule in enumerate(MANY):
            widths[f"{rule}, both"] = [mean(seen["both"][width - 1][number] for seen in every) for width in WIDTHS]
    return {
        **_hits(answers),
        "acceptance": vectors,
        "transport": _transport([seen for seen in every if seen["transport"]]),
        "widths": widths,
        **_trees(pairs, vectors),
        "expansion": {rule: [_rate(chances, _level(width)) for width in WIDTHS] for rule, chances in each.items()},
    }


def _along(answers: Sequence[Answer], read: Callable[[Position], Drafted]) -> list[Chances]:
    return [[read(seen) for seen in answer] for answer in answers]


def _likeliest(seen: Position) -> Drafted:
    """At temperature 0 one of the k likeliest tokens is accepted for sure, or none."""
    first = seen["ranks"][0]
    return [[1.0 if first == rank else 0.0 for rank in range(width)] for width in WIDTHS]


def _of_two(rule: str, seen: Position) -> Drafted:
    """What was written as the first and the second of two drafts, the only number that is drawn here."""
    return [[], seen[rule][2:]]


def _one_by_one(rule: str, seen: Position) -> Drafted:
    """Chances of each of 1, 2, ... drafts, from those of the first k together."""
    together = [0.0, *(given for _, given in seen[rule])]
    each = [max(0.0, later - earlier) for earlier, later in pairwise(together)]
    return [each[:width] for width in WIDTHS]


def _hits(answers: Sequence[Answer]) -> dict[str, Any]:
    """How often the target's token is among the k likeliest of each draft, and of any."""
    every = [seen["ranks"] for answer in answers for seen in answer]
    ranks = {"first": [ranks[0] for ranks in every]}
    if len(every[0]) > 1:
        ranks |= {"second": [ranks[1] for ranks in every], "either": [min(ranks) for ranks in every]}
    hits = {name: [_share_below(width, found) for width in WIDTHS] for name, found in ranks.items()}
    return {"positions": len(every), "answers": len(answers), "hits": hits}


def _share_below(limit: int, ranks: Sequence[int]) -> float:
    return len([rank for rank in ranks if rank < limit]) / len(ranks)


def _transport(seen: Sequence[Position]) -> dict[str, Any]:
    """The bounds where they could be computed, beside the rules at the same positions."""
    if not seen:
        return {"positions": 0}
    bounds = {name: mean(one["transport"][place] for one in seen) for place, name in enumerate(("otm", "otmw"))}
    rules = {rule: mean(sum(one[rule][:2]) for one in seen) for rule in PAIRS}
    return {"positions": len(seen), **bounds, **rules}


def _trees(chances: Mapping[str, Sequence[Chances]], vectors: Mapping[str, Sequence[float]]) -> dict[str, Any]:
    """Tokens a pass of binary trees by depth, and of the unbalanced tree that the measured acceptance builds."""
    built = {rule: unbalanced((one, min(two, 1.0 - one)), UNBALANCED) for rule, (one, two) in vectors.items()}
    return {
        "binary": {
            rule: [_rate(answers, levels((2,) * depth, 99)) for depth in DEPTHS] for rule, answers in chances.items()
        },
        "unbalanced": {rule: _rate(answers, built[rule]) for rule, answers in chances.items()},
        "places": {rule: sorted(map(list, shape)) for rule, shape in built.items()},
    }


def _level(width: int) -> Shape:
    return levels(expansion(width), 999)


def _rate(answers: Sequence[Chances], shape: Shape) -> float:
    """Tokens a pass over all answers."""
    return sum(map(len, answers)) / sum(expected_passes(answer, shape) for answer in answers)


def expected_passes(chances: Chances, shape: Shape) -> float:
    """Mean forward passes to write n tokens.

    An accepted draft and a draw from the residual have the target's distribution together, so the rule decides only how
    many passes an answer takes, never which answer it is: the mean over all that could have been drawn is a sum.

    shape: what is drafted.
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
