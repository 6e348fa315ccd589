"""Where the time of a step goes. `python -m spectra.bench latency`: T(q), the time of one forward pass over q query
tokens, by context length, and what share of the memory's speed a one-token pass gets. `profile`: a step by part.
"""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spectra.bench.run.answers import AnswerOptions, check_names, facts_line
from spectra.budget.step_cost import StepCost
from spectra.errors import SpectraError
from spectra.io.files import check_writable, write_text
from spectra.io.json_text import read_json
from spectra.methods.presets import METHODS
from spectra.service.loading import ModelOptions
from spectra.service.recording import record
from spectra.settings import MethodSettings, check_unicode
from spectra.target.choices import check_choice
from spectra.target.shapes import SHAPES
from spectra.trace import StepTrace

PROMPT = "Write a Python class for a bank account with methods to deposit, withdraw and show the balance."
PARTS = {
    "draft": "grow the tree and choose what is worth scoring",
    "forward": "one pass of the model, with the copy of its picks to the host",
    "verify": "walk the tree",
    "keep": "commit the cache rows, learn",
}
UNITS = "Milliseconds of a pass over q tokens; in brackets against those of one token."
FIRST_STEPS = 4
"""Steps that a profile leaves out, where there are as many again."""


@dataclass(frozen=True, slots=True)
class LatencyOptions:
    """shape: random weights in this shape instead of a model. contexts: tokens in the cache. queries: of a pass."""

    model: ModelOptions
    shape: str | None = None
    contexts: tuple[int, ...] = (256, 1024)
    queries: tuple[int, ...] = (1, 2, 4, 8, 16, 32, 64, 128)
    out: Path | None = None

    def __post_init__(self) -> None:
        for name, sizes in (("contexts", self.contexts), ("queries", self.queries)):
            if min(sizes) < 1:
                raise SpectraError(name, f"{min(sizes)} is out of range; give 1 or more")
        if self.shape is not None:
            check_choice("shape", self.shape, tuple(SHAPES))
            if self.model.model is not None:
                raise SpectraError("shape", f"{self.shape} stands in the place of a model; leave one of them out")
            if self.model.placement:
                raise SpectraError("device_map", "a shape goes to one device; leave the map out")

    def target(self) -> Any:
        """The model's, or one with random weights in the shape."""
        from spectra.target.shapes import shaped_target

        model = self.model
        if self.shape is None:
            return model.load().target
        return shaped_target(
            self.shape, device=model.device, dtype=model.dtype, weights=model.weights,
            numerics=model.numerics, step=model.step,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class ProfileOptions:
    """methods: presets that answer `prompt` in turn."""

    model: ModelOptions
    answers: AnswerOptions
    methods: tuple[str, ...] = ("autoregressive", "spectra")
    prompt: str = PROMPT

    def __post_init__(self) -> None:
        check_names("methods", self.methods, METHODS)
        if not self.prompt.strip():
            raise SpectraError("prompt", "it is blank; give a prompt")
        check_unicode("prompt", self.prompt)


def run_latency(options: LatencyOptions) -> int:
    """The subcommand `latency`. Prints milliseconds, the ratio to one token, and bytes a second."""
    if options.out is not None:
        check_writable(options.out, "out")
    contexts = sorted(options.contexts)
    queries = sorted(options.queries)
    target = options.target()
    max_queries = target.max_query_tokens
    fitting = [count for count in queries if count <= max_queries]
    if not fitting:
        raise SpectraError("queries", f"{queries[0]} does not fit a step of this model; give {max_queries} or less")
    longest = contexts[-1] + fitting[-1] + 1
    if longest > target.context:
        raise SpectraError("contexts", f"{longest} positions do not fit the context of {target.context}; ask for less")
    costs = measure(target, contexts, fitting)
    parts = [facts_line(target), cost_table(costs, fitting), UNITS, bandwidth_table(target, costs)]
    if len(fitting) < len(queries):
        left_out = ", ".join(f"q={count}" for count in queries[len(fitting) :])
        parts.append(f"Left out: {left_out}; {max_queries} is the largest step of this model.")
    text = "\n\n".join(parts)
    print(text)
    if options.out is not None:
        write_text(options.out, text + "\n", "out")
    return 0


def measure(target: Any, contexts: Sequence[int], queries: Sequence[int]) -> dict[int, StepCost]:
    """T(q) by context, for these query counts and for one token."""
    from spectra.target.preflight import measure_cost

    return {context: measure_cost(target, sorted({1, *queries}), context=context) for context in contexts}


def cost_table(costs: Mapping[int, StepCost], queries: Sequence[int]) -> str:
    """Markdown: a row a context, a column a query count, each cell ms and T(q)/T(1)."""
    lines = [
        "| context | " + " | ".join(f"q={q}" for q in queries) + " |",
        "|---:" * (len(queries) + 1) + "|",
    ]
    for context, cost in costs.items():
        cells = [f"{cost.seconds(q) * 1000:.1f} ({cost.seconds(q) / cost.seconds(1):.2f})" for q in queries]
        lines.append(f"| {context} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def bandwidth_table(target: Any, costs: Mapping[int, StepCost]) -> str:
    """Markdown: what a plain step reads at each context, how fast, and beside that how fast a copy is here."""
    from spectra.target.bandwidth import copy_bandwidth, step_and_read_seconds, token_bytes, weight_bytes

    weights = weight_bytes(target)
    token = token_bytes(target)
    copy = copy_bandwidth(target.device)
    lines = ["| context | a plain step reads, GB | GB/s | share of a copy's GB/s |", "|---:" * 4 + "|"]
    for context, cost in costs.items():
        size = weights + context * token
        speed = size / cost.seconds(1)
        lines.append(f"| {context} | {size / 1e9:.3f} | {speed / 1e9:.1f} | {speed / copy:.0%} |")
    meaning = "Read: every weight once, keys and values of the context. A copy's bytes count twice, read and written"
    lines += ["", f"{meaning}: {copy / 1e9:.1f} GB/s here."]
    if pair := step_and_read_seconds(target, min(costs)):
        step, read = pair
        lines.append(
            f"In turns, medians: the step's threads read the weights alone in {read * 1000:.2f} ms; a plain step at "
            f"{min(costs)} tokens takes {step * 1000:.2f} ms, {step / read:.2f} times as long."
        )
    return "\n".join(lines)


def run_profile(options: ProfileOptions) -> int:
    """The subcommand `profile`: one answer a method, the first steps left out."""
    answers = options.answers
    model = options.model.load()
    model.check_methods(options.methods, nodes=answers.nodes, sampling=answers.sampling)
    print("| method | steps | ms a step | " + " | ".join(PARTS) + " |\n|---|---:|---:|" + "---:|" * len(PARTS))
    for method in options.methods:
        answer = record(
            model.target,
            model.resources,
            options.prompt,
            method,
            sampling=answers.sampling,
            max_new_tokens=answers.max_new_tokens,
            settings=MethodSettings(nodes=answers.nodes),
        )
        steps = [step for step, _ in answer]
        print(profile_row(method, steps[min(FIRST_STEPS, len(steps) // 2) :]))
    print("\n" + "; ".join(f"{part}: {meaning}" for part, meaning in PARTS.items()) + ".")
    return 0


def profile_row(method: str, steps: Sequence[StepTrace]) -> str:
    """A Markdown row: medians over steps, each part with its share of all time."""
    total = sum(step.seconds for step in steps)
    cells = []
    for part in PARTS:
        times = [step.parts.get(part, 0.0) for step in steps]
        cells.append(f"{statistics.median(times) * 1000:.2f} ms, {sum(times) / total:.1%}")
    middle = statistics.median(step.seconds for step in steps) * 1000
    return f"| {method} | {len(steps)} | {middle:.1f} | " + " | ".join(cells) + " |"


def read_cost(path: Path) -> StepCost:
    """Another device's T(q) from a file: a JSON list of [queries, seconds]. Raises SpectraError for anything else."""
    try:
        return cost_of(read_json(path))
    except (OSError, ValueError, TypeError, OverflowError) as error:
        raise SpectraError(
            "cost", f"{path} is not a JSON list of [queries, seconds] in rising order, all above 0; give one that is"
        ) from error


def cost_of(table: Any) -> StepCost:
    """From the list as JSON has it. Raises ValueError, TypeError or OverflowError for anything else."""
    return StepCost(tuple((int(queries), float(seconds)) for queries, seconds in table))
