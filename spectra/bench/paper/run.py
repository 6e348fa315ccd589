"""`python -m spectra.bench paper`: the paper's Tables 1, 2 and 4 of one model, beside the paper's own figures.

A preset of `run`: its tasks, lengths and methods, greedy, seed 0. Each length is a run of its own in a folder of its
own, so that a stopped one goes on.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from spectra.bench.paper.figures import PaperFigures, read_figures
from spectra.bench.paper.tables import ABLATIONS, COMPARED, paper_tables
from spectra.bench.report.merge import merge, report
from spectra.bench.run.answers import AnswerOptions, check_names, facts_line
from spectra.bench.run.rows import Row, make_folder
from spectra.bench.tasks import Prompt, PromptOptions
from spectra.bench.timing import run_methods, split_methods
from spectra.errors import SpectraError
from spectra.io.files import write_text
from spectra.methods.presets import METHODS
from spectra.service.loading import ModelOptions
from spectra.settings import Limits
from spectra.target.choices import unless_embedded
from spectra.target.hub_cache import is_there

CODE, TEXT = 512, 1024
LENGTHS = {"mt-bench": TEXT, "gsm8k": TEXT, "humaneval": CODE, "mbpp": CODE, "classeval": CODE, "cnndm": TEXT}
"""New tokens at most, by task."""
TASKS = ("mt-bench", "gsm8k", "humaneval", "mbpp", "classeval")
"""Chat, maths and code."""
MODELS = {
    "llama-2-7b": "meta-llama/Llama-2-7b-chat-hf",
    "llama-2-13b": "meta-llama/Llama-2-13b-chat-hf",
    "llama-2-70b": "meta-llama/Llama-2-70b-chat-hf",
    "llama-3-8b": "meta-llama/Meta-Llama-3-8B-Instruct",
    "llama-3-70b": "meta-llama/Meta-Llama-3-70B-Instruct",
    "vicuna-7b": "lmsys/vicuna-7b-v1.5",
    "vicuna-13b": "lmsys/vicuna-13b-v1.5",
    "codellama-7b": "codellama/CodeLlama-7b-Instruct-hf",
    "codellama-13b": "codellama/CodeLlama-13b-Instruct-hf",
    "codellama-34b": "codellama/CodeLlama-34b-Instruct-hf",
}
"""Hub ids by short name."""


@dataclass(frozen=True, slots=True)
class PaperOptions:
    """methods: presets. max_new_tokens: None is that of each task. figures: the paper's, None is those that are known.

    The model may be one of MODELS.
    """

    prompts: PromptOptions
    model: ModelOptions
    out: Path
    methods: tuple[str, ...] = (*COMPARED, *ABLATIONS)
    max_new_tokens: int | None = None
    figures: Path | None = None

    def __post_init__(self) -> None:
        check_names("methods", self.methods, METHODS)
        if self.prompts.tasks is not None:
            check_names("tasks", self.prompts.tasks, LENGTHS)
        if self.max_new_tokens is not None:
            Limits(self.max_new_tokens)
        hub_id(self.model.model)
        self.read_figures()

    def read_figures(self) -> PaperFigures:
        return read_figures(self.figures, LENGTHS)

    def length(self, task: str) -> int:
        """New tokens at most."""
        return self.max_new_tokens or LENGTHS[task]


def hub_id(model: str | None) -> str | None:
    """What a short name stands for; anything else as it is. Raises SpectraError for an unknown short name."""
    named = unless_embedded(model)
    if named is None or "/" in named or is_there(named.strip()):
        return model
    name = named.strip().lower()
    if name not in MODELS:
        raise SpectraError(
            "model", f"{named[:80]!r} is unknown; choose from {', '.join(MODELS)}, or give a hub id, a folder or a file"
        )
    return MODELS[name]


def run_paper(options: PaperOptions) -> int:
    """The subcommand `paper`. A method that lacks its datastore is left out, with a note."""
    prompts = options.prompts.load(TASKS)
    tasks = list(dict.fromkeys(prompt.task for prompt in prompts))
    make_folder(options.out)
    model = replace(options.model, model=hub_id(options.model.model)).load()
    methods, notes = split_methods(model, options.methods)
    notes += [
        f"{task}: its file is not there" for task in (() if options.prompts.tasks else TASKS) if task not in tasks
    ]
    rows: list[Row] = []
    folders = []
    for length in sorted({options.length(task) for task in tasks}):
        some = [prompt for prompt in prompts if options.length(prompt.task) == length]
        folders.append(options.out / f"{length}")
        rows += run_methods(model, some, methods, folders[-1], AnswerOptions(length))
    name = str(model.target.name)
    rows.sort(key=lambda row: tasks.index(row["task"]))
    text = "\n\n".join(
        [
            f"# The paper's Tables 1, 2 and 4: {name}",
            f"{facts_line(model.target)}. Temperature 0, seed 0. {_asked(options, prompts)}",
            *(["Left out:\n\n" + "\n".join(f"- {note}" for note in notes)] if notes else []),
            paper_tables(rows, options.methods, name, options.read_figures()),
        ]
    )
    write_text(options.out / "paper.md", text, "out")
    write_text(options.out / "details.md", report(merge(folders)), "out")
    print(text, end="")
    return 0


def _asked(options: PaperOptions, prompts: Sequence[Prompt]) -> str:
    """How many prompts of each task, and how long their answers may be."""
    counts = dict.fromkeys((prompt.task for prompt in prompts), 0)
    for prompt in prompts:
        counts[prompt.task] += 1
    parts = [f"{task} {count} ({options.length(task)})" for task, count in counts.items()]
    return f"Prompts, and new tokens a turn at most: {', '.join(parts)}."
