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
from spectra.bench.rows import Rows, answer_key, claim
from spectra.bench.runner import PLAIN, guessed_from
from spectra.bench.tasks import Prompt, load_prompts
from spectra.bench.values import known, numbers
from spectra.cli import quiet_target
from spectra.decode import decode
from spectra.drafted import DRAFTED
from spectra.errors import SpectraError
from spectra.methods import METHODS, make_method, redraws
from spectra.settings import Limits, Sampling
from spectra.trace import write_text

TASKS = ("cnndm", "xsum")
FILE = "rouge.jsonl"


def run_rouge(chosen: argparse.Namespace) -> int:
    """The subcommand `rouge`."""
    methods = list(dict.fromkeys([PLAIN, *known("methods", chosen.methods, METHODS)]))
    temperatures = numbers("temperatures", chosen.temperatures, float)
    samplings = [Sampling(one, top_p=chosen.top_p, seed=chosen.seed) for one in temperatures]
    Limits(chosen.max_new_tokens)
    tasks = ["cnndm"] if chosen.tasks is None else chosen.tasks
    if not set(tasks) <= set(TASKS):
        raise SpectraError("tasks", f"only {' and '.join(TASKS)} have a reference; give some of them")
    prompts = [prompt for prompt in load_prompts(tasks, chosen.data, chosen.limit) if prompt.reference]
    if not prompts:
        raise SpectraError("data", "no article there has highlights or a summary; use the published file")
    target = quiet_target(chosen)
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
    """A row for each prompt, temperature and method: its three figures, and whether the text is plain decoding's.

    None where the method draws a text of its own.
    """
    shared = {
        "max_new_tokens": tokens, "top_p": samplings[0].top_p, "seed": samplings[0].seed, **target.facts,
        **guessed_from(target, drafted=not DRAFTED.keys().isdisjoint(methods)),
    }  # fmt: skip
    claim(out, shared)
    rows = Rows(out, FILE)
    done = {answer_key(row) for row in rows.all}
    progress = Progress(len(prompts))
    for prompt in prompts:
        ran = False
        for sampling in samplings:
            missing = [m for m in methods if (prompt.task, prompt.id, sampling.temperature, m) not in done]
            if not missing:
                continue
            ran = True
            try:
                said = _answers(target, prompt, missing, sampling, tokens)
            except SpectraError as error:
                progress.leave_out(prompt, error)
                break
            for method in missing:
                text = target.tokenizer.decode(said[method], skip_special_tokens=True)
                figures = dict(zip(NAMES, rouge(text, prompt.reference), strict=True))
                row = {"id": prompt.id, "task": prompt.task, "temperature": sampling.temperature, "method": method}
                same = None if redraws(method, sampling) else said[method] == said[PLAIN]
                rows.add({**row, **figures, "tokens": len(said[method]), "same": same})
        progress.step(ran=ran)
    wanted = {(p.task, p.id, s.temperature, m) for p in prompts for s in samplings for m in methods}
    return [row for row in rows.all if answer_key(row) in wanted]


def _answers(
    target: Any, prompt: Prompt, methods: Sequence[str], sampling: Sampling, tokens: int
) -> dict[str, list[int]]:
    """Method -> its new ids, plain decoding's first."""
    ids, limits = turn_ids(target.tokenizer, prompt, []), Limits(tokens, target.eos)
    said = {}
    for method in dict.fromkeys([PLAIN, *methods]):
        steps = decode(target, ids, method, sampling=sampling, limits=limits)
        said[method] = [token for step in steps for token in step.tokens]
    return said


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
            compared = [row["same"] for row in ours if row["same"] is not None]
            same = f"{sum(compared)} of {len(compared)}" if compared else ""
            tokens = mean(row["tokens"] for row in ours)
            lines.append(f"| {temperature:g} | {method} | {' | '.join(cells)} | {tokens:.0f} | {same} |")
    return "\n".join(lines) + "\n"


def _cell(values: Sequence[float]) -> str:
    error = f" ± {100 * stdev(values) / len(values) ** 0.5:.1f}" if len(values) > 1 else ""
    return f"{100 * mean(values):.1f}{error}"
