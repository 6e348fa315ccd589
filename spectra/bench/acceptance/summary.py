"""What rows of `bench acceptance` come to, by temperature: plain numbers, which `tables.py` shows."""

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from statistics import mean
from typing import Any

from spectra.bench.acceptance.efficiency import expected_passes
from spectra.expansion import Shape, levels, unbalanced

DEPTHS = range(1, 6)
WIDTHS = range(1, 6)
UNBALANCED = 30
"""Draws of an unbalanced tree: as many as the binary tree of depth 4 has."""
PAIRS = ("rrs", "rrsw", "spechub")

Position = Mapping[str, Any]
Chances = Sequence[Sequence[Sequence[float]]]


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


def _greedy(answers: Sequence[Sequence[Position]]) -> dict[str, Any]:
    def ranked(seen: Position) -> list[list[float]]:
        return [[float(seen["ranks"][0] == rank) for rank in range(width)] for width in WIDTHS]

    vector = [mean(ranked(seen)[1][rank] for answer in answers for seen in answer) for rank in range(2)]
    return {
        **_hits(answers),
        "acceptance": {"top 2": vector},
        **_trees({"top 2": [[ranked(seen) for seen in answer] for answer in answers]}, {"top 2": vector}),
        "expansion": {"top k": [_rate([[ranked(s) for s in a] for a in answers], _level(k)) for k in WIDTHS]},
    }


def _sampled(answers: Sequence[Sequence[Position]]) -> dict[str, Any]:
    every = [seen for answer in answers for seen in answer]
    vectors = {rule: [mean(seen[rule][draft] for seen in every) for draft in range(2)] for rule in PAIRS}

    def along(read: Callable[[Position], list[list[float]]]) -> list[Chances]:
        return [[read(seen) for seen in answer] for answer in answers]

    def steps(rule: str) -> Callable[[Position], list[list[float]]]:
        def read(seen: Position) -> list[list[float]]:
            given = [0.0, *(chance for _, chance in seen[rule])]
            each = [max(0.0, b - a) for a, b in pairwise(given)]
            return [each[:width] for width in WIDTHS]

        return read

    pairs = {rule: along(lambda seen, rule=rule: [[], seen[rule][2:]]) for rule in PAIRS}  # type: ignore[misc]
    widths = {rule: [mean(seen[rule][k - 1][0] for seen in every) for k in WIDTHS] for rule in ("mss", "naive")}
    if all("both" in seen for seen in every):
        for number, rule in enumerate(("mss", "naive")):
            widths[f"{rule}, both"] = [mean(seen["both"][k - 1][number] for seen in every) for k in WIDTHS]
    return {
        **_hits(answers),
        "acceptance": vectors,
        "transport": _transport([seen for seen in every if seen["transport"]]),
        "widths": widths,
        **_trees(pairs, vectors),
        "expansion": {rule: [_rate(along(steps(rule)), _level(k)) for k in WIDTHS] for rule in ("mss", "naive")},
    }


def _hits(answers: Sequence[Sequence[Position]]) -> dict[str, Any]:
    """How often the target's token is among the k likeliest of each draft, and of any."""
    every = [seen["ranks"] for answer in answers for seen in answer]
    readers: dict[str, Callable[[Sequence[int]], int]] = {"first": lambda ranks: ranks[0]}
    if len(every[0]) > 1:
        readers |= {"second": lambda ranks: ranks[1], "either": min}
    hits = {name: [mean(read(ranks) < k for ranks in every) for k in WIDTHS] for name, read in readers.items()}
    return {"positions": len(every), "answers": len(answers), "hits": hits}


def _transport(seen: Sequence[Position]) -> dict[str, Any]:
    """The bounds where they could be had, beside the rules at the same positions."""
    if not seen:
        return {"positions": 0}
    figures = {name: mean(one["transport"][i] for one in seen) for i, name in enumerate(("otm", "otmw"))}
    return {"positions": len(seen), **figures, **{rule: mean(sum(one[rule][:2]) for one in seen) for rule in PAIRS}}


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
