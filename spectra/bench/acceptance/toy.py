"""`python -m spectra.bench toy`: how often one of two drafts is accepted, by rule, on made-up distributions.

SpecHub's toy table (EMNLP 2024 main 1148, appendix D). Its formula is lost in print; read here as: u, u' standard
normal over 50 tokens, target softmax(u / T), draft softmax((lambda u + (1 - lambda) u') / T). Every figure is computed,
not sampled: it varies with the pairs alone. No model.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev

import numpy as np

from spectra.bench.run.rows import make_folder
from spectra.errors import SpectraError
from spectra.io.files import check_writable, write_text
from spectra.settings import check_number
from spectra.verify.rules.draws import Distribution, softmax
from spectra.verify.rules.multistep import MultiStep, WithoutReplacement
from spectra.verify.rules.protocol import Rule
from spectra.verify.rules.spechub import SpecHub
from spectra.verify.rules.transport import Transport

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

Column = tuple[float, float]
"""(T, lambda)."""
Table = Mapping[str, Mapping[Column, Sequence[float]]]
"""rule -> column -> the acceptance of each pair."""


@dataclass(frozen=True, slots=True)
class ToyOptions:
    """pairs: of distributions. seed: of the pairs. out: a folder for toy.md."""

    pairs: int = 100
    seed: int = 0
    out: Path | None = None

    def __post_init__(self) -> None:
        check_number("pairs", self.pairs, 2, 100_000, whole=True)
        if self.seed < 0:
            raise SpectraError("seed", f"{self.seed} is below 0; give 0 or more")


def run_toy(options: ToyOptions) -> int:
    """The subcommand `toy`."""
    if options.out is not None:
        make_folder(options.out)
        check_writable(options.out / "toy.md", "out")
    text = markdown(measure(options.pairs, options.seed), options.pairs, options.seed)
    if options.out is not None:
        write_text(options.out / "toy.md", text, "out")
    print(text, end="")
    return 0


def pairs(count: int, seed: int, temperature: float, share: float) -> tuple[Distribution, Distribution]:
    """(targets, drafts), [count, V] each; the same scores at every temperature and share."""
    own, noise = np.random.default_rng(seed).standard_normal((2, count, VOCABULARY))
    return softmax(own, temperature), softmax(share * own + (1.0 - share) * noise, temperature)


def measure(count: int, seed: int) -> Table:
    """The acceptance of every rule on every pair. Raises SpectraError without scipy."""
    made = {
        (temperature, share): list(zip(*pairs(count, seed, temperature, share), strict=True))
        for temperature in TEMPERATURES
        for share in SHARES
    }
    return {
        name: {column: [rule.acceptance(p, q, 2) for p, q in drawn] for column, drawn in made.items()}
        for name, rule in RULES.items()
    }


def markdown(table: Table, count: int, seed: int) -> str:
    """One row a rule, and what the order is."""
    columns = list(next(iter(table.values())))
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
        "| rule | " + " | ".join(_title(column) for column in columns) + " |",
        "|---|" + "---:|" * len(columns),
    ]
    for name, row in table.items():
        lines.append(f"| {name} | " + " | ".join(_figure(row[column]) for column in columns) + " |")
    return "\n".join([*lines, "", _order(table, columns)]) + "\n"


def _title(column: Column) -> str:
    temperature, share = column
    return f"T={temperature}, λ={share}"


def _figure(values: Sequence[float]) -> str:
    return f"{100 * mean(values):.1f} ± {100 * stdev(values) / len(values) ** 0.5:.1f}"


def _order(table: Table, columns: Sequence[Column]) -> str:
    """Where SpecHub stands against RRS and RRSw, by the means of each cell."""

    def above(name: str) -> str:
        lost = [_title(column) for column in columns if mean(table["SpecHub"][column]) <= mean(table[name][column])]
        won = f"above {name} in {len(columns) - len(lost)} of {len(columns)} cells"
        return f"{won} (not at {'; '.join(lost)})" if lost else won

    return f"SpecHub is {above('RRS')} and {above('RRSw')}. OTM and OTMw are the bounds of what RRS and RRSw draw."
