"""Time methods on the same prompts, in turn for each prompt so that drift hits all alike. Resumable, one row a run."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from spectra import __version__
from spectra.bench.answer import Answer, Run, answer_turns, row_of
from spectra.bench.peers import PEERS
from spectra.bench.progress import Progress
from spectra.bench.rows import Rows, claim
from spectra.bench.tasks import Prompt
from spectra.decode import decode
from spectra.errors import SpectraError
from spectra.methods import redraws
from spectra.preset import Method
from spectra.settings import Limits, Sampling
from spectra.target.protocol import StepCost
from spectra.trace import StepTrace

PLAIN = "autoregressive"
WARM_UP = 16


@dataclass(frozen=True, slots=True)
class Job:
    """What all rows of a folder share. assistant: the draft model of the peer that needs one, already loaded.

    variants: methods that are no presets, by the name their rows get. drafted: some method drafts with a model.
    cost: the T(q) that budgets plan by, where it is not this device's own.
    """

    sampling: Sampling
    max_new_tokens: int = 256
    nodes: int | None = None
    assistant: Any = None
    variants: Mapping[str, Callable[[], Method]] | None = None
    drafted: bool = False
    cost: StepCost | None = None

    def settings(self, target: Any) -> dict[str, Any]:
        """As every row and the folder record them."""
        facts = dict(target.facts)
        versions = {name: facts.pop(name) for name in ("torch", "transformers", "python") if name in facts}
        versions["spectra"] = __version__
        return {
            "temperature": self.sampling.temperature, "top_p": self.sampling.top_p, "seed": self.sampling.seed,
            "max_new_tokens": self.max_new_tokens, "nodes": self.nodes, **facts, "versions": versions,
            "assistant": getattr(self.assistant, "name_or_path", None),
            **guessed_from(target, drafted=self.drafted),
            **({"cost": self.cost.table} if self.cost else {}),
        }  # fmt: skip


def guessed_from(target: Any, *, drafted: bool) -> dict[str, Any]:
    """What methods guess from, as rows and folders record it. drafted: some method drafts with a model."""
    drafts = {"drafts": [draft.name for draft in target.drafts]} if drafted else {}
    return {"datastores": sorted(store.name for store in target.stores), **drafts}


def run_methods(
    target: Any, prompts: list[Prompt], methods: list[str], out: Path, job: Job, *, repeats: int = 1
) -> list[dict[str, Any]]:
    """Rows of `out`/rows.jsonl, new ones appended as they finish; rows that are there are not run again.

    Plain decoding always runs, first. A prompt that does not fit the context is left out, with a note. The first calls
    are a warm-up and not recorded. Raises SpectraError where `out` holds rows of other settings, or no prompt fits.
    """
    methods = [PLAIN, *[m for m in dict.fromkeys(methods) if m != PLAIN]]
    settings = job.settings(target)
    claim(out, settings)
    rows = Rows(out)
    done = {(row["task"], row["id"], row["method"], row["repeat"]) for row in rows.all}
    plain = {row["id"]: Answer(row["output"]) for row in rows.all if row["method"] == PLAIN}
    progress, cold = Progress(len(prompts)), True
    for prompt in prompts:
        wanted = [(m, r) for r in range(repeats) for m in methods if (prompt.task, prompt.id, m, r) not in done]
        for method, repeat in wanted:
            try:
                if cold:
                    _warm_up(target, prompt, methods, job)
                cold = False
                answer = answer_turns(target.tokenizer, prompt, run_of(target, method, job), plain.get(prompt.id))
            except SpectraError as error:
                progress.leave_out(prompt, error)
                break
            base = plain.setdefault(prompt.id, answer)
            comparable = job.sampling.greedy or not (method in PEERS or redraws(method.split()[0], job.sampling))
            row = {
                "task": prompt.task, "id": prompt.id, "category": prompt.category, "turns": len(prompt.turns),
                "method": method, "repeat": repeat, **row_of(answer, base, comparable=comparable), **settings,
            }  # fmt: skip
            rows.add(row | ({"output": answer.outputs} if method == PLAIN else {}))
        progress.step(ran=bool(wanted))
    ours = {(prompt.task, prompt.id) for prompt in prompts}
    return [row for row in rows.all if (row["task"], row["id"]) in ours and row["method"] in methods]


def run_of(target: Any, method: str, job: Job) -> Run:
    """What answers one turn."""
    if method in PEERS:
        from spectra.bench.stock import run_peer

        return partial(run_peer, target, method, job.sampling, job.max_new_tokens, job.assistant)
    return partial(_run_steps, target, method, job)


def _run_steps(target: Any, method: str, job: Job, ids: list[int]) -> tuple[list[int], float, list[StepTrace]]:
    made = (job.variants or {}).get(method)
    limits = Limits(job.max_new_tokens, target.eos)
    began = time.perf_counter()
    chosen = made() if made else method
    steps = list(decode(target, ids, chosen, sampling=job.sampling, limits=limits, nodes=job.nodes))
    return [token for step in steps for token in step.tokens], time.perf_counter() - began, steps


def _warm_up(target: Any, prompt: Prompt, methods: list[str], job: Job) -> None:
    short = replace(job, max_new_tokens=min(WARM_UP, job.max_new_tokens))
    first = replace(prompt, turns=prompt.turns[:1])
    for method in methods:
        answer_turns(target.tokenizer, first, run_of(target, method, short))
