"""`python -m spectra.bench fit`: what a model's guesses are worth, learned from recorded answers and checked on others.

The drafters run on the answers as in `replay`. Every guess that the answer reached is a case: its properties, and
whether the model wrote it. The weights are those of a logistic regression, drawn to the ones it began with where cases
are few. Every fifth answer is held back: on those the chances are compared with what happened (Guo et al., 2017), the
weights going on learning as they do while an answer is written.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spectra.bench.replay import Header, RecordedAnswer, ReplayTarget, read_recording, target_of
from spectra.bench.report.charts import Figure, write_figures
from spectra.bench.run.answers import check_names
from spectra.bench.run.rows import make_folder
from spectra.budget.estimates import Estimates, Properties
from spectra.budget.policy import AdaptiveBudget
from spectra.budget.weights import BUILT_IN, FILE, UNKNOWN, Feature, Weights
from spectra.datastore.shipped import stores_for
from spectra.decode import decode
from spectra.errors import SpectraError
from spectra.io.files import write_text
from spectra.methods.presets import METHODS, make_method
from spectra.methods.resources import Resources
from spectra.settings import Limits, check_number
from spectra.tree import TokenTree

HELD_BACK = 5
"""Every such answer is for the check."""
BINS = 10
RIDGE = 1.0
"""How strongly weights are drawn to where they began."""
ROUNDS = 12


@dataclass(frozen=True, slots=True)
class FitOptions:
    """recording: files of `record` of one model. method: a preset whose guesses are judged. out: a folder.

    together: how many sequences share a pass, for what the method drafts from there.
    """

    recording: tuple[Path, ...]
    out: Path
    method: str = "spectra"
    datastores: tuple[Path, ...] = ()
    together: int = 1

    def __post_init__(self) -> None:
        check_names("method", [self.method], METHODS)
        check_number("together", self.together, 1, 4096, whole=True)


class Case(NamedTuple):
    """A guess that an answer reached. flat: of the answer's temperature. chance: as it was estimated. hit: written."""

    properties: Properties
    flat: float
    chance: float
    hit: bool


class Watching(Estimates):
    """Estimates that write down every case before they learn from it."""

    def __init__(self, temperature: float, weights: Weights, cases: list[Case]) -> None:
        super().__init__(temperature, weights)
        self._cases = cases

    def observe(self, tree: TokenTree, emitted: Sequence[int]) -> None:
        for node, hit in tree.reached(emitted):
            properties = self.properties(tree, node)
            self._cases.append(Case(properties, self.flat, self.chance(tree, node), hit))
        super().observe(tree, emitted)


class Bin(NamedTuple):
    """Cases whose chance lies in one part of 0..1. chance: their mean. share: of them that was written."""

    cases: int
    chance: float
    share: float


@dataclass(frozen=True, slots=True)
class Check:
    """Chances against what happened. bins: equally wide, those that hold cases."""

    bins: Sequence[Bin]
    cases: int
    loss: float

    @property
    def error(self) -> float:
        """Expected calibration error: how far chance and share are apart, weighed by cases."""
        return sum(one.cases * abs(one.chance - one.share) for one in self.bins) / self.cases


@dataclass(slots=True)
class Recorded:
    """The answers of one file, and what replays them."""

    header: Header
    target: ReplayTarget
    answers: Sequence[RecordedAnswer] = field(default_factory=list)


def run_fit(options: FitOptions) -> int:
    """The subcommand `fit`."""
    files = [_opened(path) for path in options.recording]
    headers = {(one.header.tokenizer_sha256, one.header.model) for one in files}
    if len(headers) > 1:
        raise SpectraError("recording", "the files are of several models; give those of one")
    make_folder(options.out)
    ((tokenizer, model),) = headers
    resources = Resources(stores_for(tokenizer, options.datastores, model=model))
    known, fresh = ([_part(one, held_back=held_back) for one in files] for held_back in (False, True))
    if not any(one.answers for one in fresh):
        raise SpectraError("recording", f"fewer than {HELD_BACK} answers; record more")
    cases = list(_cases(known, options, resources, BUILT_IN))
    if not cases:
        raise SpectraError("method", f"{options.method} made no guess on these answers; take another or record more")
    weights = fitted(cases, BUILT_IN)
    judged = {
        name: list(_cases(fresh, options, resources, used))
        for name, used in (("built in", BUILT_IN), ("fitted", weights))
    }
    if not all(judged.values()):
        problem = f"{options.method} made no guess on the answers held back, every fifth one"
        raise SpectraError("method", f"{problem}; take another or record more")
    checks = {name: check(some) for name, some in judged.items()}
    facts = {
        "model": model, "tokenizer_sha256": tokenizer, "method": options.method, "together": options.together,
        "cases": len(cases),
    }  # fmt: skip
    weights.write(options.out / FILE, facts)
    report = _report(options, checks, len(cases), [one.header.sampling.temperature for one in files])
    write_text(options.out / "report.md", report, "out")
    write_figures(options.out, {"reliability": reliability(checks)})
    print(report)
    return 0


