"""Count how often speculative output equals plain decoding's, token for token, by numerics and temperature."""

from pathlib import Path
from typing import Any

from spectra.bench.rows import Rows, show_progress
from spectra.bench.tasks import Prompt
from spectra.errors import SpectraError
from spectra.metrics import distinct4, first_difference
from spectra.record import Recording
from spectra.settings import Sampling


def count_identical(
    target: Any, prompts: list[Prompt], methods: list[str], temperatures: list[float], tokens: int, out: Path, seed: int
) -> dict[tuple[str, float], tuple[int, int]]:
    """{(method, temperature): (identical, of)}.

    Appends a row a comparison to `out`/exactness.jsonl, skipping known ones.
    """
    rows = Rows(out, "exactness.jsonl")
    numerics = target.plan.numerics
    known = {(r["id"], r["method"], r["temperature"], r["numerics"], r["max_new_tokens"]) for r in rows.all}
    for number, prompt in enumerate(prompts, 1):
        for temperature in temperatures:
            wanted = [m for m in methods if (prompt.id, m, temperature, numerics, tokens) not in known]
            if not wanted:
                continue
            sampling = Sampling(temperature=temperature, seed=seed)
            plain = _tokens(target, prompt, "autoregressive", sampling, tokens)
            for method in wanted:
                ours = _tokens(target, prompt, method, sampling, tokens)
                difference = first_difference(plain, ours)
                row = {
                    "task": prompt.task, "id": prompt.id, "method": method, "temperature": temperature,
                    "numerics": numerics, "max_new_tokens": tokens, "seed": seed, "new_tokens": len(plain),
                    "identical": difference is None, "first_difference": difference,
                    "distinct4": round(distinct4(plain), 4), **target.facts,
                }  # fmt: skip
                rows.add(row)
        show_progress(number, len(prompts))
    ids = {prompt.id for prompt in prompts}
    counts: dict[tuple[str, float], tuple[int, int]] = {}
    for row in rows.all:
        if row["id"] in ids and row["numerics"] == numerics and row["max_new_tokens"] == tokens:
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
