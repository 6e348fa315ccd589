"""`python -m spectra.bench halves`: how many greedy answers half precision changes, in stock transformers and in here.

Four counts over the same prompts: stock `generate` in 16 bits against itself in fp32; SPECTRA against plain decoding
in 16 bits, with fast numerics and with exact ones. The paper's appendix counts 25 and 26 of 160.
"""

import argparse
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from spectra.bench.answer import turn_ids
from spectra.bench.progress import Progress
from spectra.bench.rows import Rows, claim
from spectra.bench.runner import PLAIN, guessed_from
from spectra.bench.tasks import Prompt, load_prompts
from spectra.cli import quiet_target
from spectra.decode import decode
from spectra.drafted import DRAFTED
from spectra.errors import SpectraError
from spectra.methods import METHODS, make_method
from spectra.metrics import first_difference
from spectra.settings import Limits, Sampling
from spectra.trace import write_text

FILE = "halves.jsonl"
COUNTS = {
    "stock": "stock generate: 16 bits against fp32",
    "half": "stock generate in 16 bits against plain decoding in exact numerics",
    "fast": "{method} against plain decoding, 16 bits, fast numerics",
    "exact": "{method} against plain decoding, 16 bits, exact numerics",
}

Answer = Callable[[list[int]], list[int]]
"""Prompt ids -> the new ones."""


def run_halves(chosen: argparse.Namespace) -> int:
    """The subcommand `halves`. Loads the model twice, in 16 bits and in fp32."""
    if chosen.method not in METHODS:
        raise SpectraError("method", f"{chosen.method!r} is unknown; choose one of {', '.join(METHODS)}")
    if chosen.numerics != "auto":
        raise SpectraError("numerics", "this command counts in fast and in exact ones; leave it out")
    if chosen.dtype not in ("bf16", "fp16"):
        raise SpectraError("dtype", f"{chosen.dtype!r} is not 16 bits wide; give bf16 or fp16")
    Limits(chosen.max_new_tokens)
    prompts = load_prompts(chosen.tasks, chosen.data, chosen.limit)
    target, ways = answers(chosen)
    shared = {
        "method": chosen.method, "max_new_tokens": chosen.max_new_tokens, **target.facts,
        **guessed_from(target, drafted=chosen.method in DRAFTED),
    }  # fmt: skip
    rows = compare(target, prompts, ways, shared, chosen.out)
    text = markdown(rows, chosen.method, ", ".join(f"{name} {value}" for name, value in target.facts.items()))
    write_text(chosen.out / "halves.md", text, "out")
    print(text, end="")
    return 0


def answers(chosen: argparse.Namespace) -> tuple[Any, dict[str, Answer]]:
    """(the target in 16 bits and exact numerics, every way to answer by name).

    Ours come first: they refuse a prompt that does not fit, which stock `generate` writes on and on about.
    """
    from spectra.bench.stock import run_peer
    from spectra.target.load import load_network, wrap_model

    exact = quiet_target(argparse.Namespace(**{**vars(chosen), "numerics": "exact"}))
    make_method(chosen.method, exact)  # one that lacks its datastore or draft model says so now
    fast = wrap_model(exact.model, exact.tokenizer, numerics="fast", name=exact.name)
    fast.stores, fast.drafts = exact.stores, exact.drafts
    network, tokenizer, name = load_network(chosen.model, device=chosen.device, dtype="fp32")
    whole = wrap_model(network, tokenizer, numerics="fast", name=name)
    limits = Limits(chosen.max_new_tokens, exact.eos)

    def ours(target: Any, method: str, ids: list[int]) -> list[int]:
        return [token for step in decode(target, ids, method, limits=limits) for token in step.tokens]

    def stock(target: Any, ids: list[int]) -> list[int]:
        return run_peer(target, "hf-generate", Sampling(), chosen.max_new_tokens, None, ids)[0]

    ways: dict[str, Answer] = {}
    for kind, target in (("fast", fast), ("exact", exact)):
        ways |= {f"{kind} plain": partial(ours, target, PLAIN), f"{kind} method": partial(ours, target, chosen.method)}
    return exact, ways | {"stock half": partial(stock, exact), "stock whole": partial(stock, whole)}


def compare(
    target: Any, prompts: Sequence[Prompt], ways: Mapping[str, Answer], shared: Mapping[str, Any], out: Path
) -> list[dict[str, Any]]:
    """A row a prompt: for each count the first token that differs, None where none does. The first turn."""
    claim(out, dict(shared))
    rows = Rows(out, FILE)
    known, progress = {(row["task"], row["id"]) for row in rows.all}, Progress(len(prompts))
    for prompt in prompts:
        missing = (prompt.task, prompt.id) not in known
        if missing:
            try:
                rows.add(_row(target, prompt, ways))
            except SpectraError as error:
                progress.leave_out(prompt, error)
        progress.step(ran=missing)
    wanted = {(prompt.task, prompt.id) for prompt in prompts}
    return [row for row in rows.all if (row["task"], row["id"]) in wanted]


def _row(target: Any, prompt: Prompt, ways: Mapping[str, Answer]) -> dict[str, Any]:
    ids = turn_ids(target.tokenizer, prompt, [])
    said = {name: answer(ids) for name, answer in ways.items()}
    return {
        "task": prompt.task, "id": prompt.id, "tokens": len(said["exact plain"]),
        "stock": first_difference(said["stock whole"], said["stock half"]),
        "half": first_difference(said["exact plain"], said["stock half"]),
        "fast": first_difference(said["fast plain"], said["fast method"]),
        "exact": first_difference(said["exact plain"], said["exact method"]),
    }  # fmt: skip


def markdown(rows: Sequence[Mapping[str, Any]], method: str, facts: str) -> str:
    """One row a count."""
    lines = [f"# Answers that half precision changes\n\n{facts}\n", "| | answers that differ | of |", "|---|---:|---:|"]
    for name, title in COUNTS.items():
        differ = sum(row[name] is not None for row in rows)
        lines.append(f"| {title.format(method=method)} | {differ} | {len(rows)} |")
    return "\n".join(lines) + "\n"
