"""`python -m spectra.bench toy`: how often one of two drafts is accepted, by rule, on made-up distributions.

SpecHub's toy table (EMNLP 2024 main 1148, appendix D). Its formula is lost in print; read here as: u, u' standard
normal over 50 tokens, target softmax(u / T), draft softmax((lambda u + (1 - lambda) u') / T). Every figure is computed,
not sampled: it varies with the pairs alone. No model.
"""

import argparse
from collections.abc import Mapping, Sequence
from statistics import mean, stdev

import numpy as np

from spectra.bench.rows import make_folder
from spectra.errors import SpectraError
from spectra.rules.draws import Distribution, softmax
from spectra.rules.multistep import MultiStep, WithoutReplacement
from spectra.rules.protocol import Rule
from spectra.rules.spechub import SpecHub
from spectra.rules.transport import Transport
from spectra.settings import check_number
from spectra.trace import check_writable, write_text

RULES: Mapping[str, Rule] = {
    "RRS": MultiStep(),
    "RRSw": WithoutReplacement(),
    "OTM": Transport(replace=True),
    "OTMw": Transport(replace=False),
    "SpecHub": SpecHub(),
}
"""The rows of the table: two drafts at a place each."""
TEMPERATURES = (0.1, 0.25, 0.5)
SHARES = (0.7, 0.5)
"""lambda: how much of the target's scores the draft knows."""
VOCABULARY = 50

Cell = tuple[float, float]
Table = Mapping[str, Mapping[Cell, Sequence[float]]]
"""rule -> (T, lambda) -> the acceptance of each pair."""


def run_toy(chosen: argparse.Namespace) -> int:
    """The subcommand `toy`."""
    check_number("pairs", chosen.pairs, 2, 100_000, whole=True)
    if chosen.seed < 0:
        raise SpectraError("seed", f"{chosen.seed} is below 0; give 0 or more")
    if chosen.out is not None:
        make_folder(chosen.out)
        check_writable(chosen.out / "toy.md", "out")
    text = markdown(measure(chosen.pairs, chosen.seed), chosen.pairs, chosen.seed)
    if chosen.out is not None:
        write_text(chosen.out / "toy.md", text, "out")
    print(text, end="")
    return 0


def pairs(count: int, seed: int, temperature: float, share: float) -> tuple[Distribution, Distribution]:
    """(targets, drafts), [count, V] each; the same scores at every temperature and share."""
    own, noise = np.random.default_rng(seed).standard_normal((2, count, VOCABULARY))
    return softmax(own, temperature), softmax(share * own + (1.0 - share) * noise, temperature)


def measure(count: int, seed: int) -> Table:
    """The acceptance of every rule on every pair. Raises SpectraError without scipy."""
    cells = {(t, s): list(zip(*pairs(count, seed, t, s), strict=True)) for t in TEMPERATURES for s in SHARES}
    return {
        name: {cell: [rule.acceptance(p, q, 2) for p, q in made] for cell, made in cells.items()}
        for name, rule in RULES.items()
    }


def markdown(table: Table, count: int, seed: int) -> str:
    """One row a rule, one column a cell, and what the order is."""
    cells = list(next(iter(table.values())))
    lines = [
        "# SpecHub's toy table",
        "",
        f"    python -m spectra.bench toy --pairs {count} --seed {seed}",
        "",
        f"The chance in % that one of two drafts is accepted: the mean over {count} pairs of distributions over",
        f"{VOCABULARY} tokens, with its standard error. Target softmax(u / T), draft softmax((λu + (1 − λ)u′) / T), u",
        "and u′ standard normal. All rules and cells see the same u and u′: differences within a column are surer than",
        "the errors say.",
        "",
        "| rule | " + " | ".join(f"T={t}, λ={share}" for t, share in cells) + " |",
        "|---|" + "---:|" * len(cells),
    ]
    for name, row in table.items():
        lines.append(f"| {name} | " + " | ".join(_figure(row[cell]) for cell in cells) + " |")
    return "\n".join([*lines, "", _order(table, cells)]) + "\n"


def _figure(values: Sequence[float]) -> str:
    return f"{100 * mean(values):.1f} ± {100 * stdev(values) / len(values) ** 0.5:.1f}"


def _order(table: Table, cells: Sequence[Cell]) -> str:
    """Where SpecHub stands against RRS and RRSw, by the means of each cell."""

    def above(name: str) -> str:
        won = [cell for cell in cells if mean(table["SpecHub"][cell]) > mean(table[name][cell])]
        lost = [f"T={t}, λ={share}" for t, share in cells if (t, share) not in won]
        return f"above {name} in {len(won)} of {len(cells)} cells" + (f" (not at {'; '.join(lost)})" if lost else "")

    return f"SpecHub is {above('RRS')} and {above('RRSw')}. OTM and OTMw are the bounds of what RRS and RRSw draw."
