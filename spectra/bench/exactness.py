"""Count how often speculative output equals plain decoding's, token for token, by numerics and temperature."""

import argparse
from pathlib import Path
from typing import Any

from spectra.bench.progress import Progress
from spectra.bench.rows import Rows
from spectra.bench.tasks import Prompt, load_prompts
from spectra.bench.values import numbers
from spectra.cli import quiet_target
from spectra.errors import SpectraError
from spectra.methods import METHODS, redraws
from spectra.metrics import distinct4, first_difference
from spectra.record import Recording
from spectra.settings import Sampling


def run_exactness(chosen: argparse.Namespace) -> int:
    """The subcommand `exactness`."""
    for method in chosen.methods:
        if method not in METHODS:
            raise SpectraError("methods", f"{method!r} is unknown; choose from {', '.join(METHODS)}")
    temperatures = numbers("temperatures", chosen.temperatures, float)
    for temperature in temperatures:
        for method in chosen.methods:
            if redraws(method, Sampling(temperature)):
                raise SpectraError("methods", f"{method} draws a text of its own above temperature 0; leave it out")
    prompts = load_prompts(chosen.tasks, chosen.data, chosen.limit)
    target = quiet_target(chosen)
    counts = count_identical(
        target, prompts, chosen.methods, temperatures, chosen.max_new_tokens, chosen.out, chosen.seed
    )
    for (method, temperature), (same, of) in sorted(counts.items()):
        print(f"{method}, temperature {temperature:g}, {target.plan.numerics}: {same} of {of} identical")
    return 0


def count_identical(
    target: Any, prompts: list[Prompt], methods: list[str], temperatures: list[float], tokens: int, out: Path, seed: int
) -> dict[tuple[str, float], tuple[int, int]]:
    """{(method, temperature): (identical, of)}. The first turn of each prompt.

    Appends a row a comparison to `out`/exactness.jsonl, skipping known ones.
    """
    rows = Rows(out, "exactness.jsonl")
    numerics = target.plan.numerics
    shared = {"numerics": numerics, "max_new_tokens": tokens, "seed": seed}
    ours = [row for row in rows.all if all(row[name] == value for name, value in shared.items())]
    known = {(row["id"], row["method"], row["temperature"]) for row in ours}
    progress = Progress(len(prompts))
    for prompt in prompts:
        ran = False
        for temperature in temperatures:
            wanted = [m for m in methods if (prompt.id, m, temperature) not in known]
            if not wanted:
                continue
            ran = True
            sampling = Sampling(temperature=temperature, seed=seed)
            plain = _tokens(target, prompt, "autoregressive", sampling, tokens)
            for method in wanted:
                difference = first_difference(plain, _tokens(target, prompt, method, sampling, tokens))
                row = {
                    "task": prompt.task, "id": prompt.id, "method": method, "temperature": temperature,
                    "new_tokens": len(plain), "identical": difference is None, "first_difference": difference,
                    "distinct4": round(distinct4(plain), 4), **target.facts, **shared,
                }  # fmt: skip
                rows.add(row)
                ours.append(row)
        progress.step(ran=ran)
    ids = {prompt.id for prompt in prompts}
    counts: dict[tuple[str, float], tuple[int, int]] = {}
    for row in ours:
        if row["id"] in ids:
            same, of = counts.get((row["method"], row["temperature"]), (0, 0))
            counts[row["method"], row["temperature"]] = (same + row["identical"], of + 1)
    return counts


def _tokens(target: Any, prompt: Prompt, method: str, sampling: Sampling, tokens: int) -> list[int]:
    answer = Recording(target, prompt.text, method, sampling=sampling, max_new_tokens=tokens)
    for _ in answer:
        pass
    if not answer.trace.steps:
        raise SpectraError("prompt", f"{prompt.id} gave no token")
    return answer.trace.tokens
