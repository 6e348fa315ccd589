"""`python -m spectra.bench rouge`: are summaries worse when they are decoded speculatively, also above temperature 0?

ROUGE of the answers of each method at each temperature against the published highlights, which come from the same file
as the article. ROUGE is Google's rouge-score: F1 over lower-case words of ASCII letters and digits, no stemming.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from spectra.bench.run.answers import check_names, drafted_from, facts_line, tokens_of, turn_ids
from spectra.bench.run.rows import Row
from spectra.bench.run.runner import Cell, run_prompts
from spectra.bench.tasks import Prompt, PromptOptions
from spectra.errors import SpectraError
from spectra.io.files import check_writable_folder, write_text
from spectra.methods.presets import METHODS, PLAIN, redraws
from spectra.service.loading import LoadedModel, ModelOptions
from spectra.settings import Limits, Sampling

TASKS = ("cnndm", "xsum")
FILE = "rouge.jsonl"
NAMES = {"ROUGE-1": "rouge1", "ROUGE-2": "rouge2", "ROUGE-L": "rougeL"}
"""Our name of each figure, and the package's."""

Score = Callable[[str, str], dict[str, float]]


@dataclass(frozen=True, slots=True)
class RougeOptions:
    """Each of `methods`, and plain decoding, at each of `temperatures`. prompts: without tasks it is cnndm."""

    prompts: PromptOptions
    model: ModelOptions
    out: Path
    methods: tuple[str, ...] = ("spectra",)
    temperatures: tuple[float, ...] = (0.0, 1.0)
    top_p: float = 1.0
    max_new_tokens: int = 256
    seed: int = 0

    def __post_init__(self) -> None:
        check_names("methods", self.methods, METHODS)
        for temperature in self.temperatures:
            self.sampling(temperature)
        Limits(self.max_new_tokens)
        if not set(self.prompts.tasks or ()) <= set(TASKS):
            raise SpectraError("tasks", f"only {' and '.join(TASKS)} have a reference; give some of them")

    def sampling(self, temperature: float) -> Sampling:
        return Sampling(temperature, top_p=self.top_p, seed=self.seed)

    @property
    def compared(self) -> list[str]:
        """The methods, plain decoding first."""
        return list(dict.fromkeys([PLAIN, *self.methods]))


def run_rouge(options: RougeOptions) -> int:
    """The subcommand `rouge`."""
    check_writable_folder(options.out, "out")
    prompts = [prompt for prompt in _articles(options.prompts) if prompt.reference]
    if not prompts:
        raise SpectraError("data", "no article there has highlights or a summary; use the published file")
    score = scorer()
    model = options.model.load()
    model.check_methods(options.compared)
    rows = score_answers(model, prompts, options, score)
    counts = f"{len(prompts)} prompts, at most {options.max_new_tokens} tokens"
    note = f"{counts}, top-p {options.top_p:g}, seed {options.seed}. {facts_line(model.target)}."
    text = markdown(rows, options.compared, note)
    write_text(options.out / "rouge.md", text, "out")
    print(text, end="")
    return 0


def scorer() -> Score:
    """(text, reference) -> figures from 0 to 1 by name. Raises SpectraError where the package is missing."""
    try:
        from rouge_score.rouge_scorer import RougeScorer
    except ImportError as error:
        raise SpectraError("rouge_score", "its package is not installed; pip install rouge-score") from error
    rouge = RougeScorer(list(NAMES.values()))

    def score(text: str, reference: str) -> dict[str, float]:
        found = rouge.score(target=reference, prediction=text)
        return {ours: float(found[theirs].fmeasure) for ours, theirs in NAMES.items()}

    return score


def _articles(prompts: PromptOptions) -> list[Prompt]:
    if prompts.tasks is None:
        return PromptOptions(prompts.data, ("cnndm",), prompts.limit).load()
    return prompts.load()


def score_answers(model: LoadedModel, prompts: Sequence[Prompt], options: RougeOptions, score: Score) -> list[Row]:
    """A row for each prompt, temperature and method: its three figures, and whether the text is plain decoding's.

    None where the method draws a text of its own.
    """
    tokens = options.max_new_tokens
    settings = {
        "max_new_tokens": tokens, "top_p": options.top_p, "seed": options.seed, **model.target.facts,
        **drafted_from(model, options.methods), "rouge": "rouge-score",
    }  # fmt: skip
    cells = [{"temperature": t, "method": method} for t in options.temperatures for method in options.compared]

    def measure(prompt: Prompt, missing: Sequence[Cell]) -> Iterator[Row]:
        ids = turn_ids(model.target.tokenizer, prompt)
        for temperature, some in groupby(missing, itemgetter("temperature")):
            sampling = options.sampling(temperature)
            plain = tokens_of(model, PLAIN, ids, tokens, sampling)
            for method in map(itemgetter("method"), some):
                said = plain if method == PLAIN else tokens_of(model, method, ids, tokens, sampling)
                text = model.target.tokenizer.decode(said, skip_special_tokens=True)
                same = None if redraws(method, sampling) else said == plain
                yield {**score(text, prompt.reference), "tokens": len(said), "same": same}

    return run_prompts(options.out, FILE, settings, prompts, cells, measure)


def markdown(rows: Sequence[Mapping[str, Any]], methods: Sequence[str], note: str) -> str:
    """One row a temperature and method."""
    lines = [
        "# ROUGE of summaries\n",
        f"{note}\n",
        "F1 in %, mean and standard error over the prompts, against the published highlights. Words: rouge-score's.\n",
        "| temperature | method | " + " | ".join(NAMES) + " | tokens | plain decoding's text |",
        "|---:|---|" + "---:|" * (len(NAMES) + 2),
    ]
    for temperature in sorted({row["temperature"] for row in rows}):
        for method in methods:
            ours = [row for row in rows if row["temperature"] == temperature and row["method"] == method]
            cells = [_cell([row[name] for row in ours]) for name in NAMES]
            compared = [row["same"] for row in ours if row["same"] is not None]
            same = f"{compared.count(True)} of {len(compared)}" if compared else ""
            tokens = mean(row["tokens"] for row in ours)
            lines.append(f"| {temperature:g} | {method} | {' | '.join(cells)} | {tokens:.0f} | {same} |")
    return "\n".join(lines) + "\n"


def _cell(values: Sequence[float]) -> str:
    error = f" ± {100 * stdev(values) / len(values) ** 0.5:.1f}" if len(values) > 1 else ""
    return f"{100 * mean(values):.1f}{error}"
