"""`python -m spectra.bench exactness`: how often speculative output equals plain decoding's, token for token."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

from spectra.bench.run.answers import check_names, drafted_from, tokens_of, turn_ids
from spectra.bench.run.rows import Row
from spectra.bench.run.runner import Cell, run_prompts
from spectra.bench.tasks import Prompt, PromptOptions
from spectra.errors import SpectraError
from spectra.io.files import check_writable_folder
from spectra.methods.presets import METHODS, PLAIN, redraws
from spectra.metrics import distinct4, first_difference
from spectra.service.loading import LoadedModel, ModelOptions
from spectra.settings import Limits, Sampling
from spectra.target.choices import WEIGHTS, check_choice

FILE = "exactness.jsonl"


@dataclass(frozen=True, slots=True)
class ExactnessOptions:
    """Each of `methods` at each of `temperatures`, on the first turn of each prompt.

    plain_weights: plain answers come from the model with these weights; None: with those of `model`.
    """

    prompts: PromptOptions
    model: ModelOptions
    out: Path
    methods: tuple[str, ...] = ("spectra-core",)
    temperatures: tuple[float, ...] = (0.0, 0.8)
    max_new_tokens: int = 256
    seed: int = 0
    plain_weights: str | None = None

    def __post_init__(self) -> None:
        check_names("methods", self.methods, METHODS)
        if self.plain_weights is not None:
            check_choice("plain-weights", self.plain_weights, WEIGHTS)
            try:
                _ = self.plain_model  # refuses what it cannot be
            except SpectraError as error:
                raise SpectraError("plain-weights", error.problem) from error
        for sampling in self.samplings:
            for method in self.methods:
                if redraws(method, sampling):
                    raise SpectraError("methods", f"{method} draws a text of its own above temperature 0; leave it out")
        Limits(self.max_new_tokens)

    @property
    def plain_model(self) -> ModelOptions:
        """What decodes plainly, to be compared with."""
        return self.model if self.plain_weights is None else replace(self.model, weights=self.plain_weights)

    @property
    def samplings(self) -> list[Sampling]:
        return [Sampling(temperature, seed=self.seed) for temperature in self.temperatures]


class Count(NamedTuple):
    """identical: answers that are plain decoding's, of those compared."""

    identical: int
    compared: int


def run_exactness(options: ExactnessOptions) -> int:
    """The subcommand `exactness`."""
    check_writable_folder(options.out, "out")
    prompts = options.prompts.load()
    model = options.model.load()
    model.check_methods(options.methods)
    plain = model if options.plain_weights is None else options.plain_model.load()
    against = "" if plain is model else f" to plain decoding with weights {options.plain_weights}"
    for (method, temperature), count in sorted(count_identical(model, plain, prompts, options).items()):
        where = f"{method}, temperature {temperature:g}, {model.target.plan.numerics}"
        print(f"{where}: {count.identical} of {count.compared} identical{against}")
    return 0


def count_identical(
    model: LoadedModel, plain_model: LoadedModel, prompts: Sequence[Prompt], options: ExactnessOptions
) -> dict[tuple[str, float], Count]:
    """A count for each (method, temperature). plain_model: decodes plainly, the others are compared with it.

    Appends a row a comparison to `out`/exactness.jsonl, see `run_prompts`.
    """
    tokens = options.max_new_tokens
    shared = {
        "max_new_tokens": tokens, "seed": options.seed, **model.target.facts, **drafted_from(model, options.methods),
    }  # fmt: skip
    if options.plain_weights is not None:
        shared["plain_weights"] = options.plain_weights
    cells = [{"temperature": t, "method": method} for t in options.temperatures for method in options.methods]

    def measure(prompt: Prompt, missing: Sequence[Cell]) -> Iterator[Row]:
        ids = turn_ids(model.target.tokenizer, prompt)
        for temperature, some in groupby(missing, itemgetter("temperature")):
            sampling = Sampling(temperature, seed=options.seed)
            plain = tokens_of(plain_model, PLAIN, ids, tokens, sampling)
            for cell in some:
                difference = first_difference(plain, tokens_of(model, cell["method"], ids, tokens, sampling))
                yield {
                    "new_tokens": len(plain), "identical": difference is None, "first_difference": difference,
                    "distinct4": round(distinct4(plain), 4), **shared,
                }  # fmt: skip

    counts: dict[tuple[str, float], Count] = {}
    for row in run_prompts(options.out, FILE, shared, prompts, cells, measure):
        which = row["method"], row["temperature"]
        known = counts.get(which, Count(0, 0))
        counts[which] = Count(known.identical + (1 if row["identical"] else 0), known.compared + 1)
    return counts