def fitted(cases: Sequence[Case], start: Weights) -> Weights:
    """The weights that make the cases likeliest, by Newton's method."""
    names = sorted({feature for case in cases for feature in case.properties.features}, key=str)
    place = {feature: at for at, feature in enumerate(names)}
    drawn, luck = len(names), len(names) + 1
    given = np.zeros((len(cases), len(names) + 2))
    for row, case in enumerate(cases):
        for feature in case.properties.features:
            given[row, place[feature]] += 1
        if case.properties.luck is not None:
            given[row, drawn] = case.flat
            given[row, luck] = case.flat**2 * case.properties.luck
    first = np.array([*(start.features.get(name, UNKNOWN) for name in names), start.drawn, start.luck])
    found = _newton(given, np.array([case.hit for case in cases], float), first)
    learned: dict[Feature, float] = dict(zip(names, found.tolist(), strict=False))
    return Weights({**start.features, **learned}, float(found[drawn]), float(found[luck]))


def _newton(given: NDArray[np.float64], hits: NDArray[np.float64], first: NDArray[np.float64]) -> NDArray[np.float64]:
    weights = first.copy()
    for _ in range(ROUNDS):
        chance = 1 / (1 + np.exp(-np.clip(given @ weights, -30, 30)))
        gradient = given.T @ (hits - chance) - RIDGE * (weights - first)
        hessian = (given * (chance * (1 - chance))[:, None]).T @ given + RIDGE * np.eye(len(first))
        weights = weights + np.linalg.solve(hessian, gradient)
    return weights


def check(cases: Sequence[Case]) -> Check:
    """How well the chances of the cases were estimated."""
    chance = np.array([case.chance for case in cases])
    hit = np.array([case.hit for case in cases], float)
    bin_of = np.minimum((chance * BINS).astype(int), BINS - 1)
    bins = []
    for number in range(BINS):
        inside = bin_of == number
        if inside.any():
            bins.append(Bin(int(inside.sum()), float(chance[inside].mean()), float(hit[inside].mean())))
    sure = np.clip(np.where(hit > 0, chance, 1 - chance), 1e-6, 1)
    return Check(bins, len(cases), float(-np.log(sure).mean()))


def reliability(checks: Mapping[str, Check]) -> Figure:
    """The share that was written over the chance that was estimated; on the diagonal both are the same."""
    lines: list[Figure] = [{"type": "scatter", "mode": "lines", "name": "equal", "x": [0, 1], "y": [0, 1]}]
    for name, one in checks.items():
        x, y = [some.chance for some in one.bins], [some.share for some in one.bins]
        lines.append({"type": "scatter", "mode": "lines+markers", "name": name, "x": x, "y": y})
    axes = {"xaxis": {"title": {"text": "estimated chance"}}, "yaxis": {"title": {"text": "share that was written"}}}
    return {"data": lines, "layout": axes}


def _opened(path: Path) -> Recorded:
    header, answers = read_recording(path)
    return Recorded(header, target_of(header), answers)


def _part(one: Recorded, *, held_back: bool) -> Recorded:
    answers = [answer for at, answer in enumerate(one.answers) if (at % HELD_BACK == HELD_BACK - 1) == held_back]
    return Recorded(one.header, one.target, answers)


def _cases(files: Iterable[Recorded], options: FitOptions, resources: Resources, weights: Weights) -> Iterator[Case]:
    for one in files:
        sampling = one.header.sampling
        for answer in one.answers:
            cases: list[Case] = []
            one.target.recorded = answer
            made = make_method(options.method, one.target, resources, sampling=sampling, together=options.together)
            if not isinstance(made.budget, AdaptiveBudget):
                raise SpectraError(
                    "method", f"{options.method} estimates no chances; take one that plans by T(q), like spectra"
                )
            made.budget.estimates = Watching(sampling.temperature, weights, cases)
            limits = Limits(len(answer.answer))
            for _ in decode(one.target, answer.prompt, made, sampling=sampling, limits=limits):
                yield from cases
                cases.clear()


def _report(options: FitOptions, checks: Mapping[str, Check], cases: int, temperatures: Sequence[float]) -> str:
    held_back = next(iter(checks.values())).cases
    hot = ", ".join(f"{temperature:g}" for temperature in temperatures)
    shared = f", as where {options.together} sequences share a pass" if options.together > 1 else ""
    lines = [
        f"Guesses of `{options.method}`{shared}, on recorded answers at temperature {hot}.",
        f"{cases:,} cases to learn from, {held_back:,} held back for the check.",
        "",
        "| weights | expected calibration error | log loss | written |",
        "|---|---:|---:|---:|",
    ]
    for name, one in checks.items():
        share = sum(some.cases * some.share for some in one.bins) / one.cases
        lines.append(f"| {name} | {one.error:.3f} | {one.loss:.4f} | {share:.1%} |")
    for name, one in checks.items():
        rows = [f"| {some.chance:.2f} | {some.share:.2f} | {some.cases:,} |" for some in one.bins]
        lines += ["", f"| {name}: estimated | written | cases |", "|---:|---:|---:|", *rows]
    return "\n".join(lines) + "\n"
