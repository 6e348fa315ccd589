"""`python -m spectra.bench half-precision`: how many greedy answers half precision changes, in stock transformers and
here.

Four counts over the same prompts: stock `generate` in 16 bits against itself in fp32, and against plain decoding in
exact numerics; SPECTRA against plain decoding in 16 bits, with fast numerics and with exact ones. The paper's appendix
counts 25 and 26 of 160.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from spectra.bench.run import peers
from spectra.bench.run.answers import drafted_from, facts_line, tokens_of, turn_ids
from spectra.bench.run.rows import Row
from spectra.bench.run.runner import Cell, run_prompts
from spectra.bench.tasks import Prompt, PromptOptions
from spectra.errors import SpectraError
from spectra.io.files import check_writable_folder, write_text
from spectra.methods.presets import PLAIN, check_method
from spectra.metrics import first_difference
from spectra.service.loading import LoadedModel, ModelOptions
from spectra.settings import Limits, Sampling

FILE = "half-precision.jsonl"
COUNTS = {
    "stock": "stock generate: 16 bits against fp32",
    "half": "stock generate in 16 bits against plain decoding in exact numerics",
    "fast": "{method} against plain decoding, 16 bits, fast numerics",
    "exact": "{method} against plain decoding, 16 bits, exact numerics",
}

Answer = Callable[[list[int]], list[int]]
"""Prompt ids -> the new ones."""


@dataclass(frozen=True, slots=True)
class HalfPrecisionOptions:
    """model: in 16 bits; this command chooses the numerics."""

    prompts: PromptOptions
    model: ModelOptions
    out: Path
    method: str = "spectra"
    max_new_tokens: int = 256

    def __post_init__(self) -> None:
        check_method(self.method)
        if self.model.numerics != "auto":
            raise SpectraError("numerics", "this command counts in fast and in exact ones; leave it out")
        if self.model.dtype not in ("bf16", "fp16"):
            raise SpectraError("dtype", f"{self.model.dtype!r} is not 16 bits wide; give bf16 or fp16")
        Limits(self.max_new_tokens)


class Ways(NamedTuple):
    """exact: the model in 16 bits and exact numerics. answers: every way to answer, by name."""

    exact: LoadedModel
    answers: Mapping[str, Answer]


def run_half_precision(options: HalfPrecisionOptions) -> int:
    """The subcommand `half-precision`. Loads the model twice, in 16 bits and in fp32."""
    check_writable_folder(options.out, "out")
    prompts = options.prompts.load()
    model, answers = load_ways(options)
    settings = {
        "method": options.method, "max_new_tokens": options.max_new_tokens, **model.target.facts,
        **drafted_from(model, [options.method]),
    }  # fmt: skip
    rows = compare(model.target.tokenizer, prompts, answers, settings, options.out)
    text = markdown(rows, options.method, facts_line(model.target))
    write_text(options.out / "half-precision.md", text, "out")
    print(text, end="")
    return 0


def load_ways(options: HalfPrecisionOptions) -> Ways:
    """Ours come first: they refuse a prompt that does not fit, which stock `generate` writes on and on about.

    Fast numerics and 32 bits are torch's: the native step is exact whatever was asked for.
    """
    exact = replace(options.model, numerics="exact").load()
    exact.check_methods([options.method])

    from spectra.target.load import load_network, wrap_model

    target = exact.target
    fast = replace(
        exact, target=wrap_model(target.model, target.tokenizer, numerics="fast", step="eager", name=target.name)
    )
    network, tokenizer, name = load_network(options.model.model, device=options.model.device, dtype="fp32")
    whole = wrap_model(network, tokenizer, numerics="fast", step="eager", name=name)
    limit = options.max_new_tokens

    def ours(model: LoadedModel, method: str, ids: list[int]) -> list[int]:
        return tokens_of(model, method, ids, limit)

    def stock(stock_target: Any, ids: list[int]) -> list[int]:
        return peers.run_peer(stock_target, "hf-generate", ids, sampling=Sampling(), max_new_tokens=limit).tokens

    answers: dict[str, Answer] = {
        "fast plain": partial(ours, fast, PLAIN),
        "fast method": partial(ours, fast, options.method),
        "exact plain": partial(ours, exact, PLAIN),
        "exact method": partial(ours, exact, options.method),
        "stock half": partial(stock, target),
        "stock whole": partial(stock, whole),
    }
    return Ways(exact, answers)


def compare(
    tokenizer: Any,
    prompts: Sequence[Prompt],
    answers: Mapping[str, Answer],
    settings: Mapping[str, Any],
    out: Path,
) -> list[Row]:
    """A row a prompt: for each count the first token that differs, None where none does. The first turn."""

    def measure(prompt: Prompt, _: Sequence[Cell]) -> Iterator[Row]:
        ids = turn_ids(tokenizer, prompt)
        said = {name: answer(ids) for name, answer in answers.items()}
        yield {
            "tokens": len(said["exact plain"]),
            "stock": first_difference(said["stock whole"], said["stock half"]),
            "half": first_difference(said["exact plain"], said["stock half"]),
            "fast": first_difference(said["fast plain"], said["fast method"]),
            "exact": first_difference(said["exact plain"], said["exact method"]),
        }

    return run_prompts(out, FILE, settings, prompts, [{}], measure)


def markdown(rows: Sequence[Mapping[str, Any]], method: str, facts: str) -> str:
    """One row a count."""
    lines = [f"# Answers that half precision changes\n\n{facts}\n", "| | answers that differ | of |", "|---|---:|---:|"]
    for name, title in COUNTS.items():
        differ = [row for row in rows if row[name] is not None]
        lines.append(f"| {title.format(method=method)} | {len(differ)} | {len(rows)} |")
    return "\n".join(lines) + "\n"
