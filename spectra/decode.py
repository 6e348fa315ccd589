"""The loop (SPECTRA, Algorithm 1): grow a token tree, score it in one forward pass, walk it, learn, repeat.

A generator of steps: streaming, collecting, the page and the benchmarks all iterate it. Plain decoding is the same
loop without drafters. Does not know tokenizers or text. Several sequences at once: `spectra/batch/decode_many.py`.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from spectra.guess import Source
from spectra.inside import joined
from spectra.io.laps import Laps
from spectra.method import Explainer, Finisher, Holder, Method, Outcome, Scored, Session, Target, check_parts
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
    Closing the generator frees the target. Raises, at the first step, SpectraError and TargetBusyError (it is busy).
    """
    check_parts(target, method, sampling, limits)
    sampling, limits = sampling or Sampling(), limits or Limits(eos=target.eos)
    session = target.start(
        prompt, limits.max_new_tokens, method.max_nodes + 1, sampling, top_k=method.top_k, **session_options
    )
    try:
        one = Decoding(session, prompt, method, limits, explain=explain, trees=target.trees)
        while not one.finish:
            tree = one.cut(method.choose(one.grow()))
            scored = session.score(tree, one.tokens)  # ONE forward pass
            one.lap("forward")
            yield one.take(tree, scored)
    finally:
        session.close()


class Decoding:
    """One sequence of the loop. A step is `grow`, `cut` to the size that the budget chose, a forward pass, `take`.

    tokens: all of them, `produced` new ones. finish: why the answer ended, "" until then. trees: see `Target`.
    """

    def __init__(
        self, session: Session, prompt: Sequence[int], method: Method, limits: Limits, *, explain: bool, trees: bool
    ) -> None:
        self.session, self.method, self.limits, self._trees = session, method, limits, trees
        self.tokens, self.finish = [int(token) for token in prompt], ""
        self.produced = self._index = 0
        self._holders = [drafter for drafter in method.drafters if isinstance(drafter, Holder)]
        self._clock = Laps()
        for drafter in method.drafters:
            drafter.begin(self.tokens[:])
        self._explainers = [drafter for drafter in method.drafters if explain and isinstance(drafter, Explainer)]

    def grow(self, *, asks: bool = True) -> TokenTree:
        """All guesses for what comes next. asks: False for a step without any, at which no drafter is asked."""
        self._looked = [explainer.look(self.tokens) for explainer in self._explainers]
        self._clock.restart()
        grown = TokenTree(self.tokens[-1], noise=partial(_noise_at, self.session, len(self.tokens) - 1))
        for drafter in self.method.drafters if asks else ():
            drafter.grow(grown, self.tokens)
        # deeper guesses could not be written any more
        self._grown = grown.within(self.limits.max_new_tokens - self.produced - 1)
        self._held = {str(source): int(size) for holder in self._holders for source, size in holder.held().items()}
        self.lap("draft")
        return self._grown

    def cut(self, chosen: TokenTree) -> TokenTree:
        """What is scored of the part that the budget chose."""
        tree = chosen if self._trees else chosen.chain()
        self.lap("draft")
        return tree

    def lap(self, part: str) -> None:
        """Book the time since the last lap to a part of the step."""
        self._clock.lap(part)

    def take(self, tree: TokenTree, scored: Scored) -> StepTrace:
        """Walk what was scored, keep the accepted run, learn."""
        path, picked = self.method.walk(tree, scored)
        emitted, self.finish = self.limits.cut(self.tokens, self.produced, picked)
        path = path[: len(emitted)]
        self.lap("verify")

        self.session.keep(path[: len(emitted) - 1])  # the last token is the next root, even where the answer ends
        self.tokens += emitted
        outcome = Outcome(tree, path, emitted, scored.read, scored.known, scored.top)
        for drafter in self.method.drafters:
            drafter.observe(self.tokens, outcome)
        self.method.budget.observe(self._grown, emitted)
        for finisher in (one for one in self.method.drafters if self.finish and isinstance(one, Finisher)):
            finisher.end(self.tokens)
        self.lap("keep")
        return self._trace(tree, path, picked, emitted)

    def _trace(self, tree: TokenTree, path: Sequence[int], picked: Sequence[int], emitted: Sequence[int]) -> StepTrace:
        seconds, parts = self._clock.step()
        taught = [explainer.taught() for explainer in self._explainers]
        step = StepTrace(
            index=self._index,
            tokens=tuple(emitted),
            sources=tuple([tree.sources[n][0] for n in path] + [Source.MODEL])[: len(emitted)],
            path=tuple(path),
            picks=tuple(picked[: len(path) + 1]),
            tree=TreeTrace.of(tree),
            seconds=seconds,
            prefill_seconds=0.0 if self.produced else self.session.prefill_seconds,
            parts=parts,
            finish=self.finish,
            held=self._held,
            offered=sum(self._grown.eligible) - 1,
            inside=joined([*self._looked, *taught]) if self._explainers else None,
        )
        self.produced += len(emitted)
        self._index += 1
        return step


def _noise_at(session: Session, root: int, depth: int) -> Noise | None:
    """The noise of nodes at this depth of a tree whose root is the token at position `root`."""
    return session.noise(root + depth)
