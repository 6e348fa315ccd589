"""Time methods on the same prompts, in turn for each prompt so that drift hits all alike. Resumable, one row a run."""

import time
from pathlib import Path
from typing import Any

from spectra.bench.peers import PEERS, run_peer
from spectra.bench.rows import Rows, show_progress
from spectra.bench.tasks import Prompt
from spectra.decode import decode
from spectra.metrics import distinct4, first_difference, summarize
from spectra.record import encode
from spectra.settings import Limits, Sampling


def run_methods(
    target: Any,
    prompts: list[Prompt],
    methods: list[str],
    out: Path,
    *,
    sampling: Sampling,
    max_new_tokens: int,
    nodes: int | None = None,
    repeats: int = 1,
) -> list[dict[str, Any]]:
    """Rows of `out`/rows.jsonl, new ones appended as they finish; rows that are there are not run again.

    Plain decoding always runs, first. seconds: prefill included for every method; the warm-up is not recorded.
    """
    methods = ["autoregressive", *[m for m in methods if m != "autoregressive"]]
    rows = Rows(out, "rows.jsonl")
    done = {(row["id"], row["method"], row["repeat"]) for row in rows.all}
    plain = {row["id"]: row["output"] for row in rows.all if row["method"] == "autoregressive"}
    for method in methods:
        _run_one(target, prompts[0], method, sampling, min(16, max_new_tokens), nodes)  # warm-up
    for number, prompt in enumerate(prompts, 1):
        for repeat in range(repeats):
            for method in methods:
                if (prompt.id, method, repeat) in done:
                    continue
                row, tokens = _run_one(target, prompt, method, sampling, max_new_tokens, nodes)
                if method == "autoregressive":
                    plain[prompt.id] = tokens
                    row["output"] = tokens
                difference = first_difference(plain[prompt.id], tokens)
                row |= {"repeat": repeat, "identical": difference is None, "first_difference": difference}
                row |= target.facts
                rows.add(row)
        show_progress(number, len(prompts))
    ids = {prompt.id for prompt in prompts}
    return [row for row in rows.all if row["id"] in ids and row["method"] in methods]


def _run_one(
    target: Any, prompt: Prompt, method: str, sampling: Sampling, tokens: int, nodes: int | None
) -> tuple[dict[str, Any], list[int]]:
    """(row, new tokens). The clock runs around the whole call, for every method alike: ids in, ids out."""
    row: dict[str, Any] = {
        "task": prompt.task, "id": prompt.id, "category": prompt.category, "method": method,
        "temperature": sampling.temperature, "seed": sampling.seed, "max_new_tokens": tokens, "nodes": nodes,
        "steps": None, "tau": None, "mac_tp": None, "sources": None, "acceptance": None,
    }  # fmt: skip
    ids = encode(target.tokenizer, prompt.text)
    if method in PEERS:
        new, seconds = run_peer(target, method, ids, sampling, tokens)
    else:
        limits = Limits(tokens, target.eos)
        began = time.perf_counter()
        steps = list(decode(target, ids, method, sampling=sampling, limits=limits, nodes=nodes))
        seconds = time.perf_counter() - began
        figures, new = summarize(steps), [token for step in steps for token in step.tokens]
        row |= {
            "steps": figures.passes, "tau": figures.tau, "mac_tp": figures.macro,
            "sources": {s: round(share * figures.tokens) for s, share in figures.share.items()},
            "acceptance": figures.acceptance,
        }  # fmt: skip
    return row | {"new_tokens": len(new), "seconds": seconds, "distinct4": distinct4(new)}, new
