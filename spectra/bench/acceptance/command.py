"""`python -m spectra.bench acceptance`: how often draft models would be right, by rule, on the target's own answers.

Tables of SpecHub (EMNLP 2024 main 1148) and SpecInfer (2305.09781); every figure is a sum, not a draw.
"""

import argparse
import json
from pathlib import Path
from typing import Any

from spectra.bench.acceptance.summary import summarise
from spectra.bench.acceptance.tables import markdown
from spectra.bench.acceptance.witness import Witness
from spectra.bench.answer import turn_ids
from spectra.bench.progress import Progress
from spectra.bench.rows import Rows, claim
from spectra.bench.tasks import Prompt, load_prompts
from spectra.bench.values import names, numbers
from spectra.cli import command_line, number, quiet_target
from spectra.decode import decode
from spectra.drafted import need_drafts
from spectra.drafters.draft_model import SOURCES
from spectra.errors import SpectraError
from spectra.settings import Limits, Sampling
from spectra.trace import write_text

FILE = "acceptance.jsonl"


def add_acceptance_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of `acceptance` beside those of every command over tasks."""
    parser.add_argument("--temperatures", type=names, default=["0", "0.3", "0.6", "1"])
    parser.add_argument("--top-k", type=number(int), default=0)
    parser.add_argument("--top-p", type=number(float), default=1.0)


def run_acceptance(chosen: argparse.Namespace) -> int:
    """The subcommand `acceptance`."""
    samplings = [
        Sampling(temperature, top_k=chosen.top_k, top_p=chosen.top_p, seed=chosen.seed)
        for temperature in numbers("temperatures", chosen.temperatures, float)
    ]
    Limits(chosen.max_new_tokens)
    prompts = load_prompts(chosen.tasks, chosen.data, chosen.limit)
    target = quiet_target(chosen)
    rows = record(target, prompts, samplings, chosen.max_new_tokens, chosen.out)
    if not rows:
        raise SpectraError("max_new_tokens", "no prompt and answer fit the model's context; ask for fewer")
    found = summarise(rows)
    facts = [*target.facts.items(), ("drafts", ", ".join(draft.name for draft in need_drafts(target, len(SOURCES))))]
    note = (
        f"{_command(chosen)}\n\n{len(prompts)} prompts. " + ", ".join(f"{name} {value}" for name, value in facts) + "."
    )
    write_text(chosen.out / "acceptance.json", json.dumps(found, indent=1) + "\n", "out")
    text = markdown(found, note)
    write_text(chosen.out / "acceptance.md", text, "out")
    print(text, end="")
    return 0


def _command(chosen: argparse.Namespace) -> str:
    """What to type for the same report, as Markdown shows code."""
    loaded = {name: value for name in ("dtype", "numerics") if (value := getattr(chosen, name)) != "auto"}
    given = {
        "model": chosen.model, **loaded,
        "data": "DIR", "tasks": chosen.tasks and ",".join(chosen.tasks), "limit": chosen.limit,
        "max-new-tokens": chosen.max_new_tokens, "temperatures": ",".join(chosen.temperatures),
        "top-k": chosen.top_k, "top-p": f"{chosen.top_p:g}", "seed": chosen.seed, "out": "DIR",
    }  # fmt: skip
    drafts = [part for path in chosen.draft for part in ("--draft", path)]
    words = [part for name, value in given.items() if value is not None for part in (f"--{name}", str(value))]
    return "    " + command_line("python -m spectra.bench acceptance", [*drafts, *words])


def record(
    target: Any, prompts: list[Prompt], samplings: list[Sampling], tokens: int, out: Path
) -> list[dict[str, Any]]:
    """A row for each prompt and temperature: what a `Witness` saw. Appended to `out`; known rows are not run again."""
    drafts = need_drafts(target, len(SOURCES))
    shared = {"max_new_tokens": tokens, "drafts": [draft.name for draft in drafts], **target.facts}
    claim(out, {**shared, "top_k": samplings[0].top_k, "top_p": samplings[0].top_p, "seed": samplings[0].seed})
    rows = Rows(out, FILE)
    known = {(row["task"], row["id"], row["temperature"]) for row in rows.all}
    progress = Progress(len(prompts))
    for prompt in prompts:
        ran = False
        for sampling in samplings:
            if (prompt.task, prompt.id, sampling.temperature) in known:
                continue
            ran, witness = True, Witness(drafts, sampling)
            ids = turn_ids(target.tokenizer, prompt, [])
            try:
                for _ in decode(target, ids, witness.method, sampling=sampling, limits=Limits(tokens, target.eos)):
                    pass
            except SpectraError as error:
                progress.leave_out(prompt, error)
                break
            row = {"task": prompt.task, "id": prompt.id, "temperature": sampling.temperature}
            rows.add({**row, "positions": witness.positions})
        progress.step(ran=ran)
    wanted = {(prompt.task, prompt.id, sampling.temperature) for prompt in prompts for sampling in samplings}
    return [row for row in rows.all if (row["task"], row["id"], row["temperature"]) in wanted and row["positions"]]
