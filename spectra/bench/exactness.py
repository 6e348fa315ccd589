"""Count how often speculative output equals plain decoding's, token for token, by temperature.

Rows are kept, so a run that was stopped goes on; rows of another setting are refused.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from spectra.bench.answer import turn_ids
from spectra.bench.progress import Progress
from spectra.bench.rows import Rows, answer_key, claim
from spectra.bench.runner import PLAIN, guessed_from
from spectra.bench.tasks import Prompt, load_prompts
from spectra.bench.values import known, numbers
from spectra.cli import quiet_target
from spectra.decode import decode
from spectra.drafted import DRAFTED
from spectra.errors import SpectraError
from spectra.methods import METHODS, make_method, redraws
from spectra.metrics import distinct4, first_difference
from spectra.settings import Limits, Sampling

FILE = "exactness.jsonl"


def run_exactness(chosen: argparse.Namespace) -> int:
    """The subcommand `exactness`."""
    methods = known("methods", chosen.methods, METHODS)
    temperatures = numbers("temperatures", chosen.temperatures, float)
    for temperature in temperatures:
        for method in methods:
            if redraws(method, Sampling(temperature)):
                raise SpectraError("methods", f"{method} draws a text of its own above temperature 0; leave it out")
    Limits(chosen.max_new_tokens)
    prompts = load_prompts(chosen.tasks, chosen.data, chosen.limit)
    target = quiet_target(chosen)
    for method in methods:
        make_method(method, target)  # one that lacks its datastore or draft model says so now
    counts = count_identical(target, prompts, methods, temperatures, chosen.max_new_tokens, chosen.out, chosen.seed)
    for (method, temperature), (same, of) in sorted(counts.items()):
        print(f"{method}, temperature {temperature:g}, {target.plan.numerics}: {same} of {of} identical")
    return 0


def count_identical(
    target: Any,
    prompts: Sequence[Prompt],
    methods: Sequence[str],
    temperatures: Sequence[float],
    tokens: int,
    out: Path,
    seed: int,
) -> dict[tuple[str, float], tuple[int, int]]:
    """{(method, temperature): (identical, of)}. The first turn of each prompt.

    Appends a row a comparison to `out`/exactness.jsonl, skipping known ones. A prompt that does not fit the context is
    left out, with a note. Raises SpectraError where `out` holds rows of other settings, or no prompt fits.
    """
    shared = {
        "max_new_tokens": tokens, "seed": seed, **target.facts,
        **guessed_from(target, drafted=not DRAFTED.keys().isdisjoint(methods)),
    }  # fmt: skip
    claim(out, shared)
    rows = Rows(out, FILE)
    done, progress = {answer_key(row) for row in rows.all}, Progress(len(prompts))
    for prompt in prompts:
        ran = False
        for temperature in temperatures:
            missing = [m for m in methods if (prompt.task, prompt.id, temperature, m) not in done]
            if not missing:
                continue
            ran, sampling = True, Sampling(temperature, seed=seed)
            try:
                plain = _tokens(target, prompt, PLAIN, sampling, tokens)
                for method in missing:
                    difference = first_difference(plain, _tokens(target, prompt, method, sampling, tokens))
                    row = {
                        "task": prompt.task, "id": prompt.id, "method": method, "temperature": temperature,
                        "new_tokens": len(plain), "identical": difference is None, "first_difference": difference,
                        "distinct4": round(distinct4(plain), 4), **shared,
                    }  # fmt: skip
                    rows.add(row)
            except SpectraError as error:
                progress.leave_out(prompt, error)
                break
        progress.step(ran=ran)
    wanted = {(p.task, p.id, t, m) for p in prompts for t in temperatures for m in methods}
    counts: dict[tuple[str, float], tuple[int, int]] = {}
    for row in rows.all:
        if answer_key(row) in wanted:
            same, of = counts.get((row["method"], row["temperature"]), (0, 0))
            counts[row["method"], row["temperature"]] = (same + row["identical"], of + 1)
    return counts


def _tokens(target: Any, prompt: Prompt, method: str, sampling: Sampling, tokens: int) -> list[int]:
    ids, limits = turn_ids(target.tokenizer, prompt, []), Limits(tokens, target.eos)
    return [token for step in decode(target, ids, method, sampling=sampling, limits=limits) for token in step.tokens]
