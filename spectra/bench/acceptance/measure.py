"""`python -m spectra.bench acceptance`: how often draft models would be right, by rule, on the target's own answers.

Tables of SpecHub (EMNLP 2024 main 1148) and SpecInfer (2305.09781); every figure is a sum, not a draw.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from spectra.bench.acceptance.observer import Observer
from spectra.bench.acceptance.summary import summarise
from spectra.bench.acceptance.tables import markdown
from spectra.bench.run.answers import facts_line, turn_ids
from spectra.bench.run.rows import Row
from spectra.bench.run.runner import Cell, run_prompts
from spectra.bench.tasks import Prompt, PromptOptions
from spectra.decode import decode
from spectra.drafters.draft_model import SOURCES, Draft
from spectra.errors import SpectraError
from spectra.io.command_line import command_line
from spectra.io.files import check_writable_folder, write_text
from spectra.methods.preset import Setup
from spectra.service.loading import LoadedModel, ModelOptions
from spectra.settings import Limits, Sampling

FILE = "acceptance.jsonl"


@dataclass(frozen=True, slots=True)
class AcceptanceOptions:
    """What is looked at: answers to the first turns, at each of `temperatures`."""

    model: ModelOptions
    prompts: PromptOptions
    out: Path
    max_new_tokens: int = 256
    temperatures: tuple[float, ...] = (0.0, 0.3, 0.6, 1.0)
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        for temperature in self.temperatures:
            self.sampling(temperature)
        Limits(self.max_new_tokens)

    def sampling(self, temperature: float) -> Sampling:
        return Sampling(temperature, top_k=self.top_k, top_p=self.top_p, seed=self.seed)

    @property
    def command(self) -> str:
        """What to type for the same report."""
        model = self.model
        given = {
            "model": model.model,
            "dtype": None if model.dtype == "auto" else model.dtype,
            "numerics": None if model.numerics == "auto" else model.numerics,
            "data": "DIR",
            "tasks": None if self.prompts.tasks is None else ",".join(self.prompts.tasks),
            "limit": self.prompts.limit,
            "max-new-tokens": self.max_new_tokens,
            "temperatures": ",".join(f"{temperature:g}" for temperature in self.temperatures),
            "top-k": self.top_k,
            "top-p": f"{self.top_p:g}",
            "seed": self.seed,
            "out": "DIR",
        }
        words = [part for draft in model.drafts for part in ("--draft", str(draft))]
        words += [part for name, value in given.items() if value is not None for part in (f"--{name}", str(value))]
        return command_line("python -m spectra.bench acceptance", words)


def run_acceptance(options: AcceptanceOptions) -> int:
    """The subcommand `acceptance`."""
    check_writable_folder(options.out, "out")
    prompts = options.prompts.load()
    model = options.model.load()
    drafts = Setup("acceptance", model.target, model.resources).drafts(len(SOURCES))
    rows = look_on(model, drafts, prompts, options)
    if not rows:
        raise SpectraError("max_new_tokens", "no prompt and answer fit the model's context; ask for fewer")
    found = summarise(rows)
    facts = f"{facts_line(model.target)}, drafts {', '.join(draft.name for draft in drafts)}"
    text = markdown(found, f"    {options.command}\n\n{len(prompts)} prompts. {facts}.")
    write_text(options.out / "acceptance.json", json.dumps(found, indent=1) + "\n", "out")
    write_text(options.out / "acceptance.md", text, "out")
    print(text, end="")
    return 0


def look_on(
    model: LoadedModel, drafts: Sequence[Draft], prompts: Sequence[Prompt], options: AcceptanceOptions
) -> list[Row]:
    """A row for each prompt and temperature: what an `Observer` saw. Those without a position are left out."""
    settings = {
        "max_new_tokens": options.max_new_tokens, "drafts": [draft.name for draft in drafts], **model.target.facts,
        "top_k": options.top_k, "top_p": options.top_p, "seed": options.seed,
    }  # fmt: skip
    limits = Limits(options.max_new_tokens, model.target.eos)

    def measure(prompt: Prompt, missing: Sequence[Cell]) -> Iterator[Row]:
        ids = turn_ids(model.target.tokenizer, prompt)
        for cell in missing:
            sampling = options.sampling(cell["temperature"])
            observer = Observer(drafts, sampling)
            for _ in decode(model.target, ids, observer.method, sampling=sampling, limits=limits):
                pass
            yield {"positions": observer.positions}

    cells = [{"temperature": temperature} for temperature in options.temperatures]
    rows = run_prompts(options.out, FILE, settings, prompts, cells, measure)
    return [row for row in rows if row["positions"]]
