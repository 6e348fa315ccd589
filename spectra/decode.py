"""The loop (SPECTRA, Algorithm 1): grow a token tree, score it in one forward pass, walk it, learn, repeat.

A generator of steps: streaming, collecting, the page and the benchmarks all iterate it. Plain decoding is the same
loop without drafters. Does not know tokenizers or text.
"""

import time
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from spectra.guess import Source
from spectra.inside import joined
from spectra.method import Explainer, Finisher, Holder, Method, Outcome, Session, Target
from spectra.settings import Limits, Sampling
from spectra.trace import StepTrace, TreeTrace
from spectra.tree import Noise, TokenTree


def decode(
    target: Target,
    prompt: Sequence[int],
    method: Method,
    *,
    sampling: Sampling | None = None,
    limits: Limits | None = None,
    explain: bool = False,
    **session_options: Any,
) -> Iterator[StepTrace]:
    """Answer `prompt` (token ids), one `StepTrace` a forward pass. The tokens equal plain decoding's.

    Above temperature 0 a method whose drafts carry probabilities has plain decoding's distribution instead.

    method: a fresh one, it learns as it goes (`make_method` has presets by name). sampling: default greedy.
    limits: default 256 new tokens and the target's end-of-sequence ids. explain: steps tell what drafters looked up and
    learned (`StepTrace.inside`); the time it takes is not counted. session_options: handed to `target.start`
    (`processors=`: transformers logits processors; `prefix=`: a `Prefix`).
    Closing the generator frees the target. Raises SpectraError for bad input, TargetBusyError for a busy target.
    """
    sampling = sampling or Sampling()
    limits = limits or Limits(eos=target.eos)
    session = target.start(
        prompt, limits.max_new_tokens, method.max_nodes + 1, sampling, top_k=method.top_k, **session_options
    )
    try:
        tokens, produced, index, finish = list(prompt), 0, 0, ""
        holders = [drafter for drafter in method.drafters if isinstance(drafter, Holder)]
        clock = _Clock()
        for drafter in method.drafters:
            drafter.begin(prompt)
        explainers = [drafter for drafter in method.drafters if explain and isinstance(drafter, Explainer)]
        while not finish:
            looked = [explainer.look(tokens) for explainer in explainers]
            clock.restart()
            grown = TokenTree(tokens[-1], noise=partial(_noise_at, session, len(tokens) - 1))
            for drafter in method.drafters:
                drafter.grow(grown, tokens)
            grown = grown.within(limits.max_new_tokens - produced - 1)  # deeper guesses could not be written any more
            held = {str(source): size for holder in holders for source, size in holder.held().items()}
            tree = method.budget.choose(grown)
            if not target.trees:
                tree = tree.chain()
            clock.lap("draft")

            scored = session.score(tree, tokens)  # ONE forward pass
            clock.lap("forward")

            path, picked = method.walk(tree, scored)
            emitted, finish = limits.cut(tokens, produced, picked)
            path = path[: len(emitted)]
            clock.lap("verify")

            session.keep(path[: len(emitted) - 1])  # the last token is the next root, even where the answer ends
            tokens += emitted
            outcome = Outcome(tree, path, emitted, scored.read, scored.known, scored.top)
            for drafter in method.drafters:
                drafter.observe(tokens, outcome)
            method.budget.observe(grown, emitted)
            for finisher in (one for one in method.drafters if finish and isinstance(one, Finisher)):
                finisher.end(tokens)
            clock.lap("keep")

            seconds, parts = clock.step()
            step = StepTrace(
                index=index,
                tokens=tuple(emitted),
                sources=tuple([tree.sources[n][0] for n in path] + [Source.MODEL])[: len(emitted)],
                path=tuple(path),
                picks=tuple(picked[: len(path) + 1]),
                tree=TreeTrace.of(tree),
                seconds=seconds,
                prefill_seconds=0.0 if produced else session.prefill_seconds,
                parts=parts,
                finish=finish,
                held=held,
                offered=sum(grown.eligible) - 1,
                inside=joined([*looked, *(each.taught() for each in explainers)]) if explainers else None,
            )
            produced += len(emitted)
            index += 1
            yield step
    finally:
        session.close()


def _noise_at(session: Session, root: int, depth: int) -> Noise | None:
    """The noise of nodes at this depth of a tree whose root is the token at position `root`."""
    return session.noise(root + depth)


class _Clock:
    """Seconds of a step by part. Time between steps, the consumer's, is not counted."""

    def __init__(self) -> None:
        self.parts: dict[str, float] = {}
        self.restart()

    def restart(self) -> None:
        self._last = time.perf_counter()

    def lap(self, part: str) -> None:
        """Book the time since the last lap to `part`."""
        now = time.perf_counter()
        self.parts[part] = self.parts.get(part, 0.0) + now - self._last
        self._last = now

    def step(self) -> tuple[float, dict[str, float]]:
        """(seconds of the step, its parts); starts the next one."""
        parts, self.parts = self.parts, {}
        return sum(parts.values()), parts
