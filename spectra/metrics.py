"""Figures of one answer, read off its steps: tau, throughput, acceptance and share per source. No torch."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from spectra.guess import Source
from spectra.trace import StepTrace
from spectra.tree import ROOT


@dataclass(frozen=True, slots=True)
class Summary:
    """tokens: new ones. passes: forward passes of decoding, the prefill not counted. seconds: prefill included.

    tau: tokens / passes (the bonus token included). micro: tokens / seconds (Mic-TP). macro: mean over steps of
    tokens / seconds of the step (Mac-TP, SPECTRA 5.2). share: part of all tokens each source gets the credit for.
    acceptance: accepted / offered per source, counting nodes whose parent was accepted; a node that two sources
    offered counts for both. of_guessed: accepted / guessed per source, counting every guess, as the paper does
    (SPECTRA, Figure 3). distinct4: distinct 4-grams / 4-grams of the output (looping text inflates every figure).
    """

    tokens: int
    passes: int
    seconds: float
    prefill_seconds: float
    tau: float
    micro: float
    macro: float
    first_token_seconds: float
    share: dict[Source, float]
    acceptance: dict[Source, float]
    offered: dict[Source, int]
    of_guessed: dict[Source, float]
    guessed: dict[Source, int]
    distinct4: float
    finish: str

    def to_dict(self) -> dict[str, Any]:
        """The fields by name, as JSON has them."""
        return asdict(self)


class PlainRate(NamedTuple):
    """How fast plain decoding is: tokens a second, the prefill left out, after `context` tokens of text."""

    tokens_per_second: float
    context: int


def summarize(steps: Sequence[StepTrace]) -> Summary:
    """The figures of a run of steps, see `spectra.metrics.Summary`; an empty run gives zeros, and 1 for `distinct4`.

    tau is tokens / passes, micro tokens / seconds, prefill included; share and acceptance are by source.
    """
    tokens = [token for step in steps for token in step.tokens]
    prefill = sum(step.prefill_seconds for step in steps)
    seconds = prefill + sum(step.seconds for step in steps)
    credit = Counter(source for step in steps for source in step.sources)
    judged: dict[Source, Judged] = {}
    for step in steps:
        for source, one in judge(step).items():
            judged[source] = Judged(*map(sum, zip(judged.get(source, NOTHING), one, strict=True)))
    reached = {source: each for source, each in judged.items() if each.offered}
    return Summary(
        tokens=len(tokens),
        passes=len(steps),
        seconds=seconds,
        prefill_seconds=prefill,
        tau=len(tokens) / len(steps) if steps else 0.0,
        micro=len(tokens) / seconds if seconds > 0 else 0.0,
        macro=_mean(len(step.tokens) / step.seconds for step in steps if step.seconds > 0),
        first_token_seconds=prefill + steps[0].seconds if steps else 0.0,
        share={source: n / len(tokens) for source, n in credit.items()},
        acceptance={source: each.accepted / each.offered for source, each in reached.items()},
        offered={source: each.offered for source, each in reached.items()},
        of_guessed={source: each.accepted / each.guessed for source, each in judged.items()},
        guessed={source: each.guessed for source, each in judged.items()},
        distinct4=distinct4(tokens),
        finish=steps[-1].finish if steps else "",
    )


class Judged(NamedTuple):
    """Guesses, of one source or of all: those that were accepted, those whose parent was, all of them."""

    accepted: int
    offered: int
    guessed: int


NOTHING = Judged(0, 0, 0)


def judge(step: StepTrace) -> dict[Source, Judged]:
    """What came of each source's guesses; a guess that two sources had counts for both, a pool row for none."""
    on_path = {ROOT, *step.path}
    counts: dict[Source, list[int]] = {}
    for node, parent in enumerate(step.tree.parents):
        if node != ROOT and step.tree.eligible[node]:
            for source in step.tree.sources[node]:
                row = counts.setdefault(source, [0, 0, 0])
                row[0] += node in on_path
                row[1] += parent in on_path
                row[2] += 1
    return {source: Judged(*row) for source, row in counts.items()}


def overall(steps: Sequence[StepTrace]) -> Judged:
    """What came of all guesses, each counted once however many sources had it; a pool row is none."""
    total = [0, 0, 0]
    for step in steps:
        on_path = {ROOT, *step.path}
        for node, parent in enumerate(step.tree.parents):
            if node != ROOT and step.tree.eligible[node]:
                total[0] += node in on_path
                total[1] += parent in on_path
                total[2] += 1
    return Judged(*total)


def speedup(plain: Summary, other: Summary, *, macro: bool = False) -> float:
    """How many times faster than plain decoding, by all tokens / all time, or by the paper's Mac-TP."""
    below = plain.macro if macro else plain.micro
    above = other.macro if macro else other.micro
    return above / below if below > 0 else 0.0


def distinct4(tokens: Sequence[int]) -> float:
    """Share of 4-grams that are distinct; 1.0 for text shorter than that."""
    grams = [tuple(tokens[i : i + 4]) for i in range(len(tokens) - 3)]
    return len(set(grams)) / len(grams) if grams else 1.0


def first_difference(a: Sequence[int], b: Sequence[int]) -> int | None:
    """Index of the first token that differs (a shorter text differs where it ends), None when equal."""
    for i, (x, y) in enumerate(zip(a, b, strict=False)):
        if x != y:
            return i
    return None if len(a) == len(b) else min(len(a), len(b))


def _mean(values: Iterable[float]) -> float:
    values = list(values)
    return sum(values) / len(values) if values else 0.0
