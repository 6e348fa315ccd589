"""The report of `bench acceptance` as Markdown."""

from collections.abc import Mapping, Sequence
from typing import Any

from spectra.bench.acceptance.observer import WIDTHS
from spectra.bench.acceptance.summary import DEPTHS, UNBALANCED

NAMES = {
    "rrs": "RRS", "rrsw": "RRSw", "spechub": "SpecHub", "mss": "multi-step", "naive": "naive",
    "mss, both": "multi-step, both models", "naive, both": "naive, both models",
}  # fmt: skip

ABOUT = (
    "At each position of the target's own answers the draft models and the target say what comes next; every figure is "
    "computed from these distributions, none is drawn. Temperature 0 stands for the draft's likeliest tokens."
)
HITS = "SpecInfer, Table 1."
DRAFTS = "SpecHub, Tables 1-3. The second draft: of those that are tested."
TREES = (
    f"SpecHub, Tables 5-9, Figures 7 and 9. Unbalanced: {UNBALANCED} draws, as many as at depth 4, hung where the "
    "acceptance above says."
)
MANY = "Multi-step against naive sampling. Both models: k drafts of each."
EXPANSIONS = "SpecInfer, Table 3, with the first model."
BOUNDS = (
    "Optimal transport, at positions with few enough tokens left (by top-k and top-p), and the rules at the same ones."
)
PLACES = "The places that get a pair of drafts, as the drafts on the way there (0 the first)."

Found = Mapping[str, Mapping[str, Any]]


def markdown(found: Found, note: str) -> str:
    """found: of `summarise`. note: one line on what was measured."""
    by_width = [f"k={k}" for k in WIDTHS]
    by_depth = [*(f"depth {d}" for d in DEPTHS), "unbalanced"]
    positions = ", ".join(f"{seen['positions']} at {temperature}" for temperature, seen in found.items())
    parts = [
        f"# Acceptance of drafts\n\n{note}\n\n{ABOUT}\n\nPositions by temperature: {positions}.",
        f"## The target's token among the draft's likeliest k, %\n\n{HITS}",
        _table(["temperature", "draft model", *by_width], _hits(found)),
        f"## Acceptance of two drafts of the first model, %\n\n{DRAFTS}",
        _table(["temperature", "rule", "first draft", "second draft", "either"], _drafts(found)),
        f"## Tokens a pass of binary trees, by depth\n\n{TREES}",
        _table(["temperature", "rule", *by_depth], _trees(found)),
        f"## At least one of k drafts accepted, %\n\n{MANY}",
        _table(["temperature", "rule", *by_width], _widths(found)),
        f"## Tokens a pass of the trees <1,1,k,1,1,1,1,1>\n\n{EXPANSIONS}",
        _table(["temperature", "rule", *by_width], _expansions(found)),
        f"## The best that two drafts allow, %\n\n{BOUNDS}",
        _table(["temperature", "positions", "OTM", "RRS", "OTMw", "RRSw", "SpecHub"], _bounds(found)),
        f"## Unbalanced trees\n\n{PLACES}",
        "\n".join(_places(found)),
    ]
    return "\n\n".join(parts) + "\n"


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    if not rows:
        return "None here."
    lines = [header, ["---" if i < 2 else "---:" for i in range(len(header))], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _hits(found: Found) -> list[list[str]]:
    return [
        [temperature, name, *map(_percent, row)]
        for temperature, seen in found.items()
        for name, row in seen["hits"].items()
    ]


def _drafts(found: Found) -> list[list[str]]:
    rows = []
    for temperature, seen in found.items():
        for rule, (first, second) in seen["acceptance"].items():
            tested = second / (1.0 - first) if first < 1 else 0.0
            rows.append([temperature, _name(rule), *map(_percent, (first, tested, first + second))])
    return rows


def _trees(found: Found) -> list[list[str]]:
    return [
        [temperature, _name(rule), *(f"{rate:.2f}" for rate in [*rates, seen["unbalanced"][rule]])]
        for temperature, seen in found.items()
        for rule, rates in seen["binary"].items()
    ]


def _widths(found: Found) -> list[list[str]]:
    return [
        [temperature, _name(rule), *map(_percent, row)]
        for temperature, seen in found.items()
        for rule, row in seen.get("widths", {}).items()
    ]


def _expansions(found: Found) -> list[list[str]]:
    return [
        [temperature, _name(rule), *(f"{rate:.2f}" for rate in rates)]
        for temperature, seen in found.items()
        for rule, rates in seen["expansion"].items()
    ]


def _bounds(found: Found) -> list[list[str]]:
    order = ("otm", "rrs", "otmw", "rrsw", "spechub")
    return [
        [temperature, str(seen["transport"]["positions"]), *(_percent(seen["transport"][name]) for name in order)]
        for temperature, seen in found.items()
        if seen.get("transport", {}).get("positions")
    ]


def _places(found: Found) -> list[str]:
    return [
        f"- temperature {temperature}, {_name(rule)}, accepted {_percent(seen['acceptance'][rule][0])} and "
        f"{_percent(seen['acceptance'][rule][1])} %: "
        + " ".join("".join(map(str, place)) or "root" for place in places)
        for temperature, seen in found.items()
        for rule, places in seen["places"].items()
    ]


def _name(rule: str) -> str:
    return NAMES.get(rule, rule)


def _percent(share: float) -> str:
    return f"{100 * share:.1f}"
