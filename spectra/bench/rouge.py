"""`python -m spectra.bench rouge`: are sampled summaries as good as plain decoding's? (the paper's Table 7, on CNN/DM).

Answers of each method at each temperature against the published highlights. Rows are kept, so a run that was stopped
goes on; the reference comes from the same file as the article.
"""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from spectra.bench.answer import turn_ids
from spectra.bench.progress import Progress
from spectra.bench.rouge_score import NAMES, rouge
from spectra.bench.rows import Rows, claim
from spectra.bench.runner import PLAIN
from spectra.bench.tasks import Prompt, load_prompts
from spectra.bench.values import numbers
from spectra.cli import quiet_target
from spectra.decode import decode
from spectra.errors import SpectraError
from spectra.methods import METHODS, make_method
from spectra.settings import Limits, Sampling
from spectra.trace import write_text

TASKS = ("cnndm", "xsum")
FILE = "rouge.jsonl"


def run_rouge(chosen: argparse.Namespace) -> int:
    """The subcommand `rouge`."""
    for method in chosen.methods:
        if method not in METHODS:
            raise SpectraError("methods", f"{method!r} is unknown; choose from {', '.join(METHODS)}")
    temperatures = numbers("temperatures", chosen.temperatures, float)
    samplings = [Sampling(one, top_p=chosen.top_p, seed=chosen.seed) for one in temperatures]
    Limits(chosen.max_new_tokens)
    tasks = chosen.tasks or ["cnndm"]
    if not set(tasks) <= set(TASKS):
        raise SpectraError("tasks", f"only {' and '.join(TASKS)} have a reference; give some of them")
    prompts = [prompt for prompt in load_prompts(tasks, chosen.data, chosen.limit) if prompt.reference]
    if not prompts:
        raise SpectraError("data", "no article there has highlights or a summary; use the published file")
    target = quiet_target(chosen)
    methods = list(dict.fromkeys([PLAIN, *chosen.methods]))
    for method in methods:
        make_method(method, target)  # one that lacks its datastore or draft model says so now
    rows = score(target, prompts, methods, samplings, chosen.max_new_tokens, chosen.out)
    facts = ", ".join(f"{name} {value}" for name, value in target.facts.items())
    note = f"{len(prompts)} prompts, at most {chosen.max_new_tokens} tokens, top-p {chosen.top_p:g}, seed {chosen.seed}"
    text = markdown(rows, methods, f"{note}. {facts}.")
    write_text(chosen.out / "rouge.md", text, "out")
    print(text, end="")
    return 0


def score(
    target: Any,
    prompts: Sequence[Prompt],
    methods: Sequence[str],
    samplings: Sequence[Sampling],
    tokens: int,
    out: Path,
) -> list[dict[str, Any]]:
    """A row for each prompt, temperature and method: its three figures, and whether the text is plain decoding's."""
    shared = {"max_new_tokens": tokens, "top_p": samplings[0].top_p, "seed": samplings[0].seed, **target.facts}
    claim(out, shared)
    rows = Rows(out, FILE)
    known = {(row["id"], row["temperature"], row["method"]) for row in rows.all}
    progress = Progress(len(prompts))
    for prompt in prompts:
        ran = False
        for sampling in samplings:
            missing = [m for m in methods if (prompt.id, sampling.temperature, m) not in known]
            if not missing:
                continue
            ran, limits = True, Limits(tokens, target.eos)
            ids = turn_ids(target.tokenizer, prompt, [])
            said = {}
            for method in dict.fromkeys([PLAIN, *missing]):
                steps = decode(target, ids, method, sampling=sampling, limits=limits)
                said[method] = [token for step in steps for token in step.tokens]
            for method in missing:
                text = target.tokenizer.decode(said[method], skip_special_tokens=True)
                figures = dict(zip(NAMES, rouge(text, prompt.reference), strict=True))
                row = {"id": prompt.id, "task": prompt.task, "temperature": sampling.temperature, "method": method}
                rows.add({**row, **figures, "tokens": len(said[method]), "same": said[method] == said[PLAIN]})
        progress.step(ran=ran)
    wanted = {(p.id, s.temperature, m) for p in prompts for s in samplings for m in methods}
    return [row for row in rows.all if (row["id"], row["temperature"], row["method"]) in wanted]


def markdown(rows: Sequence[Mapping[str, Any]], methods: Sequence[str], note: str) -> str:
    """One row a temperature and method."""
    lines = [
        "# ROUGE of summaries\n",
        f"{note}\n",
        "F1 in %, mean and standard error over the prompts, against the published highlights.\n",
        "| temperature | method | " + " | ".join(NAMES) + " | tokens | plain decoding's text |",
        "|---:|---|" + "---:|" * (len(NAMES) + 2),
    ]
    for temperature in sorted({row["temperature"] for row in rows}):
        for method in methods:
            ours = [row for row in rows if (row["temperature"], row["method"]) == (temperature, method)]
            cells = [_cell([row[name] for row in ours]) for name in NAMES]
            same = sum(row["same"] for row in ours)
            tokens = mean(row["tokens"] for row in ours)
            lines.append(f"| {temperature:g} | {method} | {' | '.join(cells)} | {tokens:.0f} | {same} of {len(ours)} |")
    return "\n".join(lines) + "\n"


def _cell(values: Sequence[float]) -> str:
    error = f" ± {100 * stdev(values) / len(values) ** 0.5:.1f}" if len(values) > 1 else ""
    return f"{100 * mean(values):.1f}{error}"
